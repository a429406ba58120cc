import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import {
  type GraphQLEnumType,
  type GraphQLInterfaceType,
  type GraphQLObjectType,
  type GraphQLScalarType,
  getNamedType,
  isInputObjectType,
  isNonNullType,
  isObjectType,
  isScalarType,
  isSpecifiedScalarType,
  printSchema,
} from 'graphql';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import { errorCodes } from '../src/domain/errors.ts';
import { graphqlOnlyOperations, operations } from '../src/domain/operations.ts';
import { schema } from '../src/graphql/schema.ts';
import { openApiDocument } from '../src/rest/openapi/document.ts';
import type { OpenApiDocument, PathItem } from '../src/rest/openapi/types.ts';
import { routes } from '../src/rest/routes.ts';

// What is printed from the code and committed. `npm run generate` writes it anew.

const allOperations = { ...operations, ...graphqlOnlyOperations };

const readme = fileURLToPath(new URL('../README.md', import.meta.url));

/** The fields that call an operation: `name` of a root type, `Type.name` of another. */
function fieldsCalling(operation: string): string[] {
  const roots = new Set([schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]);
  return Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .flatMap((type) =>
      Object.values(type.getFields())
        .filter((field) => field.extensions['operation'] === operation)
        .map((field) => (roots.has(type) ? field.name : `${type.name}.${field.name}`)),
    );
}

function requestsCalling(operation: string): string[] {
  return routes
    .filter((route) => route.operation.name === operation)
    .map(({ method, path }) => `${method} /v1${path.replaceAll(/:(\w+)/g, '{$1}')}`);
}

test.each(Object.keys(operations))('%s is on both faces, under its own name', (name) => {
  expect(operations[name as keyof typeof operations].name).toBe(name);
  expect(requestsCalling(name)).toHaveLength(1);
  expect(fieldsCalling(name).length).toBeGreaterThan(0);
});

test.each(Object.keys(graphqlOnlyOperations))('%s is in GraphQL alone, under its own name', (name) => {
  expect(graphqlOnlyOperations[name as keyof typeof graphqlOnlyOperations].name).toBe(name);
  expect(requestsCalling(name)).toEqual([]);
  expect(fieldsCalling(name).length).toBeGreaterThan(0);
});

test('no face has an operation that the domain does not list', () => {
  const called = Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .flatMap((type) => Object.values(type.getFields()).flatMap(({ extensions }) => extensions['operation'] ?? []));
  const unlisted = (names: readonly unknown[], listed: object) =>
    names.filter((name) => !Object.keys(listed).includes(String(name)));
  expect(
    unlisted(
      routes.map((route) => route.operation.name),
      operations,
    ),
  ).toEqual([]);
  expect(unlisted(called, allOperations)).toEqual([]);
});

test('every type, field, argument and value of the schema is described', () => {
  const undescribed = Object.values(schema.getTypeMap())
    .filter((type) => !type.name.startsWith('__'))
    .flatMap((type) => {
      const parts: { name: string; description?: string | null | undefined }[] = [type];
      if ('getFields' in type) {
        for (const field of Object.values(type.getFields())) {
          parts.push({ name: `${type.name}.${field.name}`, description: field.description });
          for (const argument of 'args' in field ? field.args : []) {
            parts.push({ name: `${type.name}.${field.name}(${argument.name})`, description: argument.description });
          }
        }
      }
      if ('getValues' in type) parts.push(...type.getValues());
      return parts;
    })
    .filter(({ description }) => description == null || description === '')
    .map(({ name }) => name);
  expect(undescribed).toEqual([]);
});

test('every scalar of its own says where it is specified', () => {
  const scalars = Object.values(schema.getTypeMap()).filter(
    (type) => isScalarType(type) && !isSpecifiedScalarType(type),
  );
  const urls = scalars.map((type) => [type.name, (type as GraphQLScalarType).specifiedByURL]);
  expect(Object.fromEntries(urls)).toEqual({
    DateTime: 'https://scalars.graphql.org/andimarek/date-time.html',
    JSON: 'https://www.rfc-editor.org/rfc/rfc8259',
    Metadata: 'https://www.rfc-editor.org/rfc/rfc8259',
  });
});

test('a field of an input that may be left out, and not be null, says so', () => {
  const optional = Object.values(schema.getMutationType()?.getFields() ?? {}).flatMap(({ args, extensions }) => {
    const { input } = operations[extensions['operation'] as keyof typeof operations];
    const { shape } = input as unknown as { shape: Record<string, z.ZodType> };
    const type = args[0] && getNamedType(args[0].type);
    return Object.values(isInputObjectType(type) ? type.getFields() : {})
      .filter(({ name, type }) => !isNonNullType(type) && shape[name]?.safeParse(null).success === false)
      .map(({ name, description }) => ({ name: `${type}.${name}`, description }));
  });
  expect(optional.length).toBeGreaterThan(0);
  expect(optional.filter(({ description }) => !description?.includes('It cannot be null'))).toEqual([]);
});

test('Node and the fields that find one name the kinds that there are, which are not all that have an id', () => {
  const node = schema.getType('Node') as GraphQLInterfaceType;
  const types = schema.getImplementations(node).objects;
  const kinds = types.map(({ name }) => name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase());
  const { node: one, nodes: several } = schema.getQueryType()?.getFields() ?? {};
  expect(kinds).toContain('conversation');
  for (const part of [node, one, several]) {
    expect(kinds.filter((kind) => !part?.description?.toLowerCase().includes(kind))).toEqual([]);
  }
});

