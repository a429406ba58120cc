import { test } from 'vitest';

const run = process.env['TEST_EFFORT'];

/** How hard a promise is tried: a bit by `npm test`, and a lot by `npm run test:long`. */
export function effort<T>(short: T, long: T): T {
  return run === 'long' ? long : short;
}

/** A promise whose trial takes too long for `npm test` however little is tried. Other runs try it, each as hard as it does. */
export const longTest = test.runIf(run !== 'short');
