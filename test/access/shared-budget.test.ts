import { Readable } from 'node:stream';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { clientOf } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

interface Limits {
  readonly plan: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetSeconds: number;
}

const rateLimitHeaders = [
  'ratelimit-policy',
  'ratelimit',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
];

/** Reads both sets of headers, which must agree with each other and with the clock. */
function limitsOf({ headers }: { headers: Record<string, string> }): Limits {
  const policy = /^"(\w+)";q=(\d+);w=3600$/.exec(headers['ratelimit-policy'] ?? '');
  const state = /^"(\w+)";r=(\d+);t=(\d+)$/.exec(headers['ratelimit'] ?? '');
  expect(policy, `RateLimit-Policy: ${headers['ratelimit-policy']}`).not.toBeNull();
  expect(state, `RateLimit: ${headers['ratelimit']}`).not.toBeNull();
  const [, plan = '', limit] = policy ?? [];
  const [, samePlan, remaining, resetSeconds] = state ?? [];
  expect(samePlan).toBe(plan);
  expect(headers['x-ratelimit-limit']).toBe(limit);
  expect(headers['x-ratelimit-remaining']).toBe(remaining);
  expect(Number(headers['x-ratelimit-reset'])).toBe(Math.ceil(server.clock.now() / 1_000) + Number(resetSeconds));
  return { plan, limit: Number(limit), remaining: Number(remaining), resetSeconds: Number(resetSeconds) };
}

const mutation = `mutation ($input: CreateConversationInput!) { createConversation(input: $input) { conversation { id } } }`;
const accountQuery = '{ account { rateLimit { limit remaining resetAt } } }';

/** What is left now, as the next answer says it, without the unit that the question itself costs. */
async function remainingBefore(account: TestAccount): Promise<number> {
  return limitsOf(await account.rest('GET', '/account')).remaining + 1;
}

async function spend(account: TestAccount, count: number): Promise<void> {
  const answers = await Promise.all(Array.from({ length: count }, () => account.rest('GET', '/account')));
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: count }, () => 200));
}

