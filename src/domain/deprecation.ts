import { z } from 'zod';

/** What is said of something that clients should stop using: `/v1` never takes it away before its time. */
export interface Deprecation {
  /** The date since which it is deprecated, such as `2026-11-21`. */
  readonly since: string;
  /** The date from which on it may be gone: twelve months later at least. */
  readonly sunset: string;
  /** One sentence: what to use in its place. */
  readonly note: string;
}

const monthsToLeave = 12;
const dateOnly = z.iso.date();

/** @throws Error when a client would have less than twelve months to do without it */
export function checkDeprecation({ since, sunset }: Deprecation): void {
  for (const date of [since, sunset]) {
    if (!dateOnly.safeParse(date).success) throw new Error(`A deprecation needs dates such as 2026-11-21: ${date}`);
  }
  const earliest = new Date(since);
  earliest.setUTCMonth(earliest.getUTCMonth() + monthsToLeave);
  if (Date.parse(sunset) < earliest.getTime()) {
    throw new Error(
      `What is deprecated since ${since} cannot be gone by ${sunset}: that is not ${monthsToLeave} months`,
    );
  }
}

export function deprecationReason({ since, sunset, note }: Deprecation): string {
  return `${note} Deprecated since ${since}; it may be gone from ${sunset} on.`;
}

const deprecations = z.registry<Deprecation>();
/** While nothing is deprecated, nothing is looked through: each start would take longer for it. */
let areAny = false;

/** Marks a field of an operation's input or of a resource, as the last thing that is said of its schema. */
export function deprecated<Schema extends z.ZodType>(field: Schema, deprecation: Deprecation): Schema {
  checkDeprecation(deprecation);
  const description = [field.description, deprecationReason(deprecation)]
    .filter((text) => text !== undefined)
    .join(' ');
  const marked = field.meta({ deprecated: true, description });
  deprecations.add(marked as z.ZodType, deprecation);
  areAny = true;
  return marked;
}

/**
 * The fields of an object that are deprecated, by name.
 * @throws Error for a field that was described or wrapped after it was marked: that would be half of it
 */
export function deprecatedFields(object: z.ZodType): ReadonlyMap<string, Deprecation> {
  if (!areAny) return new Map();
  const { shape } = object as z.ZodObject;
  return new Map(
    Object.entries(shape).flatMap(([name, field]) => {
      const schema = field as z.ZodType;
      if (!deprecations.has(schema) && holdsDeprecated(schema, { intoObjects: false })) {
        throw new Error(`\`deprecated\` has to be the last thing that is said of the field ${name}`);
      }
      const deprecation = deprecations.get(schema);
      return deprecation === undefined ? [] : [[name, deprecation]];
    }),
  );
}

/**
 * Makes sure that what is deprecated of an operation's input is said on both faces, and can be heeded. REST's
 * headers are for the fields of the input itself, not for those within them.
 * @throws Error
 */
export function checkDeprecatedInput(input: z.ZodType): void {
  if (!areAny) return;
  const { shape } = input as z.ZodObject;
  for (const name of deprecatedFields(input).keys()) {
    if (!(shape[name] as z.ZodType).isOptional()) {
      throw new Error(`The field ${name} cannot be deprecated while it is required: nobody could do without it`);
    }
  }
  for (const [name, field] of Object.entries(shape)) {
    if (partsOf(field as z.ZodType).some((part) => holdsDeprecated(part))) {
      throw new Error(`Of an input only whole fields can be deprecated, not what is within ${name}`);
    }
  }
}

/** Whether a schema is deprecated, or anything in it. */
function holdsDeprecated(schema: z.ZodType, options = { intoObjects: true }): boolean {
  if (deprecations.get(schema) !== undefined) return true; // also where that was described anew
  if (schema instanceof z.ZodObject && !options.intoObjects) return false;
  return partsOf(schema).some((part) => holdsDeprecated(part, options));
}

/** The shape of a resource, or of an object within one. */
export type ObjectShape = z.ZodObject;

/** The objects that a field holds, whatever is around them. */
export function objectsIn(field: z.ZodType): ObjectShape[] {
  return field instanceof z.ZodObject ? [field] : partsOf(field).flatMap(objectsIn);
}

/** The schemas that a schema is made of: what it wraps, its items, its alternatives, its fields. */
function partsOf(schema: z.ZodType): z.ZodType[] {
  const parts: unknown[] =
    schema instanceof z.ZodObject ? Object.values(schema.shape) : Object.values(schema.def).flat();
  return parts.filter((part) => part instanceof z.ZodType);
}
