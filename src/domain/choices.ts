import { z } from 'zod';

/**
 * A list of some of a few values. Its length is looked at first: a list of a hundred thousand must not
 * be gone through to find out that it is too long. Zod's own checks of it would take that of a text as well.
 */
export function choices<const T extends readonly [string, ...string[]]>(values: T) {
  return z
    .array(z.unknown(), { error: 'must be a list' })
    .refine((list) => list.length > 0, { error: 'must name at least one' })
    .refine((list) => list.length <= values.length, { error: `must name at most ${values.length}` })
    .pipe(z.array(z.enum(values)))
    .meta({ minItems: 1, maxItems: values.length, items: { type: 'string', enum: [...values] } });
}