describe('the budget of an account', () => {
  test('is spent by REST and by GraphQL alike, then both refuse', async () => {
    const account = await server.account({ plan: 'trial' });
    const faces: (() => Promise<{ status: number; headers: Record<string, string> }>)[] = [
      () => account.rest('GET', '/conversations'),
      () => account.graphql(accountQuery),
      () => account.rest('POST', '/conversations', { body: { subject: 'Parcel' } }),
      () => account.graphql(mutation, { input: { subject: 'Parcel' } }),
    ];
    for (let sent = 0; sent < 100; sent++) {
      const answer = await (faces[sent % faces.length] ?? faces[0])?.();
      expect([200, 201]).toContain(answer?.status);
      expect(limitsOf(answer ?? { headers: {} })).toEqual({
        plan: 'trial',
        limit: 100,
        remaining: 99 - sent,
        resetSeconds: 61 * 60,
      });
    }

    const rest = await account.rest('GET', '/conversations');
    expect(rest.status).toBe(429);
    expect(rest.headers['content-type']).toBe('application/problem+json');
    expect(rest.body).toEqual({
      type: expect.stringMatching(/RATE_LIMITED$/),
      title: expect.any(String),
      status: 429,
      detail: 'The account has used its 100 requests per hour.',
      instance: '/v1/conversations',
      code: 'RATE_LIMITED',
      limit: 'account',
      requestId: rest.headers['x-request-id'],
    });

    const graphql = await account.graphql(mutation, { input: {} });
    expect(graphql.status).toBe(429);
    expect(graphql.data).toBeUndefined();
    expect(graphql.errors).toHaveLength(1);
    expect(graphql.errors?.[0]).toMatchObject({
      message: rest.body.detail,
      extensions: {
        code: 'RATE_LIMITED',
        limit: 'account',
        requestId: graphql.headers['x-request-id'],
        retryAfterSeconds: Number(graphql.headers['retry-after']),
      },
    });
    for (const answer of [rest, graphql]) {
      expect(limitsOf(answer)).toEqual({
        plan: 'trial',
        limit: 100,
        remaining: 0,
        resetSeconds: Number(answer.headers['retry-after']),
      });
    }
  });

  test('is shared by all its keys, and no other account’s', async () => {
    const [account, other] = [await server.account({ plan: 'trial' }), await server.account({ plan: 'trial' })];
    const second = await account.withScopes('conversations:read');
    const third = await account.withScopes('keys:manage');
    const answers = [
      await account.rest('GET', '/conversations'),
      await second.graphql('{ conversations { totalCount } }'),
      await third.rest('GET', '/api-keys'),
    ];
    expect(answers.map((answer) => limitsOf(answer).remaining)).toEqual([99, 98, 97]);
    await spend(account, 97);
    for (const client of [account, second, third]) {
      expect((await client.rest('GET', '/account')).status).toBe(429);
      expect((await client.graphql(accountQuery)).status).toBe(429);
    }
    expect(limitsOf(await other.rest('GET', '/account')).remaining).toBe(99);
  });

  test('of a plan is what the contract says, and an account can have its own', async () => {
    const limits = await Promise.all(
      [{ plan: 'trial' }, { plan: 'pro' }, { plan: 'pro', requestsPerHour: 7 }].map(async (options) => {
        const account = await server.account(options as { plan: 'trial' | 'pro' });
        return limitsOf(await account.rest('GET', '/account'));
      }),
    );
    expect(limits.map(({ plan, limit }) => [plan, limit])).toEqual([
      ['trial', 100],
      ['pro', 1_000],
      ['pro', 7],
    ]);
  });

  test('reads the same in the headers, in REST and in GraphQL', async () => {
    const account = await server.account({ plan: 'pro' });
    const rest = await account.rest('GET', '/account');
    const fromHeaders = ({ limit, remaining, resetSeconds }: Limits): Json => ({
      limit,
      remaining,
      resetAt: new Date(server.clock.now() + resetSeconds * 1_000).toISOString(),
    });
    expect(rest.body.rateLimit).toEqual(fromHeaders(limitsOf(rest)));
    const graphql = await account.graphql(accountQuery);
    expect(graphql.data.account.rateLimit).toEqual(fromHeaders(limitsOf(graphql)));
  });

  test('costs nothing to have refused', async () => {
    const account = await server.account({ plan: 'trial' });
    await spend(account, 100);
    for (let sent = 0; sent < 30; sent++) expect((await account.rest('GET', '/account')).status).toBe(429);
    const { headers } = await account.rest('GET', '/account');
    server.clock.advance((Number(headers['retry-after']) - 1) * 1_000);
    expect((await account.rest('GET', '/account')).status).toBe(429);
    expect((await account.graphql(accountQuery)).status).toBe(429);
    server.clock.advance(1_000);
    await spend(account, 100);
    expect((await account.graphql(accountQuery)).status).toBe(429);
  });

  test('lets in exactly as many as are left of those that come at once through both faces', async () => {
    const account = await server.account({ plan: 'trial' });
    const statuses = await Promise.all(
      Array.from({ length: 150 }, async (_, index) => {
        const answer = index % 2 === 0 ? await account.rest('GET', '/account') : await account.graphql(accountQuery);
        return answer.status;
      }),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(100);
    expect(statuses.filter((status) => status === 429)).toHaveLength(50);
  });
});

describe('a GraphQL batch', () => {
  const batchOf = (count: number): object[] =>
    Array.from({ length: count }, () => ({ query: mutation, variables: { input: {} } }));
  const countConversations = async (account: TestAccount): Promise<number> =>
    (await account.rest('GET', '/conversations')).body.pagination.total;

  test('of five costs five', async () => {
    const account = await server.account({ plan: 'trial' });
    const answer = await account.post(batchOf(5));
    expect(answer.status).toBe(200);
    expect(answer.body).toHaveLength(5);
    expect(limitsOf(answer).remaining).toBe(95);
  });

  test('for which too little is left is refused as a whole, and costs nothing', async () => {
    const account = await server.account({ plan: 'trial' });
    await spend(account, 50);
    server.clock.advance(60_000);
    await spend(account, 47);
    const refused = await account.post(batchOf(5));
    expect(refused.status).toBe(429);
    expect([refused.body].flat()).toEqual([
      { errors: [expect.objectContaining({ extensions: expect.objectContaining({ code: 'RATE_LIMITED' }) })] },
    ]);
    expect(limitsOf(refused)).toMatchObject({ remaining: 3, resetSeconds: 60 * 60 });
    // All of the first minute's leave together, so five are free when one is.
    expect(Number(refused.headers['retry-after'])).toBe(60 * 60);
    expect(await remainingBefore(account)).toBe(3);
    expect(await countConversations(account)).toBe(0);

    server.clock.advance(60 * 60_000 - 1_000);
    expect((await account.post(batchOf(5))).status).toBe(429);
    server.clock.advance(1_000);
    expect((await account.post(batchOf(5))).status).toBe(200);
    expect(await countConversations(account)).toBe(5);
  });

  test('is told to wait until all of it has room, not only a part', async () => {
    const account = await server.account({ plan: 'trial', requestsPerHour: 7 });
    for (let minute = 0; minute < 6; minute++) {
      await spend(account, 1);
      server.clock.advance(60_000);
    }
    const batch = await account.post(batchOf(4));
    expect(batch.status).toBe(429);
    // The first is free 55 minutes from now and one more each minute: one is left, so three have to be.
    expect(Number(batch.headers['retry-after'])).toBe(57 * 60);
    // `t` says the same as Retry-After, not when a single request more is free.
    expect(limitsOf(batch)).toMatchObject({ remaining: 1, resetSeconds: 57 * 60 });
    server.clock.advance(57 * 60_000 - 1_000);
    expect((await account.post(batchOf(4))).status).toBe(429);
    server.clock.advance(1_000);
    expect((await account.post(batchOf(4))).status).toBe(200);
  });

  test('larger than the account’s limit is refused, and told to come in parts, not again', async () => {
    const account = await server.account({ plan: 'trial', requestsPerHour: 3 });
    const refused = await account.post(batchOf(4));
    expect(refused.status).toBe(429);
    expect(refused.headers['retry-after']).toBeUndefined();
    expect([refused.body].flat()[0].errors[0].message).toContain('never admitted together; send them in parts');
    expect(limitsOf(refused).remaining).toBe(3);
  });

  test('that the service does not take costs no more than one request', async () => {
    const account = await server.account({ plan: 'trial' });
    expect(limitsOf(await account.post(batchOf(11))).remaining).toBe(99);
    expect(limitsOf(await account.post([])).remaining).toBe(98);
  });

  test('whose body comes over the turn of a minute costs nothing either when it is refused', async () => {
    const account = await server.account({ plan: 'trial', requestsPerHour: 10 });
    const left = async (): Promise<number> => (await server.app.ports.limiter.peek(account.account)).remaining;
    const body = JSON.stringify(batchOf(5));
    const nextMinuteMs = (Math.floor(server.clock.now() / 60_000) + 1) * 60_000;
    async function* slowly(): AsyncGenerator<string> {
      yield body.slice(0, 100);
      await expect.poll(left).toBe(9); // it is in
      server.clock.advanceTo(nextMinuteMs);
      await spend(account, 9);
      yield body.slice(100);
    }
    const { statusCode, body: answer } = await request(`${server.url}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.secret}`, 'content-type': 'application/json' },
      body: Readable.from(slowly()),
    });
    await answer.dump();
    expect(statusCode).toBe(429);
    await spend(account, 1);
    // All ten are of the second minute, and stay as long as it does.
    server.clock.advanceTo(nextMinuteMs + 61 * 60_000 - 1);
    expect((await account.rest('GET', '/account')).status).toBe(429);
    server.clock.advance(1);
    await spend(account, 10);
  });
});

