import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { effort } from '../support/effort.ts';
import { fillForQueries, randomQuery } from '../support/random-queries.ts';
import { conversationWithMessages } from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// A single query or mutation by POST is answered without Yoga's own steps. A request with `extensions` is left to them,
// so the same query can be answered both ways.

let server: TestServer;
let client: TestAccount;
const ids = { conversation: '', message: '', lead: '' };

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  Object.assign(ids, await fillForQueries(client));
});
afterAll(() => server.close());

interface Query {
  readonly query: string;
  readonly variables?: object;
  readonly operationName?: string;
}

async function expectBothWays(asked: Query, others: Record<string, string> = {}): Promise<void> {
  const headers = { 'x-request-id': 'the-same', ...others };
  const [single, byYoga] = [
    await client.post(asked, { headers }),
    await client.post({ ...asked, extensions: {} }, { headers }),
  ];
  expect({ ...single, headers: headersOf(single) }, asked.query).toEqual({ ...byYoga, headers: headersOf(byYoga) });
}

/** The headers that do not differ from request to request. */
function headersOf({ headers }: { headers: Record<string, string> }): object {
  const { 'content-type': type, 'cache-control': cache, vary } = headers;
  return { type, cache, vary, names: Object.keys(headers).sort() };
}

const list = '{ conversations(first: 2) { nodes { id status subject metadata lastActivityAt } totalCount } }';
const nested = `query One($id: ID!, $first: Int = 1) {
  __typename
  a: conversation(id: $id) { ...Whole messages(first: $first) { edges { cursor node { content } } pageInfo { hasNextPage } } }
  b: conversation(id: $id) { ... on Node { id } ... on Conversation { subject visitor { name } } ... { version } }
}
fragment Whole on Conversation { __typename ${conversationWithMessages.replace('(first: 100)', '(first: $first)')} }`;

describe('a single operation', () => {
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
  ])('has the same response with and without Yoga’s steps: %s', async (_, asked) => {
    await expectBothWays(asked());
  });

  test.each([
    'application/graphql-response+json',
    '*/*',
    'text/html, application/*;q=0.5',
    'text/event-stream',
    'application/json;charset=latin1',
  ])('has the same response with and without Yoga’s steps for a client that accepts %s', async (accept) => {
    await expectBothWays({ query: list }, { accept });
    await expectBothWays({ query: '{ conversation(id: "conv_x") { id } }' }, { accept });
  });

  test('has the same response with and without Yoga’s steps for random queries', async () => {
    await fc.assert(
      fc.asyncProperty(randomQuery(ids), ({ query, variables }) => expectBothWays({ query, variables })),
      { numRuns: effort(60, 1_500), ...effort({ seed: 7 }, {}) },
    );
  }, 600_000);

  test('costs one unit, also where it fails', async () => {
    const remaining = async (query: string): Promise<number> =>
      Number((await client.post({ query })).headers['x-ratelimit-remaining']);
    const before = await remaining(list);
    expect(await remaining(list)).toBe(before - 1);
    expect(await remaining('{ conversation(id: "conv_x") { id } }')).toBe(before - 2);
  });
});
