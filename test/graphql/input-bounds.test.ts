import { type GraphQLInputObjectType, getNamedType, isInputObjectType } from 'graphql';
import { expect, test } from 'vitest';
import { schema } from '../../src/graphql/schema.ts';
import type { JsonSchema } from '../../src/http/json-schema.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import { routes } from '../../src/rest/routes.ts';

const { schemas } = openApiDocument(routes).components as { schemas: Record<string, JsonSchema> };

/** Where `openapi.json` bounds the length of a text. */
interface Bound {
  readonly field: string;
  readonly max: number;
  readonly description: string;
}

/** The bounds of an input's fields, and of what is in them. */
function boundsOf(type: GraphQLInputObjectType, { properties = {} }: JsonSchema): Bound[] {
  return Object.values(type.getFields()).flatMap((field): Bound[] => {
    const inner = getNamedType(field.type);
    const found = alternativesOf(properties[field.name] ?? {});
    if (isInputObjectType(inner)) return found.flatMap((each) => boundsOf(inner, each));
    const name = `${type.name}.${field.name}`;
    return found.flatMap(({ maxLength: max }) =>
      typeof max === 'number' ? { field: name, max, description: field.description ?? '' } : [],
    );
  });
}

/** A schema, or those of which it is one, or that of the items of a list. */
function alternativesOf(found: JsonSchema): JsonSchema[] {
  const all = [found, ...(found.anyOf ?? []), ...(found.items === undefined ? [] : [found.items])] as JsonSchema[];
  return all.map((each) => (each.$ref === undefined ? each : (schemas[each.$ref.split('/').at(-1) ?? ''] ?? each)));
}

const inputs = Object.values(schema.getTypeMap())
  .filter(isInputObjectType)
  .flatMap((type) => (schemas[type.name] === undefined ? [] : [[type.name, type] as const]));

test.each(inputs)('the descriptions of %s say how long each text may be, as openapi.json does', (name, type) => {
  const untold = boundsOf(type, schemas[name] as JsonSchema).filter(({ max, description }) => {
    const inWords = [max.toLocaleString('en-GB'), ...(max % 1_024 === 0 ? [`${max / 1_024} KiB`] : [])];
    return !inWords.some((words) => description.includes(words));
  });
  expect(untold).toEqual([]);
});
