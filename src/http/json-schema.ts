import * as z from 'zod';

/** JSON Schema 2020-12, as used by OpenAPI 3.1. */
export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly format?: string;
  readonly minimum?: number;
  readonly examples?: readonly unknown[];
  readonly [keyword: string]: unknown;
}

/** A schema as it was made of a zod type, to be changed in place. */
export type Conversion = Parameters<Override>[0];

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>;

/**
 * The JSON schema of a zod type for input or output. Nested types with an id are in its `$defs`.
 * @param adaptMore called for each part
 */
export function jsonSchemaOf(
  type: z.ZodType,
  io: 'input' | 'output',
  adaptMore: (conversion: Conversion) => void = () => {},
): JsonSchema & { readonly $defs?: Readonly<Record<string, JsonSchema>> } {
  const { $schema: _, ...schema } = z.toJSONSchema(type, {
    io,
    unrepresentable: 'any',
    override(conversion) {
      adapt(conversion, io);
      adaptMore(conversion);
    },
  });
  return schema as JsonSchema;
}

/** Whether a field, which the operation requires, may be left out with a token that says it. */
function isGivenByToken(field: z.core.$ZodType | undefined): boolean {
  return field !== undefined && z.globalRegistry.get(field)?.['givenByToken'] === true;
}

/** Removes zod's keywords that do not concern clients. */
function adapt({ zodSchema, jsonSchema }: Conversion, io: 'input' | 'output'): void {
  delete jsonSchema['givenByToken'];
  if (io === 'input' && zodSchema instanceof z.ZodObject && jsonSchema.required !== undefined) {
    const { shape } = zodSchema;
    jsonSchema.required = jsonSchema.required.filter((name) => !isGivenByToken(shape[name]));
  }
  delete jsonSchema.readOnly; // zod's `readonly` concerns only TypeScript
  delete jsonSchema.propertyNames; // every key is a string
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  // A missing field counts as null anyway, and type generators treat a field with a default as always present.
  if (jsonSchema.default === null) delete jsonSchema.default;
  // `format` says the same as zod's long pattern.
  if (zodSchema instanceof z.ZodISODateTime) delete jsonSchema.pattern;
  // Responses may get more fields in later versions.
  if (io === 'output' && zodSchema instanceof z.ZodObject) delete jsonSchema.additionalProperties;
}
