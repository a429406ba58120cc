import fc from 'fast-check';
import {
  type GraphQLNamedOutputType,
  type GraphQLObjectType,
  getNamedType,
  isInterfaceType,
  isLeafType,
  isNonNullType,
} from 'graphql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PreparedDocument } from '../../src/graphql/documents.ts';
import { schema } from '../../src/graphql/schema.ts';
import { effort } from '../support/effort.ts';
import { conversationWithMessages } from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// A query that goes well takes a short way, all else the way of Yoga and graphql-js. A request with
// `extensions` is left to them, so the same query can be sent on both.

let server: TestServer;
let client: TestAccount;
const ids = { conversation: '', message: '', lead: '' };

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  for (const subject of ['Parcel', null, 'Ünïcödé "quoted" \u2028']) {
    const message = { content: `About ${subject}`, sender: 'visitor', author: { name: 'Ada' } };
    const { body } = await client.rest('POST', '/conversations', {
      body: { subject, message, metadata: { order: 7 }, visitor: { name: 'Ada' } },
    });
    ids.conversation = body.id;
    ids.message = body.messages[0].id;
    await client.rest('POST', `/conversations/${body.id}/messages`, { body: { content: 'Yes', sender: 'agent' } });
  }
  const lead = await client.rest('POST', '/leads', {
    body: { conversationId: ids.conversation, email: 'a@b.example' },
  });
  ids.lead = lead.body.id;
});
afterAll(() => server.close());

interface Query {
  readonly query: string;
  readonly variables?: object;
  readonly operationName?: string;
}

async function expectBothWays(asked: Query, others: Record<string, string> = {}): Promise<void> {
  const headers = { 'x-request-id': 'the-same', ...others };
  const [short, long] = [
    await client.post(asked, { headers }),
    await client.post({ ...asked, extensions: {} }, { headers }),
  ];
  expect({ ...short, headers: headersOf(short) }, asked.query).toEqual({ ...long, headers: headersOf(long) });
}

/** The headers that do not differ from request to request. */
function headersOf({ headers }: { headers: Record<string, string> }): object {
  const { 'content-type': type, 'cache-control': cache, vary } = headers;
  return { type, cache, vary, names: Object.keys(headers).sort() };
}

const takesShortWay = (query: string): boolean =>
  new PreparedDocument(schema, query).operation(null)?.compiled !== undefined;

const list = '{ conversations(first: 2) { nodes { id status subject metadata lastActivityAt } totalCount } }';
const nested = `query One($id: ID!, $first: Int = 1) {
  __typename
  a: conversation(id: $id) { ...Whole messages(first: $first) { edges { cursor node { content } } pageInfo { hasNextPage } } }
  b: conversation(id: $id) { ... on Node { id } ... on Conversation { subject visitor { name } } ... { version } }
}
fragment Whole on Conversation { __typename ${conversationWithMessages.replace('(first: 100)', '(first: $first)')} }`;

