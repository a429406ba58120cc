import type { JsonSchema } from '../../http/json-schema.ts';
import type { SchemaComponents } from './json-schema.ts';

const exampleTime = '2026-11-21T06:12:00.000Z';

/**
 * An example that is valid against a schema. Where the schema has none, it is composed of its parts; optional fields
 * are included only if they have an example.
 */
export function exampleOf(schema: JsonSchema, components: SchemaComponents): unknown {
  if (schema.examples !== undefined) return schema.examples[0];
  if (schema.$ref !== undefined) return exampleOf(components.resolve(schema), components);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const [alternative] = schema.oneOf ?? schema.anyOf ?? [];
  if (alternative !== undefined) return exampleOf(alternative, components);
  const type = typeof schema.type === 'string' ? schema.type : schema.type?.[0];
  switch (type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {})
          .filter(([name, property]) => schema.required?.includes(name) || hasExample(property, components))
          .map(([name, property]) => [name, exampleOf(property, components)]),
      );
    case 'array':
      return [exampleOf(schema.items ?? {}, components)];
    case 'string':
      return schema.format === 'date-time' ? exampleTime : 'text';
    case 'integer':
    case 'number':
      return schema.default ?? schema.minimum ?? 1;
    case 'boolean':
      return false;
    default:
      return null;
  }
}

/** Whether a schema or any part of it has an example. */
function hasExample(schema: JsonSchema, components: SchemaComponents): boolean {
  const { examples, properties = {}, anyOf = [] } = components.resolve(schema);
  if (examples !== undefined || schema.examples !== undefined) return true;
  return [...Object.values(properties), ...anyOf].some((part) => hasExample(part, components));
}
