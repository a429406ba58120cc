import type { z } from 'zod';

/**
 * What a shape says of each of its fields, for a face that has types of its own.
 * @throws Error for a field that is not described
 */
export function descriptionsOf<Fields extends z.ZodRawShape>({ shape }: z.ZodObject<Fields>) {
  const entries = Object.entries(shape).map(([name, field]) => {
    const { description } = field as z.ZodType;
    if (description === undefined) throw new Error(`The field ${name} is not described`);
    return [name, description];
  });
  return Object.fromEntries(entries) as { readonly [Name in keyof Fields]: string };
}

/** @throws Error for what is not described */
export function descriptionOf({ description }: z.ZodType): string {
  if (description === undefined) throw new Error('A shape is not described');
  return description;
}
