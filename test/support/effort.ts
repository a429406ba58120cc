import { test } from 'vitest';

const isLong = process.env['TEST_EFFORT'] === 'long';

/** How hard a promise is tried: a bit by `npm test`, and a lot by `npm run test:long`. */
export function effort<T>(short: T, long: T): T {
  return isLong ? long : short;
}

/** A promise whose trial takes too long for `npm test` however little is tried. */
export const longTest = test.runIf(isLong);
