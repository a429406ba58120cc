import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { effort } from '../support/effort.ts';
import { fillForQueries, randomQuery } from '../support/random-queries.ts';
import { seed } from '../support/seed.ts';
import { conversationWithMessages } from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { leftToYoga } from '../support/yoga.ts';

// A single query or mutation by POST is answered without Yoga's own steps, unless its `Accept` needs a closer look. So the
// same query can be answered both ways.

let server: TestServer;
let client: TestAccount;
const ids = { conversation: '', message: '', lead: '' };

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  Object.assign(ids, await fillForQueries(client));
});
afterAll(() => server.close());

async function expectBothWays(asked: object, accept?: string): Promise<void> {
  const headers = { 'x-request-id': 'the-same' };
  const [single, byYoga] = [
    await client.post(asked, { headers: { ...headers, ...(accept !== undefined && { accept }) } }),
    await client.post(asked, { headers: { ...headers, ...leftToYoga(accept) } }),
  ];
  expect({ ...single, headers: headersOf(single) }, JSON.stringify(asked)).toEqual({
    ...byYoga,
    headers: headersOf(byYoga),
  });
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

/** With every request, by default; and what a link adds that spreads the operation. */
const fromApollo = {
  extensions: { clientLibrary: { name: '@apollo/client', version: '4.3.8' } },
  operationType: 'query',
  id: '7',
};

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
    ['what Apollo Client sends', () => ({ operationName: null, query: list, variables: {}, ...fromApollo })],
    ['no query', () => ({})],
    ['variables in a list', () => ({ query: list, variables: [] })],
    ['extensions in a list', () => ({ query: list, extensions: [] })],
    ['an empty name', () => ({ query: list, operationName: '' })],
    ['a name that is a number', () => ({ query: list, operationName: 5 })],
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
    'text/html, application/*',
    'text/event-stream',
    'application/json;charset=latin1',
  ])('has the same response with and without Yoga’s steps for a client that accepts %s', async (accept) => {
    await expectBothWays({ query: list }, accept);
    await expectBothWays({ query: '{ conversation(id: "conv_x") { id } }' }, accept);
    await expectBothWays({ query: '{ nothing }' }, accept);
  });

  test('has the same response with and without Yoga’s steps for random queries', async () => {
    await fc.assert(
      fc.asyncProperty(randomQuery(ids), ({ query, variables }) => expectBothWays({ query, variables })),
      { numRuns: effort(15, 1_500), seed: effort(7, seed) },
    );
  }, 600_000);

  test.each([
    ['POST', async (asked: object) => await client.post(asked)],
    ['POST, left to Yoga', async (asked: object) => await client.post(asked, { headers: leftToYoga() })],
    ['a batch', async (asked: object) => ({ body: (await client.post([asked])).body[0] })],
  ])('is answered though its envelope has properties that are not known: %s', async (_, send) => {
    const { body } = await send({ query: '{ account { name } }', ...fromApollo });
    expect(body).toEqual({ data: { account: { name: 'test' } } });
  });

  test('costs one unit, also where it fails', async () => {
    const remaining = async (query: string): Promise<number> =>
      Number((await client.post({ query })).headers['x-ratelimit-remaining']);
    const before = await remaining(list);
    expect(await remaining(list)).toBe(before - 1);
    expect(await remaining('{ conversation(id: "conv_x") { id } }')).toBe(before - 2);
  });
});
