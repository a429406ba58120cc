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

/** Marks a field of an operation's input or of a resource, as the last thing that is said of its schema. */
export function deprecated<Schema extends z.ZodType>(field: Schema, deprecation: Deprecation): Schema {
  checkDeprecation(deprecation);
  const description = [field.description, deprecationReason(deprecation)]
    .filter((text) => text !== undefined)
    .join(' ');
  const marked = field.meta({ deprecated: true, description });
  deprecations.add(marked as z.ZodType, deprecation);
  return marked;
}

/** The fields of an object that are deprecated, by name. */
export function deprecatedFields(object: z.ZodType): ReadonlyMap<string, Deprecation> {
  const { shape } = object as z.ZodObject;
  return new Map(
    Object.entries(shape).flatMap(([name, field]) => {
      const deprecation = deprecations.get(field as z.ZodType);
      return deprecation === undefined ? [] : [[name, deprecation]];
    }),
  );
}
