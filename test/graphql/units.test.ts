import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { postMcp, toolCall } from '../support/mcp.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { leftToYoga } from '../support/yoga.ts';

// What an operation costs of the rate limit: a query is one unit, and each field of a mutation that will run is one.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const many = (count: number, made: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => made(index)).join(' ');
const create = (alias: string): string => `${alias}: createConversation(input: {}) { eventCursor }`;
const creations = (count: number): string => `mutation { ${many(count, (i) => create(`c${i}`))} }`;

const remaining = async ({ account }: TestAccount): Promise<number> =>
  (await server.app.ports.limiter.peek(account)).remaining;
const conversations = async ({ account }: TestAccount): Promise<number> =>
  server.app.ports.storage.read.conversations.count(account.id, {});

const mutations: [name: string, query: string, variables: object, units: number][] = [
  ['one field', creations(1), {}, 1],
  ['four fields', creations(4), {}, 4],
  [
    'fields of fragments',
    `mutation { ...A ... { ${create('b')} } } fragment A on Mutation { ${create('a')} ${create('c')} }`,
    {},
    3,
  ],
  [
    'fields that are merged',
    `mutation { ${create('a')} ${create('a')} ...A } fragment A on Mutation { ${create('a')} }`,
    {},
    1,
  ],
  [
    'fields that are left out',
    `mutation ($no: Boolean!) { ${create('a')} ${create('b').replace(') {', ') @include(if: $no) {')} ... @skip(if: true) { ${create('c')} } ${create('d')} }`,
    { no: false },
    2,
  ],
  [
    'a field that fails',
    'mutation { a: deleteConversation(input: { id: "conv_x" }) { eventCursor } b: createConversation(input: {}) { eventCursor } }',
    {},
    2,
  ],
  [
    'nothing that will run',
    `mutation ($no: Boolean!) { ${create('a').replace(') {', ') @include(if: $no) {')} }`,
    { no: false },
    1,
  ],
  [
    'variables that are invalid',
    `mutation ($no: Boolean!) { ${create('a')} ${create('b').replace(') {', ') @include(if: $no) {')} }`,
    {},
    1,
  ],
  [
    'an answer that would be too large',
    `mutation { ${many(3, (i) => `c${i}: createConversation(input: {}) { conversation { messages(first: 100) { nodes { conversation { messages(first: 100) { nodes { id } } } } } } }`)} }`,
    {},
    1,
  ],
];

const transports: [name: string, send: (client: TestAccount, asked: object) => Promise<Json>][] = [
  ['POST', async (client, asked) => await client.post(asked)],
  ['POST, left to Yoga', async (client, asked) => await client.post(asked, { headers: leftToYoga() })],
  ['a batch of one', async (client, asked) => await client.post([asked])],
  [
    'a socket',
    async (client, asked: { query?: string; variables?: object }) => {
      const socket = await new RawSocket(server.url).init(client.secret);
      socket.send({ id: '1', type: 'subscribe', payload: asked });
      const message = await socket.first('1');
      socket.socket.terminate();
      return message;
    },
  ],
];

describe.each(transports)('by %s', (_, send) => {
  test.each(mutations)(
    'a mutation of %s costs a unit for each field that will run',
    async (_, query, variables, units) => {
      const client = await server.account();
      const before = await remaining(client);
      await send(client, { query, variables });
      expect(before - (await remaining(client))).toBe(units);
    },
  );

  test('a mutation that the rest of the budget does not allow runs not at all, and costs nothing', async () => {
    const client = await server.account({ requestsPerHour: 5 });
    await send(client, { query: creations(2) });
    expect([await remaining(client), await conversations(client)]).toEqual([3, 2]);
    const refused = await send(client, { query: creations(4) });
    expect(JSON.stringify(refused)).toContain('"RATE_LIMITED"');
    expect([await remaining(client), await conversations(client)]).toEqual([3, 2]);
    await send(client, { query: creations(3) });
    expect([await remaining(client), await conversations(client)]).toEqual([0, 5]);
  });

  test('a hundred mutations are allowed, 101 are not and cost one unit', async () => {
    const client = await server.account();
    const before = await remaining(client);
    const mutation = (count: number) =>
      `mutation ($i: DeleteConversationInput!) { ${many(count, (i) => `d${i}: deleteConversation(input: $i) { ...E }`)} }
      fragment E on DeleteConversationPayload { eventCursor }`;
    const variables = { i: { id: 'conv_x' } };
    expect(JSON.stringify(await send(client, { query: mutation(101), variables }))).toContain(
      '101 mutations; at most 100',
    );
    expect(before - (await remaining(client))).toBe(1);
    expect(JSON.stringify(await send(client, { query: mutation(100), variables }))).not.toContain('QUERY_TOO_COMPLEX');
    expect(before - (await remaining(client))).toBe(101);
  });
});

