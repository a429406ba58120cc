const isLong = process.env['TEST_EFFORT'] === 'long';

/** How hard a promise is tried: a bit by `npm test`, and a lot by `npm run test:long`. */
export function effort<T>(short: T, long: T): T {
  return isLong ? long : short;
}
