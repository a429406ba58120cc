import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json, RestResponse } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { leftToYoga } from '../support/yoga.ts';

// With `GraphQL-Cost: 1`, an answer says what its operation was counted to cost, and what the limits are.

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  await client.rest('POST', '/conversations', { body: { message: { content: 'Hello', sender: 'visitor' } } });
});
afterAll(() => server.close());

const asking = { 'graphql-cost': '1' };
const ask = (body: object, headers: Record<string, string> = asking): Promise<RestResponse> =>
  client.post(body, { headers });

const limits = { tokens: 2_000, depth: 12, objects: 11_000, values: 100_000, slowFields: 5, bytes: 8 * 1024 * 1024 };
const list = '{ conversations(first: 50, tags: ["a"]) { totalCount nodes { id subject metadata } } }';
const cost = { units: 1, tokens: 22, depth: 3, objects: 101, values: 153, slowFields: 1 };

/** Every way to send a query over HTTP. */
const ways: [name: string, ask: (query: string) => Promise<Json>][] = [
  ['POST', async (query) => (await ask({ query })).body],
  ['POST, left to Yoga', async (query) => (await ask({ query }, { ...asking, ...leftToYoga() })).body],
  [
    'GET',
    async (query) => {
      const headers = { ...asking, authorization: `Bearer ${client.secret}` };
      return await (await fetch(`${server.url}/graphql?query=${encodeURIComponent(query)}`, { headers })).json();
    },
  ],
  ['a batch', async (query) => (await ask([{ query }])).body[0]],
];

describe.each(ways)('sent by %s', (_, send) => {
  test('a query is answered with what was counted', async () => {
    const { data, extensions } = await send(list);
    const bytes = JSON.stringify(data).length;
    expect(extensions).toEqual({ cost: { ...cost, bytes: expect.any(Number), limits } });
    expect(extensions.cost.bytes).toBeGreaterThan(bytes / 2);
    expect(extensions.cost.bytes).toBeLessThan(bytes * 2);
  });

  test('a query that is too complex is refused with the figures that it is refused for', async () => {
    const deep = `{ conversations { nodes { ${'messages { nodes { conversation { '.repeat(4)} id ${'} } }'.repeat(4)} } } }`;
    const { errors, extensions } = await send(deep);
    expect(errors[0].extensions.code).toBe('QUERY_TOO_COMPLEX');
    expect(errors[0].message).toContain('15 levels deep; at most 12');
    expect(extensions.cost).toMatchObject({ units: 1, depth: 15, bytes: 0, limits: { depth: 12 } });
    const wide = await send(
      '{ conversations(first: 100) { nodes { messages(first: 100) { nodes { id metadata } } } } }',
    );
    expect(wide.errors[0].message).toContain('20,201 objects; at most 11,000');
    expect(wide.extensions.cost).toMatchObject({ objects: 20_201, limits: { objects: 11_000 } });
  });

  test('introspection is counted, too', async () => {
    const { extensions } = await send('{ __schema { types { name } } }');
    expect(extensions.cost).toMatchObject({ units: 1, depth: 0, slowFields: 0 });
    expect(extensions.cost.values).toBeGreaterThan(100);
  });

  test('what cannot be read, or is invalid, has no cost', async () => {
    expect(await send('{')).not.toHaveProperty('extensions');
    expect(await send('{ nothing }')).not.toHaveProperty('extensions');
  });
});

test('a mutation says what it costs of the rate limit, how much its payloads could hold, and what has failed', async () => {
  const query = `mutation {
    a: createConversation(input: {}) { conversation { subject } }
    b: sendMessage(input: { conversationId: "conv_x", content: "x", sender: AGENT }) { message { id } }
  }`;
  const before = await client.graphql(query);
  const { headers, body } = await ask({ query });
  expect(body.errors).toHaveLength(1);
  expect(body.extensions.cost).toMatchObject({
    units: 2,
    mutations: 2,
    limits: { ...limits, mutations: 100, payloadBytes: 10 * 1024 * 1024 },
  });
  expect(body.extensions.cost.payloadBytes).toBeGreaterThan(1_000);
  const spent = Number(before.headers['x-ratelimit-remaining']) - Number(headers['x-ratelimit-remaining']);
  expect(spent).toBe(body.extensions.cost.units);
});

test('each operation of a batch has its own cost', async () => {
  const { body } = await ask([{ query: list }, { query: '{ account { id } }' }, { query: '{' }]);
  expect(body.map(({ extensions }: Json) => extensions?.cost.values)).toEqual([cost.values, 2, undefined]);
});

test('a subscription that is refused says what was counted for each event', async () => {
  const page = 'messages(first: 100) { nodes { id } }';
  const query = `subscription { messageReceived { conversation { current { ${page} } } } }`;
  const { body } = await ask({ query }, { ...asking, accept: 'text/event-stream' });
  const { errors, extensions } = JSON.parse(/^data: (.+)$/m.exec(String(body))?.[1] ?? '');
  expect(errors[0].extensions.code).toBe('QUERY_TOO_COMPLEX');
  expect(extensions.cost).toMatchObject({ objects: 104, limits: { objects: 100, values: 2_000, bytes: 256 * 1024 } });
});

test('without the header, or with another value, nothing is said', async () => {
  for (const headers of [{}, { 'graphql-cost': '0' }, { 'graphql-cost': '' }, { 'graphql-cost': 'true' }]) {
    for (const others of [{}, leftToYoga()]) {
      expect(Object.keys((await ask({ query: list }, { ...headers, ...others })).body)).toEqual(['data']);
    }
  }
});
