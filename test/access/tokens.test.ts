import { createHmac, createSign, generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { scopes } from '../../src/domain/caller.ts';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { minuteMs } from '../support/clock.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { leastOf } from '../support/wait.ts';

// Tokens from their making to their end. What they may call is in `admission.test.ts`, what their end does to
// sockets and streams in `test/events/socket.test.ts`, which pages may send them in `origins.test.ts`.

let server: TestServer;
let account: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
});
afterAll(() => server.close());
// Failed authentications are limited by the minute.
beforeEach(() => server.clock.advance(minuteMs));

async function mint(client: Client, input: object = {}): Promise<Json> {
  const { status, body } = await client.rest('POST', '/tokens', { body: { scopes, ...input } });
  expect(status).toBe(201);
  return body;
}

async function makeKey(input: object = {}): Promise<{ id: string; secret: string; client: Client }> {
  const { body } = await account.rest('POST', '/api-keys', { body: { name: 'of a test', ...input } });
  return { id: body.id, secret: body.secret, client: server.clientFor(body.secret) };
}

const inMs = (ms: number): string => new Date(server.clock.now() + ms).toISOString();

/** The status of a request with this credential on each face. */
async function statuses(credential: string, { url }: { url: string } = server): Promise<number[]> {
  const client = clientOf(url, credential);
  return [
    (await client.rest('GET', '/account')).status,
    (await client.graphql('{ account { id } }', undefined)).status,
  ];
}

const accepted = [200, 200];
const refused = [401, 401];

