import { z } from 'zod';

/** JSON Schema 2020-12 as OpenAPI 3.1 has it. */
export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly deprecated?: boolean;
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

/** The schemas of a document that have a name of their own. */
export class SchemaComponents {
  readonly schemas: Record<string, JsonSchema> = {};

  /**
   * The schema of what is taken in, or given out. Those within it that have an id become components.
   * @throws Error when one name stands for two schemas
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

  /** Gives a schema a name of its own. */
  name(name: string, schema: JsonSchema): JsonSchema {
    const known = this.schemas[name];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema)) {
      throw new Error(`Two schemas have the name ${name}`);
    }
    this.schemas[name] = schema;
    return { $ref: componentPath + name };
  }

  /** The schema itself, if it is a reference to one. */
  resolve(schema: JsonSchema): JsonSchema {
    return schema.$ref === undefined ? schema : (this.schemas[nameOf(schema.$ref)] ?? {});
  }
}

/** The name of the component that is referred to. */
export function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1);
}

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>;

/** Takes away what zod says and a client need not know, and adds what OpenAPI has of its own. */
function adapt({ zodSchema, jsonSchema }: Parameters<Override>[0], io: 'input' | 'output'): void {
  delete jsonSchema.readOnly; // of TypeScript
  delete jsonSchema.propertyNames; // every key is a string
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  // What is left out is as null; generators of types would take a field with a default for one that is always there.
  if (jsonSchema.default === null) delete jsonSchema.default;
  // The format says it, in fewer words than zod's pattern.
  if (zodSchema instanceof z.ZodISODateTime) delete jsonSchema.pattern;
  // Answers may get more fields in time.
  if (io === 'output' && zodSchema instanceof z.ZodObject) delete jsonSchema.additionalProperties;
  if (zodSchema instanceof z.ZodDiscriminatedUnion)
    Object.assign(jsonSchema, { discriminator: discriminatorOf(zodSchema) });
}

/** Which value of the telling field stands for which schema. */
function discriminatorOf({ def }: z.ZodDiscriminatedUnion): object {
  const mapping = (def.options as readonly z.ZodObject[]).map((option) => {
    const literal = option.shape[def.discriminator] as z.ZodLiteral;
    return [literal.value, componentPath + z.globalRegistry.get(option)?.id];
  });
  return { propertyName: def.discriminator, mapping: Object.fromEntries(mapping) };
}