describe('the short way', () => {
  test('is taken by queries without directives and abstract types', () => {
    expect([list, nested, '{ account { name plan } }'].map(takesShortWay)).toEqual([true, true, true]);
    const others = [
      'mutation { createConversation(input: {}) { eventCursor } }',
      'subscription { events { id } }',
      '{ node(id: "x") { id } }',
      '{ __schema { types { name } } }',
      'query ($no: Boolean!) { account @skip(if: $no) { id } }',
      `{ ${Array.from({ length: 251 }, (_, index) => `a${index}: __typename`).join(' ')} }`,
    ];
    expect(others.map(takesShortWay)).toEqual(others.map(() => false));
  });

  test.each([
    ['a list', () => ({ query: list })],
    ['fragments, aliases, defaults and merged fields', () => ({ query: nested, variables: { id: ids.conversation } })],
    ['a variable', () => ({ query: nested, variables: { id: ids.conversation, first: 2 } })],
    ['a name', () => ({ query: `query A { account { id } } query B { account { plan } }`, operationName: 'B' })],
    [
      'many things by id',
      () => ({ query: `{ ${'cdefg'.replace(/./g, `$&: conversation(id: "${ids.conversation}") { id } `)} }` }),
    ],
    ['something that is not there', () => ({ query: '{ conversation(id: "conv_x") { id } account { name } }' })],
    ['a refused page size', () => ({ query: '{ conversations(first: 101) { nodes { id } } account { name } }' })],
    ['a wrong variable', () => ({ query: nested, variables: { id: ids.conversation, first: 'two' } })],
    ['no such operation', () => ({ query: list, operationName: 'Nothing' })],
    ['a fault of syntax', () => ({ query: '{' })],
    ['an unknown field', () => ({ query: '{ nothing }' })],
    [
      'too deep a query',
      () => ({
        query: `{ conversation(id: "x") ${'{ messages { nodes { conversation '.repeat(5)} { id } ${'} } }'.repeat(5)} }`,
      }),
    ],
    [
      'too large a query',
      () => ({
        query:
          '{ conversations(first: 100) { nodes { messages(first: 100) { nodes { conversation { messages(first: 100) { nodes { id } } } } } } } }',
      }),
    ],
    ['a key of objects’ own', () => ({ query: '{ __proto__: account { name } constructor: account { id } }' })],
  ])('gives the answer of the long one for %s', async (_, asked) => {
    await expectBothWays(asked());
  });

  test.each([
    'application/graphql-response+json',
    '*/*',
    'text/html, application/*;q=0.5',
    'text/event-stream',
    'application/json;charset=latin1',
  ])('gives the answer of the long one to a client that accepts %s', async (accept) => {
    await expectBothWays({ query: list }, { accept });
    await expectBothWays({ query: '{ conversation(id: "conv_x") { id } }' }, { accept });
  });

  test('gives the answer of the long one to any query', async () => {
    await fc.assert(
      fc.asyncProperty(selection(schema.getQueryType() as GraphQLObjectType, 4), (query) => expectBothWays({ query })),
      { numRuns: effort(60, 1_500), ...effort({ seed: 7 }, {}) },
    );
  }, 600_000);

  test('costs one unit, also where it turns out to be the wrong one', async () => {
    const remaining = async (query: string): Promise<number> =>
      Number((await client.post({ query })).headers['x-ratelimit-remaining']);
    const before = await remaining(list);
    expect(await remaining(list)).toBe(before - 1);
    expect(await remaining('{ conversation(id: "conv_x") { id } }')).toBe(before - 2);
  });
});

/** A random selection of a type's fields, so deep at most. */
function selection(type: GraphQLObjectType, depth: number): fc.Arbitrary<string> {
  const fields = Object.values(type.getFields()).flatMap((field) => {
    const fieldType = getNamedType(field.type);
    const required = field.args.filter(
      (argument) => isNonNullType(argument.type) && argument.defaultValue === undefined,
    );
    if (field.name === 'rateLimit' || (depth === 0 && !isLeafType(fieldType))) return [];
    if (required.some(({ name }) => name !== 'id' && name !== 'ids')) return [];
    return [fieldSelection(field.name, required[0]?.name, fieldType, depth)];
  });
  if (fields.length === 0) return fc.constant('{ __typename }');
  return fc
    .array(fc.tuple(fc.oneof(...fields), fc.constantFrom('', 'a: ', 'b: ', 'c: ')), { minLength: 1, maxLength: 4 })
    .map((chosen) => {
      // Two fields of one name must not differ.
      const byKey = new Map(
        chosen.map(([text, alias]) => [alias === '' ? /^\w+/.exec(text)?.[0] : alias, alias + text]),
      );
      return `{ ${[...byKey.values()].join(' ')} __typename }`;
    });
}

function fieldSelection(
  name: string,
  required: string | undefined,
  type: GraphQLNamedOutputType,
  depth: number,
): fc.Arbitrary<string> {
  const argument = fc
    .constantFrom('conv_x', 'conversation', 'message', 'lead')
    .map((kind) => ids[kind as keyof typeof ids] ?? kind)
    .map((id) => (required === undefined ? '' : `(${required}: ${JSON.stringify(required === 'ids' ? [id] : id)})`));
  const inner = isLeafType(type)
    ? fc.constant('')
    : isInterfaceType(type)
      ? fc.constant(' { __typename }')
      : selection(type as GraphQLObjectType, depth - 1);
  return fc.tuple(argument, inner).map(([given, selected]) => `${name}${given} ${selected}`);
}