describe('a token', () => {
  test('says what it may do and until when, and may do that', async () => {
    const { body: conversation } = await account.rest('POST', '/conversations');
    const given = await mint(account, {
      scopes: ['events:read', 'conversations:read', 'events:read'],
      conversationId: conversation.id,
      sender: 'visitor',
      expiresInSeconds: 60,
    });
    expect(given).toEqual({
      token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expiresAt: inMs(minuteMs),
      scopes: ['conversations:read', 'events:read'],
      conversationId: conversation.id,
      visitor: null,
      sender: 'visitor',
      requestsPerHour: 20_000,
      trustedDocumentsOnly: false,
    });
    const client = server.clientFor(given.token);
    expect((await client.rest('GET', `/conversations/${conversation.id}`)).status).toBe(200);
  });

  test('is valid for 15 minutes, unless another time is asked for, to the very moment that it says', async () => {
    server.clock.advance(357); // a token's times are whole seconds
    for (const [input, seconds] of [
      [{}, 900],
      [{ expiresInSeconds: 60 }, 60],
      [{ expiresInSeconds: 3_600 }, 3_600],
    ] as const) {
      const startMs = server.clock.now();
      const { token, expiresAt } = await mint(account, input);
      expect(Date.parse(expiresAt)).toBe(Math.floor(startMs / 1_000 + seconds) * 1_000);
      expect(await statuses(token)).toEqual(accepted);
      server.clock.nowMs = Date.parse(expiresAt) - 1;
      expect(await statuses(token)).toEqual(accepted);
      server.clock.nowMs = Date.parse(expiresAt);
      expect(await statuses(token)).toEqual(refused);
    }
  });

  test('ends with its key when that expires earlier, and says so', async () => {
    const expiresAt = inMs(5 * minuteMs);
    const { client } = await makeKey({ expiresAt });
    const given = await mint(client);
    expect(given.expiresAt).toBe(expiresAt);
    server.clock.nowMs = Date.parse(expiresAt) - 1;
    expect(await statuses(given.token)).toEqual(accepted);
    server.clock.nowMs = Date.parse(expiresAt);
    expect(await statuses(given.token)).toEqual(refused);
  });

  test('dies with its key, from the next request on, and other keys’ tokens live', async () => {
    const { id, client } = await makeKey();
    const [dying, living] = [await mint(client), await mint(account)];
    expect(await statuses(dying.token)).toEqual(accepted);
    await account.rest('DELETE', `/api-keys/${id}`);
    expect(await statuses(dying.token)).toEqual(refused);
    expect(await statuses(living.token)).toEqual(accepted);
  });

  test('may not do what its key may not, which is named, in the same words on both faces', async () => {
    const client = await account.withScopes('leads:read', 'events:read');
    const rest = await client.rest('POST', '/tokens', { body: { scopes: ['leads:read', 'leads:write'] } });
    const graphql = await client.graphql(
      'mutation { createToken(input: { scopes: [LEADS_READ, LEADS_WRITE] }) { token { token } } }',
    );
    expect(rest).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
    expect(rest.body.detail).toContain('`leads:write`');
    expect(graphql.errors).toMatchObject([{ message: rest.body.detail, extensions: { code: 'FORBIDDEN' } }]);
    await mint(client, { scopes: ['leads:read'] });
  });

  test('cannot make another, whatever its scopes', async () => {
    const client = server.clientFor((await mint(account)).token);
    const rest = await client.rest('POST', '/tokens', { body: { scopes: ['leads:read'] } });
    const graphql = await client.graphql('mutation { createToken(input: { scopes: [LEADS_READ] }) { eventCursor } }');
    expect(rest).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
    expect(graphql.errors).toMatchObject([{ message: rest.body.detail, extensions: { code: 'FORBIDDEN' } }]);
    // It is refused before its input is looked at.
    expect((await client.rest('POST', '/tokens', { body: '{' })).status).toBe(403);
  });

  test('of a sender speaks as that one only, in a first message too', async () => {
    const client = server.clientFor((await mint(account, { sender: 'visitor' })).token);
    const { body: conversation } = await client.rest('POST', '/conversations', {
      body: { message: { content: 'Hello', sender: 'visitor' } },
    });
    const attempts = async (sender: string): Promise<(string | undefined)[]> => {
      const spelt = sender.toUpperCase();
      const rest = [
        await client.rest('POST', `/conversations/${conversation.id}/messages`, { body: { content: 'x', sender } }),
        await client.rest('POST', '/conversations', { body: { message: { content: 'x', sender } } }),
      ];
      const graphql = [
        await client.graphql(
          `mutation { sendMessage(input: { conversationId: "${conversation.id}", content: "x", sender: ${spelt} }) { eventCursor } }`,
        ),
        await client.graphql(
          `mutation { createConversation(input: { message: { content: "x", sender: ${spelt} } }) { eventCursor } }`,
        ),
      ];
      return [...rest.map(({ body }) => body.code), ...graphql.map(({ errors }) => errors?.[0]?.extensions.code)];
    };
    for (const sender of ['agent', 'bot']) expect(await attempts(sender)).toEqual(Array(4).fill('FORBIDDEN'));
    expect(await attempts('visitor')).toEqual(Array(4).fill(undefined));
  });

  test('spends its account’s budget, and its use is a use of its key', async () => {
    const own = await server.account({ plan: 'trial' });
    const { token } = await mint(own);
    server.clock.advance(10 * minuteMs);
    const { headers } = await server.clientFor(token).rest('GET', '/account');
    expect(headers['x-ratelimit-remaining']).toBe('98');
    const minute = new Date(Math.floor(server.clock.now() / minuteMs) * minuteMs).toISOString();
    const { ports } = server.app;
    await expect
      .poll(async () => (await ports.storage.read.apiKeys.page(own.account.id, { limit: 1, offset: 0 })).items)
      .toMatchObject([{ lastUsedAt: minute }]);
  });

  test('is checked with one statement a request, and the key that signs it is read once', async () => {
    const statements: string[] = [];
    const own = await startTestServer({ onStatement: (sql) => statements.push(sql) });
    onTestFinished(() => own.close());
    const owner = await own.account();
    const client = clientOf(own.url, (await mint(owner)).token);
    await client.rest('GET', '/conversations/conv_1');
    // Its use is recorded in the background, which reads the key, too.
    const { read } = own.app.ports.storage;
    const lastUsedAt = async () =>
      (await read.apiKeys.page(owner.account.id, { limit: 1, offset: 0 })).items[0]?.lastUsedAt;
    await expect.poll(lastUsedAt).not.toBeNull();
    // The erasures of other processes are looked for every now and then, and on PostgreSQL their commits.
    const byItself = /'erasures'|FROM meta WHERE name = \$1|pg_/;
    const readsOfTen = async (): Promise<number> => {
      statements.length = 0;
      for (let sent = 0; sent < 10; sent++) await client.rest('GET', '/nothing');
      const reads = statements.filter((sql) => /^select/i.test(sql) && !byItself.test(sql));
      for (const sql of reads) expect(sql).toContain('api_keys');
      return reads.length;
    };
    // What has waited for more than 100 ms, as on a busy machine now and then, is looked up once more.
    expect(await leastOf(readsOfTen, 11)).toBe(10);
  });

  test('is in no line of the log', async () => {
    const { token } = await mint(account);
    const before = server.logLines.length;
    await statuses(token);
    await statuses(`${token}x`);
    const [, claims = '', signature = ''] = token.split('.');
    expect(server.logLines.slice(before).map(({ status }) => status)).toEqual([...accepted, ...refused]);
    const lines = server.logLines.map((line) => JSON.stringify(line));
    expect(lines.filter((line) => line.includes(claims) || line.includes(signature))).toEqual([]);
  });

  test('outlives a restart, and is accepted by another server on the same file, not on another file', async () => {
    const { databasePath, clock } = server;
    const beside = await startTestServer({ databasePath, clock });
    const elsewhere = await startTestServer({ clock });
    onTestFinished(() => elsewhere.close());
    const [here, there] = [await mint(account), await mint(clientOf(beside.url, account.secret))];
    expect(await statuses(here.token, beside)).toEqual(accepted);
    expect(await statuses(there.token)).toEqual(accepted);
    expect(await statuses(here.token, elsewhere)).toEqual(refused);
    await beside.close();
    const again = await startTestServer({ databasePath, clock });
    onTestFinished(() => again.close());
    expect(await statuses(there.token, again)).toEqual(accepted);
  });
});