test('no event shows a state of a conversation under the id of the conversation, where caches would take it for the newest', () => {
  const events = schema.getImplementations(schema.getType('Event') as GraphQLInterfaceType).objects;
  const states = events.flatMap((type) => {
    const field = type.getFields()['conversation'];
    return field === undefined ? [] : [getNamedType(field.type)];
  });
  expect(new Set(states.map(({ name }) => name))).toEqual(new Set(['ConversationSnapshot']));
  const snapshot = schema.getType('ConversationSnapshot') as GraphQLObjectType;
  expect(Object.keys(snapshot.getFields())).not.toContain('id');
  // Otherwise it shows what the conversation shows, but for the edge to its messages, which are no state.
  const conversation = Object.keys((schema.getType('Conversation') as GraphQLObjectType).getFields());
  expect(new Set(Object.keys(snapshot.getFields()))).toEqual(
    new Set([
      ...conversation.filter((name) => !['id', 'messages', 'readPositions', 'unreadCount'].includes(name)),
      'conversationId',
      'current',
    ]),
  );
});

test.each(Object.values(allOperations))('the fields that call $name name its errors', ({ name, errors }) => {
  const fields = Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .flatMap((type) => Object.values(type.getFields()))
    .filter(({ extensions }) => extensions['operation'] === name);
  const silent = fields.flatMap((field) =>
    errors.filter((code) => !field.description?.includes(`\`${code}\``)).map((code) => `${field.name}: ${code}`),
  );
  expect(silent).toEqual([]);
});

test('ErrorCode has every code and says what it means, and what an error has beside it', () => {
  const type = schema.getType('ErrorCode') as GraphQLEnumType;
  const meanings = type.getValues().map(({ name, description }) => [name, description]);
  expect(Object.fromEntries(meanings)).toEqual(
    Object.fromEntries(Object.entries(errorCodes).map(([code, { when }]) => [code, when])),
  );
  const told = ['requestId', 'errors', 'oldestCursor', 'retryAfterSeconds', 'limit'];
  expect(told.filter((name) => !schema.description?.includes(`\`${name}\``))).toEqual([]);
  expect([...told, 'code', 'cursor'].filter((name) => !type.description?.includes(` ${name}`))).toEqual([]);
});

test('schema.graphql is the schema', async () => {
  await expect(`${printSchema(schema)}\n`).toMatchFileSnapshot('../schema.graphql');
});

/** openapi-typescript has an older TypeScript beside it, in the workspace of the typed client. */
const typed = createRequire(fileURLToPath(new URL('clients/typescript-5/package.json', import.meta.url)));

/** What a caller gives and is given: the client has one type for all errors, and sets the headers. */
function withoutRefusals({ paths, components, ...document }: OpenApiDocument): object {
  const operationsOf = (item: PathItem) =>
    Object.entries(item).map(([method, operation]) => {
      const [[status, answer] = ['', {}]] = Object.entries(operation.responses);
      const parameters = operation.parameters.filter((each) => 'in' in each && each.in !== 'header');
      return [method, { ...operation, parameters, responses: { [status]: { ...answer, headers: {} } } }];
    });
  const { Problem: _, SampleEvent: __, ...schemas } = components.schemas; // of refusals, and of webhooks
  return JSON.parse(
    JSON.stringify({
      ...document,
      webhooks: {},
      paths: Object.fromEntries(
        Object.entries(paths).map(([path, item]) => [path, Object.fromEntries(operationsOf(item))]),
      ),
      components: { schemas },
    }),
  );
}

test('the types of the client for front-ends are those of openapi.json', async () => {
  const { default: typesOf, astToString } = await import(pathToFileURL(typed.resolve('openapi-typescript')).href);
  const types: readonly { readonly name: { readonly text: string } }[] = await typesOf(
    withoutRefusals(openApiDocument(routes)),
  );
  // The others say where operations are, which `operations.ts` does, or nothing.
  const used = astToString(types.filter(({ name }) => ['components', 'operations'].includes(name.text)));
  const text = `// Printed from openapi.json by \`npm run generate\`.\n\n${used}`;
  await expect(text).toMatchFileSnapshot('../src/client/openapi.ts');
});

test('the client for front-ends knows where each operation is', async () => {
  const rows = routes
    .filter(({ streams }) => !streams)
    .map(({ operation: { name, repeatable }, method, path }) => {
      const key = repeatable ? ', repeatable: true' : '';
      return `  ${name}: { method: '${method}', path: '${path.replaceAll(/:(\w+)/g, '{$1}')}'${key} },`;
    });
  const text = `// Printed from the routes by \`npm run generate\`.

export const operations = {
${rows.join('\n')}
} as const;

export type OperationName = keyof typeof operations;
`;
  await expect(text).toMatchFileSnapshot('../src/client/operations.ts');
});

test('the README’s table is that of the operations', async () => {
  const rows = Object.values(allOperations).map(({ name, scope, keysOnly }) => {
    const code = (texts: string[]) => texts.map((text) => `\`${text}\``).join(', ') || '–';
    return `| ${name} | ${code(requestsCalling(name))} | ${code(fieldsCalling(name))} | ${keysOnly ? `${scope}; API keys only` : scope} |`;
  });
  const table = ['| operation | REST | GraphQL | scope |', '|---|---|---|---|', ...rows].join('\n');
  const text = await readFile(readme, 'utf8');
  const written = text.replace(
    /(<!-- operations -->\n)[\s\S]*(<!-- \/operations -->)/,
    (_, before: string, after: string) => `${before}\n${table}\n\n${after}`,
  );
  expect(text).toContain('<!-- operations -->');
  await expect(written).toMatchFileSnapshot('../README.md');
});