describe('the headers', () => {
  type Known = Omit<TestAccount, 'account'>;

  interface Case {
    readonly name: string;
    readonly status: number;
    /** In units; 1 unless it says otherwise. */
    readonly cost?: number;
    send(account: Known): Promise<{ status: number; headers: Record<string, string> }>;
  }

  async function* unmeasured(): AsyncGenerator<Buffer> {
    for (let sent = 0; sent < 17; sent++) yield Buffer.alloc(64 * 1024, 'x');
  }
  const sendRaw = async (
    { secret }: Known,
    method: 'GET' | 'POST' | 'PUT',
    path: string,
    body: Readable | null = null,
  ): Promise<{ status: number; headers: Record<string, string> }> => {
    const answer = await request(`${server.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        accept: 'application/json',
        ...(body === null ? {} : { 'content-type': 'application/json' }),
      },
      body,
    });
    await answer.body.dump();
    return { status: answer.statusCode, headers: answer.headers as Record<string, string> };
  };
  const big = 'x'.repeat(1024 * 1024 + 1);
  const text = { 'content-type': 'text/plain' };
  const foreign = { origin: 'https://shop.example' };
  const cases: readonly Case[] = [
    { name: 'GET', status: 200, send: (account) => account.rest('GET', '/conversations') },
    { name: 'HEAD', status: 200, send: (account) => account.rest('HEAD', '/conversations') },
    { name: 'POST', status: 201, send: (account) => account.rest('POST', '/conversations', { body: {} }) },
    { name: 'OPTIONS', status: 204, send: (account) => account.rest('OPTIONS', '/conversations') },
    { name: 'an unknown path', status: 404, send: (account) => account.rest('GET', '/nothing') },
    { name: 'the prefix alone', status: 404, send: (account) => account.rest('GET', '') },
    { name: 'an unknown id', status: 404, send: (account) => account.rest('GET', '/conversations/conv_1') },
    { name: 'an unknown method', status: 405, send: (account) => account.rest('PUT', '/conversations') },
    {
      name: 'a missing scope',
      status: 403,
      send: async (account) => (await account.withScopes('leads:read')).rest('GET', '/conversations'),
    },
    {
      name: 'a foreign origin',
      status: 403,
      cost: 0,
      send: (account) => account.rest('GET', '/account', { headers: foreign }),
    },
    { name: 'a bad parameter', status: 400, send: (account) => account.rest('GET', '/conversations?limit=0') },
    {
      name: 'a body that is not JSON',
      status: 400,
      send: (account) => account.rest('POST', '/conversations', { body: '{' }),
    },
    {
      name: 'a body of another type',
      status: 415,
      send: (account) => account.rest('POST', '/conversations', { body: '{}', headers: text }),
    },
    {
      name: 'a body that is too large',
      status: 413,
      send: (account) => account.rest('POST', '/conversations', { body: big }),
    },
    {
      name: 'a body that is too large and says no length',
      status: 413,
      send: (account) => sendRaw(account, 'POST', '/v1/conversations', Readable.from(unmeasured())),
    },
    {
      name: 'a GraphQL body that is too large and says no length',
      status: 413,
      send: (account) => sendRaw(account, 'POST', '/graphql', Readable.from(unmeasured())),
    },
    { name: 'a GraphQL query', status: 200, send: (account) => account.graphql('{ account { id } }') },
    {
      name: 'a GraphQL query by GET',
      status: 200,
      send: (account) => sendRaw(account, 'GET', '/graphql?query={account{id}}'),
    },
    {
      name: 'a GraphQL error of a field',
      status: 200,
      send: (account) => account.graphql('{ conversation(id: "x") { id } }'),
    },
    {
      name: 'a GraphQL syntax error',
      status: 400,
      send: (account) => account.graphql('{', undefined, { headers: { accept: 'application/graphql-response+json' } }),
    },
    {
      name: 'an unknown GraphQL field',
      status: 400,
      send: (account) =>
        account.graphql('{ nothing }', undefined, { headers: { accept: 'application/graphql-response+json' } }),
    },
    { name: 'a GraphQL body that is not JSON', status: 400, send: (account) => account.post('{') },
    { name: 'a GraphQL body of another type', status: 415, send: (account) => account.post('{}', { headers: text }) },
    { name: 'a GraphQL body that is too large', status: 413, send: (account) => account.post(big) },
    {
      name: 'GraphQL from a foreign origin',
      status: 403,
      cost: 0,
      send: (account) => account.graphql('{ account { id } }', undefined, { headers: foreign }),
    },
    {
      name: 'an unknown GraphQL method',
      status: 405,
      send: (account) => sendRaw(account, 'PUT', '/graphql'),
    },
  ];

  test.each(cases)('are on the answer to a known account: $name, $status', async ({ status, cost = 1, send }) => {
    const account = await server.account({ plan: 'pro' });
    const answer = await send(account);
    expect(answer.status).toBe(status);
    expect(limitsOf(answer)).toMatchObject({ plan: 'pro', limit: 1_000, remaining: 1_000 - cost });
  });

  test.each(cases)('are on no answer to an unknown one: $name', async ({ send }) => {
    server.clock.advance(60_000); // so that no failures of the last minute are counted
    const secret = `cs_${'a'.repeat(43)}`;
    const stranger = clientOf(server.url, secret);
    const answer = await send({ ...stranger, secret, withScopes: async () => stranger });
    expect(answer.status).toBe(401);
    for (const name of rateLimitHeaders) expect(answer.headers[name]).toBeUndefined();
  });
});
