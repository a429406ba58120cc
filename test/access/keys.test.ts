import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { timestamp } from '../../src/domain/time.ts';
import type { Client, Json } from '../support/client.ts';
import { minuteMs } from '../support/clock.ts';
import { sampleKey } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// Keys that are made with other credentials: none may do more than what has made it, nor for longer.

let server: TestServer;
let account: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
});
afterAll(() => server.close());
// Failed authentications are limited by the minute.
beforeEach(() => server.clock.advance(minuteMs));

const inMs = (ms: number): string => new Date(server.clock.now() + ms).toISOString();

const keyOver: Readonly<Record<'REST' | 'GraphQL', (client: Client, input?: object) => Promise<Json>>> = {
  async REST(client, input) {
    const { status, body } = await client.rest('POST', '/api-keys', { body: { name: 'made', ...input } });
    return status === 201 ? body : { code: body.code, errors: body.errors };
  },
  async GraphQL(client, input) {
    const { data, errors } = await client.graphql(
      `mutation ($input: CreateApiKeyInput!) { createApiKey(input: $input) { apiKey { id expiresAt secret } } }`,
      { input: { name: 'made', ...input } },
    );
    const { code, errors: faults } = errors?.[0]?.extensions ?? {};
    return data.createApiKey?.apiKey ?? { code, errors: faults };
  },
};

test.each(Object.entries(keyOver))('keys that have expired leave room for others: %s', async (_, make) => {
  const crowded = await server.account();
  for (let made = 1; made < 100; made++) await make(crowded, { expiresAt: inMs(minuteMs) });
  expect(await make(crowded)).toMatchObject({ code: 'QUOTA_EXCEEDED' });
  server.clock.advance(minuteMs);
  expect(await make(crowded)).toMatchObject({ secret: expect.any(String) });
});

test('an account keeps the last thousand of its keys that have ended, however many it makes', async () => {
  const owner = await server.account();
  const now = server.clock.now();
  await server.storage.write(async (tx) => {
    for (let index = 0; index < 1_015; index++) {
      const key = sampleKey({ name: 'ended', expiresAt: timestamp(now - index) });
      await tx.apiKeys.insert(owner.account.id, key, randomBytes(32));
    }
  });
  const ended = async () => {
    const statement = "SELECT count(*) AS count FROM api_keys WHERE account_id = ? AND name = 'ended'";
    return (await server.query(statement, owner.account.id))[0]?.['count'];
  };
  expect(await keyOver.REST(owner)).toMatchObject({ secret: expect.any(String) });
  expect(await ended()).toBe(1_005);
  expect(await keyOver.GraphQL(owner)).toMatchObject({ secret: expect.any(String) });
  expect(await ended()).toBe(1_000);
});

/** A token or a key that ends in ten minutes. */
const ending = {
  async token(input: object = {}): Promise<Client> {
    const scopes = ['conversations:read', 'conversations:write', 'keys:manage'];
    const body = { scopes, expiresInSeconds: 600, ...input };
    return server.clientFor((await account.rest('POST', '/tokens', { body })).body.token);
  },
  async key(): Promise<Client> {
    return server.clientFor((await keyOver.REST(account, { expiresAt: inMs(10 * minuteMs) })).secret);
  },
};

const statusOf = async (secret: string) => (await server.clientFor(secret).rest('GET', '/account')).status;

describe.each(['token', 'key'] as const)('with a %s that ends', (credential) => {
  test.each([
    ['REST', '/expiresAt'],
    ['GraphQL', '/input/expiresAt'],
  ] as const)('no key can be made that outlives it, over %s', async (face, pointer) => {
    const [client, end] = [await ending[credential](), inMs(10 * minuteMs)];
    expect(await keyOver[face](client, { expiresAt: inMs(10 * minuteMs + 1) })).toEqual({
      code: 'VALIDATION_FAILED',
      errors: [{ pointer, detail: `must not be after ${end}, when the calling credential ends` }],
    });
    const sooner = await keyOver[face](client, { expiresAt: inMs(5 * minuteMs) });
    expect(sooner.expiresAt).toBe(inMs(5 * minuteMs));
    const made = [
      await keyOver[face](client),
      await keyOver[face](client, { expiresAt: null }),
      await keyOver[face](client, { expiresAt: end }),
    ];
    // Nor by a key of that key.
    made.push(await keyOver[face](server.clientFor(made[0]?.secret)));
    expect(made.map(({ expiresAt }) => expiresAt)).toEqual(Array(4).fill(end));
    server.clock.nowMs = Date.parse(end) - 1;
    expect(await Promise.all(made.map(({ secret }) => statusOf(secret)))).toEqual(Array(4).fill(200));
    server.clock.nowMs = Date.parse(end);
    expect(await Promise.all(made.map(({ secret }) => statusOf(secret)))).toEqual(Array(4).fill(401));
  });
});

test('a key that does not end makes keys that do not, unless they are to', async () => {
  expect((await keyOver.REST(account)).expiresAt).toBeNull();
  const expiresAt = inMs(365 * 24 * 60 * minuteMs);
  expect((await keyOver.REST(account, { expiresAt })).expiresAt).toBe(expiresAt);
});

describe.each(['REST', 'GraphQL'] as const)('over %s', (face) => {
  test('a token that speaks as one sender only makes no key that could speak as any', async () => {
    const client = await ending.token({ sender: 'visitor' });
    const spelt = (scope: string) => (face === 'REST' ? scope : scope.toUpperCase().replace(':', '_'));
    expect(await keyOver[face](client)).toMatchObject({ code: 'FORBIDDEN' });
    const writing = [spelt('conversations:write')];
    expect(await keyOver[face](client, { scopes: writing })).toMatchObject({ code: 'FORBIDDEN' });
    const reading = [spelt('conversations:read')];
    expect(await keyOver[face](client, { scopes: reading })).toMatchObject({ secret: expect.any(String) });
  });
});
