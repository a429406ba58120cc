import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { operations } from '../../src/domain/operations.ts';
import { toolsOf } from '../../src/mcp/tools.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import { routes } from '../../src/rest/routes.ts';
import type { Json } from '../support/client.ts';

// Which operations are tools of programs that talk, and how these are described to them.

const tools = [...toolsOf(routes).values()];
const methodOf = new Map(routes.map(({ operation, method }) => [operation.name, method]));

test('no tool gives out or changes a credential, manages webhooks, deletes or streams: a text must not talk a model into it', () => {
  const names = tools.map(({ description }) => description.name);
  const bound = routes.filter(({ operation }) => names.includes(operation.name));
  expect(bound.filter(({ method, streams }) => method === 'DELETE' || streams)).toEqual([]);
  expect(bound.filter(({ operation }) => operation.keysOnly || operation.scope === 'webhooks:manage')).toEqual([]);
  const ofKeys = bound.filter(({ operation }) => operation.scope === 'keys:manage');
  expect(ofKeys.map(({ operation }) => operation.name)).toEqual(['listApiKeys', 'listDocuments']);
});

test('all that is left is a tool', () => {
  const left = routes.filter(
    ({ operation: { scope, keysOnly }, method, streams }) =>
      method !== 'DELETE' &&
      !streams &&
      !keysOnly &&
      scope !== 'webhooks:manage' &&
      (scope !== 'keys:manage' || method === 'GET'),
  );
  expect(tools.map(({ description }) => description.name).sort()).toEqual(
    left.map(({ operation }) => operation.name).sort(),
  );
});

describe.each(tools.map(({ description }) => description))(
  '$name',
  ({ name, description, inputSchema, annotations }) => {
    const operation = operations[name as keyof typeof operations];

    test('is described as its operation', () => {
      expect(description).toContain(operation.summary);
    });

    test('says whether it only reads', () => {
      const method = methodOf.get(name);
      expect(annotations).toEqual(
        method === 'GET'
          ? { readOnlyHint: true, openWorldHint: false }
          : {
              readOnlyHint: false,
              destructiveHint: method === 'PATCH',
              idempotentHint: method === 'PATCH' || method === 'PUT',
              openWorldHint: false,
            },
      );
    });

    test('takes the fields of its operation, each described, and no other', () => {
      const { properties = {}, additionalProperties } = inputSchema as Json;
      const { shape } = operation.input as unknown as { shape: object };
      expect(Object.keys(properties).sort()).toEqual(Object.keys(shape).sort());
      expect(additionalProperties).toBe(false);
      expect(Object.values(properties).filter((field: Json) => !field.description)).toEqual([]);
    });

    test('has a schema that models’ interfaces take: an object without a choice at its top', () => {
      expect(inputSchema.type).toBe('object');
      expect(
        Object.keys(inputSchema).filter((key) => ['allOf', 'anyOf', 'oneOf', '$ref', '$schema'].includes(key)),
      ).toEqual([]);
      const ajv = new Ajv2020({ strict: false });
      formats(ajv);
      expect(() => ajv.compile(inputSchema)).not.toThrow();
    });
  },
);

test('a body and the tool of its operation take the same', () => {
  const { schemas } = openApiDocument(routes).components;
  const bodies = tools.flatMap(({ description: { name, inputSchema } }) => {
    const body = schemas[`${name.replace(/^./, (first) => first.toUpperCase())}Input`];
    return Object.entries(body?.properties ?? {}).map(([field, schema]) => ({
      field: `${name}.${field}`,
      same: JSON.stringify(schema) === JSON.stringify((inputSchema.properties as Json)[field]),
    }));
  });
  expect(bodies.length).toBeGreaterThan(20);
  expect(bodies.filter(({ same }) => !same)).toEqual([]);
});
