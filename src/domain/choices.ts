import * as z from 'zod';

/**
 * A non-empty list of values from a small set. Its length is checked before its items, so that a list of a hundred
 * thousand is refused without validating each. Zod's own length checks would accept a string as well.
 */
export function choices<const T extends readonly [string, ...string[]]>(values: T) {
  return z
    .array(z.unknown(), { error: 'must be a list' })
    .refine((list) => list.length > 0, { error: 'must name at least one' })
    .refine((list) => list.length <= values.length, { error: `must name at most ${values.length}` })
    .pipe(z.array(z.enum(values)))
    .meta({ minItems: 1, maxItems: values.length, items: { type: 'string', enum: [...values] } });
}
