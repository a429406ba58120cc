import { z } from 'zod';

/** Marks something that clients should stop using. `/v1` keeps it until the sunset date. */
export interface Deprecation {
  /** Date of the deprecation, such as `2026-11-21`. */
  readonly since: string;
  /** Date from which it may be removed, at least twelve months later. */
  readonly sunset: string;
  /** One sentence: what to use instead. */
  readonly note: string;
}

const monthsToLeave = 12;
const dateOnly = z.iso.date();

/** @throws Error for invalid dates, or less than twelve months between them */
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
/** While nothing is deprecated, schemas are not searched, which would slow down every start. */
let areAny = false;

/** Marks a field of an operation's input or of a resource. Has to be the last call on the field's schema. */
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
 * The deprecated fields of an object, by name.
 * @throws Error for a field that was described or wrapped after it was marked, which would lose half of the mark
 */
export function deprecatedFields(object: z.ZodType): ReadonlyMap<string, Deprecation> {
  if (!areAny) return new Map();
  const { shape } = object as z.ZodObject;
  return new Map(
    Object.entries(shape).flatMap(([name, field]) => {
      const schema = field as z.ZodType;
      if (!deprecations.has(schema) && holdsDeprecated(schema, { intoObjects: false })) {
        throw new Error(`\`deprecated\` has to be the last call on the field ${name}`);
      }
      const deprecation = deprecations.get(schema);
      return deprecation === undefined ? [] : [[name, deprecation]];
    }),
  );
}

/**
 * Makes sure that the deprecations in an operation's input can be shown in both APIs, and that clients can heed them.
 * @throws Error for a required field, and for a nested one: the headers of REST cover only top-level fields
 */
export function checkDeprecatedInput(input: z.ZodType): void {
  if (!areAny) return;
  const { shape } = input as z.ZodObject;
  for (const name of deprecatedFields(input).keys()) {
    if (!(shape[name] as z.ZodType).isOptional()) {
      throw new Error(`The field ${name} cannot be deprecated while it is required: clients could not stop using it`);
    }
  }
  for (const [name, field] of Object.entries(shape)) {
    if (partsOf(field as z.ZodType).some((part) => holdsDeprecated(part))) {
      throw new Error(`Only whole fields of an input can be deprecated, not parts of ${name}`);
    }
  }
}

/** Whether a schema or any part of it is deprecated. */
function holdsDeprecated(schema: z.ZodType, options = { intoObjects: true }): boolean {
  if (deprecations.get(schema) !== undefined) return true; // also after it was described again
  if (schema instanceof z.ZodObject && !options.intoObjects) return false;
  return partsOf(schema).some((part) => holdsDeprecated(part, options));
}

export type ObjectShape = z.ZodObject;

/** The objects in a field's schema, however wrapped. */
export function objectsIn(field: z.ZodType): ObjectShape[] {
  return field instanceof z.ZodObject ? [field] : partsOf(field).flatMap(objectsIn);
}

/** The direct parts of a schema: the schema it wraps, its items, alternatives or fields. */
function partsOf(schema: z.ZodType): z.ZodType[] {
  const parts: unknown[] =
    schema instanceof z.ZodObject ? Object.values(schema.shape) : Object.values(schema.def).flat();
  return parts.filter((part) => part instanceof z.ZodType);
}
