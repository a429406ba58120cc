import * as z from 'zod';
import { type Conversion, type JsonSchema, jsonSchemaOf } from '../../http/json-schema.ts';

const componentPath = '#/components/schemas/';

/** The named schemas of a document. */
export class SchemaComponents {
  readonly schemas: Record<string, JsonSchema> = {};

  /**
   * Converts a zod type for input or output. Nested types with an id become components.
   * @throws Error when two different schemas have the same name
   */
  of(type: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const text = JSON.stringify(jsonSchemaOf(type, io, addDiscriminator)).replaceAll('"#/$defs/', `"${componentPath}`);
    const { $defs = {}, ...schema } = JSON.parse(text) as ReturnType<typeof jsonSchemaOf>;
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

/** Adds OpenAPI's discriminator to a union, with the schema for each of its values. */
function addDiscriminator({ zodSchema, jsonSchema }: Conversion): void {
  if (!(zodSchema instanceof z.ZodDiscriminatedUnion)) return;
  const { def } = zodSchema;
  const mapping = (def.options as readonly z.ZodObject[]).map((option) => {
    const literal = option.shape[def.discriminator] as z.ZodLiteral;
    return [literal.value, componentPath + z.globalRegistry.get(option)?.id];
  });
  const discriminator = { propertyName: def.discriminator, mapping: Object.fromEntries(mapping) };
  Object.assign(jsonSchema, { discriminator });
}