describe('a batch', () => {
  test('costs what its operations cost together', async () => {
    const client = await server.account();
    const before = await remaining(client);
    const { status } = await client.post([
      { query: '{ account { id } }' },
      { query: creations(3) },
      { query: '{ nothing }' },
      { query: '{' },
      { query: creations(2) },
    ]);
    expect([status, before - (await remaining(client)), await conversations(client)]).toEqual([200, 8, 5]);
  });

  test('is refused as a whole, before any of it runs, and Retry-After is the t of its headers', async () => {
    const client = await server.account({ requestsPerHour: 5 });
    const refused = await client.post([{ query: creations(1) }, { query: creations(5) }]);
    expect(refused.status).toBe(429);
    expect(refused.body.errors[0].extensions).toMatchObject({
      code: 'RATE_LIMITED',
    });
    expect([await remaining(client), await conversations(client)]).toEqual([5, 0]);
    const later = await client.post([{ query: creations(1) }, { query: creations(4) }]);
    expect([later.status, await remaining(client), await conversations(client)]).toEqual([200, 0, 5]);
    const { status, headers } = await client.post([{ query: creations(1) }, { query: creations(1) }]);
    expect([status, headers['ratelimit']]).toEqual([429, expect.stringMatching(`;t=${headers['retry-after']}$`)]);
  });

  test('that costs too much is read twenty times in a minute, and then refused before it is', async () => {
    const client = await server.account({ requestsPerHour: 5 });
    const batch = [{ query: creations(1) }, { query: creations(5) }];
    for (let sent = 0; sent < 20; sent++) expect((await client.post(batch)).status).toBe(429);
    for (const asked of [batch, { query: '{ eventCursor }' }, '{']) {
      const { status, headers, body } = await client.post(asked);
      expect([status, headers['ratelimit']]).toEqual([429, expect.stringMatching(`;r=5;t=${headers['retry-after']}$`)]);
      expect(body.errors[0]).toMatchObject({
        message: expect.stringContaining('refused in this minute'),
        extensions: { code: 'RATE_LIMITED', retryAfterSeconds: expect.any(Number) },
      });
    }
    expect([await remaining(client), (await client.rest('GET', '/conversations')).status]).toEqual([5, 200]);
    expect((await postMcp(server.url, client.secret, toolCall('listConversations', {}))).status).toBe(200);
    expect((await (await server.account()).post({ query: '{ eventCursor }' })).status).toBe(200);
    server.clock.advance(60_000);
    expect((await client.post({ query: '{ eventCursor }' })).status).toBe(200);
  });

  test('of a visitor that is refused keeps nobody else from being admitted', async () => {
    const client = await server.account({ requestsPerHour: 20 });
    const pageOf = async (id: string) => {
      const asked = { scopes: ['conversations:write'], visitor: { id } };
      return server.clientFor((await client.rest('POST', '/tokens', { body: asked })).body.token);
    };
    const [page, other] = [await pageOf('one'), await pageOf('other')];
    const batch = [{ query: creations(20) }, { query: creations(20) }];
    for (let sent = 0; sent < 20; sent++) expect((await page.post(batch)).status).toBe(429);
    const created = { query: creations(1) };
    const statuses = await Promise.all([page, other, client].map(async (each) => (await each.post(created)).status));
    expect(statuses).toEqual([429, 200, 200]);
  });

  test('a mutation by GET is refused for one unit', async () => {
    const client = await server.account();
    const before = await remaining(client);
    const url = `${server.url}/graphql?query=${encodeURIComponent(creations(4))}`;
    expect((await fetch(url, { headers: { authorization: `Bearer ${client.secret}` } })).status).toBe(405);
    expect([before - (await remaining(client)), await conversations(client)]).toEqual([1, 0]);
  });
});
