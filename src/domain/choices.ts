import { z } from 'zod';

/**
 * A list of some of a few values. Its length is looked at first: a list of a hundred thousand must not
 * be gone through to find out that it is too long.
 */
export function choices<const T extends readonly [string, ...string[]]>(values: T) {
  return z
    .array(z.unknown(), { error: 'must be a list' })
    .min(1, { error: 'must name at least one' })
    .max(values.length, { error: `must name at most ${values.length}` })
    .pipe(z.array(z.enum(values)))
    .meta({ items: { type: 'string', enum: [...values] } });
}