// ── Forgeries ──────────────────────────────────────────────────────────────────────────────────

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

function signed(header: object, claims: unknown, key: Uint8Array | string, hash = 'sha256'): string {
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${createHmac(hash, key).update(text).digest('base64url')}`;
}

/** A genuine token taken apart, and the key that it was signed with. */
interface Parts {
  readonly token: string;
  readonly header: Json;
  readonly claims: Json;
  readonly key: Buffer;
  /** Epoch seconds. */
  readonly now: number;
}

async function takeApart(): Promise<Parts> {
  const { token } = await mint(account);
  const [header, claims] = token
    .split('.', 2)
    .map((part: string) => JSON.parse(String(Buffer.from(part, 'base64url'))));
  const [row] = await server.query("SELECT value FROM meta WHERE name = 'token_key'");
  const key = Buffer.from(String(row?.['value']), 'hex');
  return { token, header, claims, key, now: Math.floor(server.clock.now() / 1_000) };
}

const rsa = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' });
const unknownKey = 'key_01m7yzcf3tfz1aan3df712nas7';

type Forgery = [what: string, forge: (parts: Parts) => string | Promise<string>];

const forgeries: Forgery[] = [
  ['of two parts', ({ token }) => token.split('.').slice(0, 2).join('.')],
  ['without a signature', ({ token }) => `${token.split('.').slice(0, 2).join('.')}.`],
  ['of four parts', ({ token }) => `${token}.x`],
  ['that is no JSON', ({ key }) => signed('x' as unknown as object, 'y', key)],
  ['unsigned, as `none`', ({ header, claims }) => `${encode({ ...header, alg: 'none' })}.${encode(claims)}.`],
  ['signed, as `none`', ({ header, claims, key }) => signed({ ...header, alg: 'none' }, claims, key)],
  ['signed with no key', ({ header, claims }) => signed(header, claims, '')],
  ['signed with another key', ({ header, claims }) => signed(header, claims, Buffer.alloc(32, 1))],
  [
    'signed with the key’s name in its header',
    ({ header, claims }) => signed({ ...header, kid: 'mine' }, claims, 'mine'),
  ],
  [
    'signed with a key in its header',
    ({ header, claims }) =>
      signed({ ...header, jwk: { kty: 'oct', k: Buffer.from('mine').toString('base64url') } }, claims, 'mine'),
  ],
  ['signed as HS512', ({ header, claims, key }) => signed({ ...header, alg: 'HS512' }, claims, key, 'sha512')],
  [
    'signed as RS256 with a key of RSA',
    ({ header, claims }) => {
      const text = `${encode({ ...header, alg: 'RS256' })}.${encode(claims)}`;
      return `${text}.${createSign('RSA-SHA256').update(text).sign(rsa.privateKey, 'base64url')}`;
    },
  ],
  ['signed as HS256 with a public key of RSA', ({ header, claims }) => signed(header, claims, publicPem)],
  ['said to be RS256', ({ header, claims, key }) => signed({ ...header, alg: 'RS256' }, claims, key)],
  [
    'with other claims than were signed',
    ({ token, claims }) => {
      const [header, , signature] = token.split('.');
      return [header, encode({ ...claims, exp: claims.exp + 1 }), signature].join('.');
    },
  ],
  [
    'with another header than was signed',
    ({ token, header }) => [encode({ ...header, kid: '1' }), ...token.split('.').slice(1)].join('.'),
  ],
  ['of another type', ({ header, claims, key }) => signed({ ...header, typ: 'JWT' }, claims, key)],
  ['of no type', ({ header: { alg }, claims, key }) => signed({ alg }, claims, key)],
  [
    'with an extension that is unknown',
    ({ header, claims, key }) => signed({ ...header, crit: ['x'], x: 1 }, claims, key),
  ],
  [
    'with claims that are not encoded',
    ({ header, claims, key }) => signed({ ...header, crit: ['b64'], b64: false }, claims, key),
  ],
  ['of claims that are a list', ({ header, claims, key }) => signed(header, [claims], key)],
  ['of another issuer', ({ header, claims, key }) => signed(header, { ...claims, iss: 'somebody' }, key)],
  ['for another audience', ({ header, claims, key }) => signed(header, { ...claims, aud: 'somebody' }, key)],
  ...['iss', 'aud', 'sub', 'iat', 'exp', 'account', 'scope'].map((claim): (typeof forgeries)[number] => [
    `without its ${claim}`,
    ({ header, claims, key }) => signed(header, { ...claims, [claim]: undefined }, key),
  ]),
  ['that expires now', ({ header, claims, key, now }) => signed(header, { ...claims, exp: now }, key)],
  ['that expires in words', ({ header, claims, key }) => signed(header, { ...claims, exp: 'never' }, key)],
  ['that is not valid yet', ({ header, claims, key, now }) => signed(header, { ...claims, nbf: now + 1 }, key)],
  ['from the future', ({ header, claims, key, now }) => signed(header, { ...claims, iat: now + 61 }, key)],
  ['older than any may be', ({ header, claims, key, now }) => signed(header, { ...claims, iat: now - 3_601 }, key)],
  ['of a key that never was', ({ header, claims, key }) => signed(header, { ...claims, sub: unknownKey }, key)],
  [
    'of a key of another account',
    async ({ header, claims, key }) => signed(header, { ...claims, account: (await server.account()).account.id }, key),
  ],
  ['for a scope that there is none of', ({ header, claims, key }) => signed(header, { ...claims, scope: 'all' }, key)],
  ['with a list of scopes', ({ header, claims, key }) => signed(header, { ...claims, scope: ['leads:read'] }, key)],
  ['for a sender that there is none of', ({ header, claims, key }) => signed(header, { ...claims, sender: 'me' }, key)],
  ['for a conversation of no form', ({ header, claims, key }) => signed(header, { ...claims, conversation: 1 }, key)],
  ...[false, 'true', 1, null].map(
    (trustedDocumentsOnly): Forgery => [
      `for registered documents only: ${JSON.stringify(trustedDocumentsOnly)}`,
      ({ header, claims, key }) => signed(header, { ...claims, trustedDocumentsOnly }, key),
    ],
  ),
  ['that is huge', ({ header, claims, key }) => signed(header, { ...claims, more: 'x'.repeat(8_000) }, key)],
];

describe('a forged token', () => {
  test('would be accepted if it had no fault: the table below is of its faults alone', async () => {
    const { header, claims, key } = await takeApart();
    expect(await statuses(signed(header, claims, key))).toEqual(accepted);
  });

  test('is not one of a machine whose clock is a bit ahead', async () => {
    const { header, claims, key, now } = await takeApart();
    expect(await statuses(signed(header, { ...claims, iat: now + 60 }, key))).toEqual(accepted);
  });

  test.each(forgeries)('%s is refused like any unknown credential, on both faces and on a socket', async (_, forge) => {
    const token = await forge(await takeApart());
    const client = server.clientFor(token);
    const rest = await client.rest('GET', '/account');
    expect(rest).toMatchObject({ status: 401, body: { detail: 'The credential is unknown, expired or revoked.' } });
    const graphql = await client.graphql('{ account { id } }');
    expect(graphql).toMatchObject({ status: 401, errors: [{ message: rest.body.detail }] });
    const socket = await new RawSocket(server.url).opened();
    socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } });
    expect(await socket.closed).toMatchObject({ code: 4403 });
  });

  test('of any text at all is refused, and makes no trouble', async () => {
    const part = fc.oneof(
      fc.string({ unit: fc.constantFrom(...'ABCxyz019_-'), maxLength: 40 }),
      fc.json({ maxDepth: 1 }).map((text) => Buffer.from(text).toString('base64url')),
      fc
        .record({ alg: fc.constantFrom('HS256', 'none', 'RS256', 'dir', 1), typ: fc.constantFrom('JWT', null) })
        .map(encode),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 6 }), async (parts) => {
        server.clock.advance(minuteMs);
        expect(await statuses(parts.join('.'))).toEqual(refused);
      }),
      { numRuns: 200 },
    );
    expect(server.logLines.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
