import type * as z from 'zod';

/**
 * The descriptions of a shape's fields, for GraphQL, which defines its types itself.
 * @throws Error for a field without a description
 */
export function descriptionsOf<Fields extends z.ZodRawShape>({ shape }: z.ZodObject<Fields>) {
  const entries = Object.entries(shape).map(([name, field]) => {
    const { description } = field as z.ZodType;
    if (description === undefined) throw new Error(`The field ${name} has no description`);
    return [name, description];
  });
  return Object.fromEntries(entries) as { readonly [Name in keyof Fields]: string };
}

/** @throws Error for a schema without a description */
export function descriptionOf({ description }: z.ZodType): string {
  if (description === undefined) throw new Error('A shape has no description');
  return description;
}

/** What describes the fields of a record. */
export type ObjectShape = z.ZodObject;

/** What a shape says of a field, in the words of GraphQL. @throws Error for a field without a description */
export function fieldIn({ shape }: ObjectShape, name: string): { nullable: boolean; description: string } {
  const field = shape[name] as z.ZodType;
  const { description } = field;
  if (description === undefined) throw new Error(`The field ${name} has no description`);
  return { nullable: field.isNullable(), description };
}
