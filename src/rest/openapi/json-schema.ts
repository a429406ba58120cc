import { z } from 'zod';

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

const componentPath = '#/components/schemas/';

/** The named schemas of a document. */
export class SchemaComponents {
  readonly schemas: Record<string, JsonSchema> = {};

  /**
   * Converts a zod type for input or output. Nested types with an id become components.
   * @throws Error when two different schemas have the same name
   */
  of(type: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const converted = z.toJSONSchema(type, { io, unrepresentable: 'any', override: (context) => adapt(context, io) });
    const text = JSON.stringify(converted).replaceAll('"#/$defs/', `"${componentPath}`);
    const {
      $schema: _,
      $defs = {},
      ...schema
    } = JSON.parse(text) as JsonSchema & { $defs?: Record<string, JsonSchema> };
    for (const [name, component] of Object.entries($defs)) this.name(name, component);
    return schema;
  }

  /** Adds a schema as a component, and returns a reference to it. */
  name(name: string, schema: JsonSchema): JsonSchema {
    const known = this.schemas[name];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema)) {
      throw new Error(`Two schemas have the name ${name}`);
    }
    this.schemas[name] = schema;
    return { $ref: componentPath + name };
  }

  /** Follows a reference; other schemas are returned as they are. */
  resolve(schema: JsonSchema): JsonSchema {
    return schema.$ref === undefined ? schema : (this.schemas[nameOf(schema.$ref)] ?? {});
  }
}

/** The name of the component that a reference points to. */
export function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1);
}

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>;

/** Removes zod's keywords that do not concern clients, and adds those of OpenAPI. */
function adapt({ zodSchema, jsonSchema }: Parameters<Override>[0], io: 'input' | 'output'): void {
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
  if (zodSchema instanceof z.ZodDiscriminatedUnion)
    Object.assign(jsonSchema, { discriminator: discriminatorOf(zodSchema) });
}

/** The discriminator of a union, with the schema for each of its values. */
function discriminatorOf({ def }: z.ZodDiscriminatedUnion): object {
  const mapping = (def.options as readonly z.ZodObject[]).map((option) => {
    const literal = option.shape[def.discriminator] as z.ZodLiteral;
    return [literal.value, componentPath + z.globalRegistry.get(option)?.id];
  });
  return { propertyName: def.discriminator, mapping: Object.fromEntries(mapping) };
}
