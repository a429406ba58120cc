import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { request } from 'undici';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { scopes } from '../../src/domain/caller.ts';
import { signIn } from '../../src/domain/sign-ins.ts';
import type { Json } from '../support/client.ts';
import { hourMs, minuteMs } from '../support/clock.ts';
import { temporaryFolder } from '../support/files.ts';
import { isOnPostgres } from '../support/postgres.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// The service's own pages sign in with an API key, and have a cookie in its place that gives out tokens.

const session = '/console/session';
const listed = 'https://shop.example';

let server: TestServer;
let account: TestAccount;
let databasePath: string;

beforeEach(async () => {
  databasePath = join(temporaryFolder(), 'test.db');
  server = await startTestServer({ databasePath, config: { corsOrigins: [listed] } });
  account = await server.account();
});
afterEach(() => server.close());

type Headers = Readonly<Record<string, string | undefined>>;

/** Sends what a page of the service sends. */
async function send(method: 'POST' | 'DELETE' | 'GET' | 'OPTIONS', path: string, given: Headers = {}, body?: string) {
  const headers = Object.entries({ origin: server.url, ...given }).flatMap(([name, value]) =>
    value === undefined ? [] : [name, value],
  );
  const response = await request(server.url + path, { method, headers, body: body ?? null });
  const text = await response.body.text();
  return {
    status: response.statusCode,
    headers: response.headers,
    body: (text ? JSON.parse(text) : undefined) as Json,
  };
}

const bearer = (credential: string): string => `Bearer ${credential}`;
const withKey = (headers: Headers = {}) => send('POST', session, { authorization: bearer(account.secret), ...headers });
const token = (cookie: string, headers: Headers = {}) => send('POST', `${session}/token`, { cookie, ...headers });

/** @returns the cookie as the browser sends it */
function cookieOf({ headers }: { headers: Json }): string {
  return String(headers['set-cookie']).split(';')[0] ?? '';
}

async function signedIn(): Promise<string> {
  const answer = await withKey();
  expect(answer.status).toBe(201);
  return cookieOf(answer);
}

test('signing in gives a cookie that no script can read, for its own path, for twelve hours', async () => {
  const answer = await withKey();
  expect([answer.status, answer.headers['cache-control']]).toEqual([201, 'no-store']);
  expect(answer.body).toEqual({ expiresAt: new Date(server.clock.now() + 12 * hourMs).toISOString() });
  expect(answer.headers['set-cookie']).toMatch(
    /^conversation_console=[\w-]{43}; Max-Age=43200; Path=\/console\/session; HttpOnly; SameSite=Strict$/,
  );
});

test('under https, and behind a proxy with a path, the cookie is for these alone', async () => {
  const behind = await startTestServer({ config: { publicUrl: 'https://example.com/talk/' } });
  try {
    const { secret } = await behind.account();
    const { headers } = await request(behind.url + session, {
      method: 'POST',
      headers: { origin: 'https://example.com', authorization: bearer(secret) },
    });
    expect(headers['set-cookie']).toMatch(/; Path=\/talk\/console\/session; HttpOnly; SameSite=Strict; Secure$/);
  } finally {
    await behind.close();
  }
});

test('the cookie gives out tokens of fifteen minutes with the scopes of the key', async () => {
  const some = ['conversations:read', 'keys:manage'];
  const { body: key } = await account.rest('POST', '/api-keys', { body: { name: 'console', scopes: some } });
  const cookie = cookieOf(await withKey({ authorization: bearer(key.secret) }));
  for (let round = 0; round < 2; round++) {
    const { status, body, headers } = await token(cookie);
    expect([status, headers['cache-control'], headers['set-cookie']]).toEqual([201, 'no-store', undefined]);
    const expiresAt = new Date(server.clock.now() + 15 * minuteMs).toISOString();
    expect(body).toMatchObject({ scopes: some, expiresAt, conversationId: null, visitor: null, sender: null });
    const client = server.clientFor(body.token);
    expect((await client.rest('GET', '/conversations')).status).toBe(200);
    expect((await client.graphql('{ account { id } }')).data.account.id).toBe(account.account.id);
    expect((await client.rest('GET', '/leads')).body.code).toBe('FORBIDDEN');
    server.clock.advance(15 * minuteMs);
    expect((await client.rest('GET', '/conversations')).status).toBe(401);
  }
});

test('both cost one unit, and a page without any left is told so', async () => {
  const small = await server.account({ requestsPerHour: 3 });
  const answer = await withKey({ authorization: bearer(small.secret) });
  expect(answer.headers['x-ratelimit-remaining']).toBe('2');
  const cookie = cookieOf(answer);
  expect((await token(cookie)).headers['x-ratelimit-remaining']).toBe('1');
  await token(cookie);
  const refused = await token(cookie);
  expect([refused.status, refused.body.code]).toEqual([429, 'RATE_LIMITED']);
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
});

test('neither REST nor GraphQL looks at the cookie', async () => {
  const cookie = await signedIn();
  for (const path of ['/v1/account', '/graphql', '/mcp']) {
    const { status, body } = await send('POST', path, { cookie, 'content-type': 'application/json' }, '{}');
    expect([path, status, body.code ?? body.errors[0].extensions.code]).toEqual([path, 401, 'UNAUTHENTICATED']);
  }
});

test('a socket does not look at the cookie either', async () => {
  const cookie = await signedIn();
  const headers = { cookie, origin: server.url };
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', { headers });
  socket.on('open', () => socket.send(JSON.stringify({ type: 'connection_init' })));
  const [code] = await once(socket, 'close');
  expect(code).toBe(4403);
});

test('what it stands for ends with the key, after twelve hours, and when its page signs out', async () => {
  const code = async (cookie: string) => (await token(cookie)).body.code;
  const [one, other] = [await signedIn(), await signedIn()];

  const out = await send('DELETE', session, { cookie: one });
  expect([out.status, out.headers['set-cookie']]).toEqual([
    204,
    'conversation_console=; Max-Age=0; Path=/console/session; HttpOnly; SameSite=Strict',
  ]);
  expect([await code(one), await code(other)]).toEqual(['UNAUTHENTICATED', undefined]);
  expect((await send('DELETE', session, { cookie: one })).status).toBe(204);
  expect((await send('DELETE', session)).status).toBe(204);

  server.clock.advance(12 * hourMs - 1);
  expect(await code(other)).toBe(undefined);
  server.clock.advance(1);
  expect(await code(other)).toBe('UNAUTHENTICATED');

  const { body: key } = await account.rest('POST', '/api-keys', { body: { name: 'console' } });
  const third = cookieOf(await withKey({ authorization: bearer(key.secret) }));
  expect(await code(third)).toBe(undefined);
  await account.rest('DELETE', `/api-keys/${key.id}`);
  expect(await code(third)).toBe('UNAUTHENTICATED');
});

test('a key that expires sooner than in twelve hours lasts no longer for having signed in', async () => {
  const expiresAt = new Date(server.clock.now() + hourMs).toISOString();
  const { body: key } = await account.rest('POST', '/api-keys', { body: { name: 'brief', expiresAt } });
  const answer = await withKey({ authorization: bearer(key.secret) });
  expect([answer.body, answer.headers['set-cookie']]).toEqual([
    { expiresAt },
    expect.stringContaining('; Max-Age=3600;'),
  ]);
  server.clock.advance(hourMs - minuteMs);
  expect((await token(cookieOf(answer))).body.expiresAt).toBe(expiresAt);
  server.clock.advance(minuteMs);
  expect((await token(cookieOf(answer))).status).toBe(401);
});

test('a key that is revoked while it signs in leaves nothing behind', async () => {
  const { body: key } = await account.rest('POST', '/api-keys', { body: { name: 'console' } });
  const caller = { account: account.account, keyId: key.id, credential: 'key', scopes: new Set(scopes) } as const;
  await account.rest('DELETE', `/api-keys/${key.id}`);
  await expect(signIn(server.app.ports, caller)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
});

test('a key has at most a hundred, of which the oldest ends with one more; they are removed once they have ended', async () => {
  const cookies: string[] = [];
  for (let count = 0; count < 101; count++) {
    server.clock.advance(1);
    cookies.push(await signedIn());
  }
  const status = async (index: number) => (await token(cookies.at(index) ?? '')).status;
  expect([await status(0), await status(1), await status(-1)]).toEqual([401, 201, 201]);
  const { storage, secrets } = server.app.ports;
  const kept = async () => {
    const found = cookies.map((cookie) => storage.read.signIns.find(secrets.hash(cookie.split('=')[1] ?? '')));
    return (await Promise.all(found)).filter((each) => each !== undefined).length;
  };
  expect(await kept()).toBe(100);
  server.clock.advance(12 * hourMs + 1);
  await server.app.lead();
  await server.app.tick();
  expect(await kept()).toBe(0);
});

test.each([
  ['a program', { origin: undefined }],
  ['a page of another origin', { origin: 'https://evil.example' }],
  ['a page that may call with tokens', { origin: listed }],
  ['a page without an origin', { origin: 'null' }],
])('%s cannot use it', async (_, from) => {
  const cookie = await signedIn();
  const authorization = bearer(account.secret);
  for (const answer of [
    await send('POST', session, { authorization, ...from }),
    await send('POST', `${session}/token`, { cookie, ...from }),
    await send('DELETE', session, { cookie, ...from }),
  ]) {
    expect([answer.status, answer.body.code, answer.headers['set-cookie']]).toEqual([403, 'FORBIDDEN', undefined]);
    expect(answer.headers['access-control-allow-credentials']).toBe(undefined);
  }
  expect((await token(cookie)).status).toBe(201);
});

test('nobody signs in with a token, or with the cookie alone', async () => {
  const cookie = await signedIn();
  const { body } = await token(cookie);
  const refused = await withKey({ authorization: bearer(body.token) });
  expect([refused.status, refused.body.code]).toEqual([403, 'FORBIDDEN']);
  expect((await send('POST', session, { cookie })).body.code).toBe('UNAUTHENTICATED');
});

test('who fails again and again is told to wait, and who has signed in is not', async () => {
  const cookie = await signedIn();
  const unknown = `conversation_console=${'x'.repeat(43)}`;
  const statuses = async (ask: () => Promise<{ status: number }>) => {
    const found = [];
    for (let count = 0; count < 21; count++) found.push((await ask()).status);
    return found;
  };
  const expected = [...Array(20).fill(401), 429];
  expect(await statuses(() => token(unknown))).toEqual(expected);
  expect((await token(cookie)).status).toBe(201);
  server.clock.advance(minuteMs);
  expect(await statuses(() => withKey({ authorization: bearer(`cs_${'x'.repeat(43)}`) }))).toEqual(expected);
  expect((await withKey()).status).toBe(201);
});

test.each([
  '',
  'conversation_console=',
  'conversation_console=x',
  'other=1',
  `conversation_console="${'x'.repeat(41)}"`,
])('a cookie that cannot be one is as good as none: %s', async (cookie) => {
  const { status, body } = await token(cookie);
  expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
});

test('it is found among other cookies', async () => {
  expect((await token(`a=b; ${await signedIn()};theme=dark`)).status).toBe(201);
});

test('other methods, and bodies, are refused as elsewhere', async () => {
  const cookie = await signedIn();
  const wrong = await send('GET', `${session}/token`, { cookie });
  expect([wrong.status, wrong.body.code, wrong.headers['allow']]).toEqual([405, 'METHOD_NOT_ALLOWED', 'POST, OPTIONS']);
  const { status, headers } = await send('OPTIONS', session);
  expect([status, headers['allow']]).toEqual([204, 'POST, DELETE, OPTIONS']);
  const type = { 'content-type': 'application/json' };
  const full = await send('POST', `${session}/token`, { cookie, ...type }, '{"scopes":["leads:read"]}');
  expect([full.status, full.body.code]).toEqual([400, 'BAD_REQUEST']);
});

test('neither the log nor the database holds what the cookie holds', async () => {
  const cookie = await signedIn();
  await token(cookie);
  const secret = cookie.split('=')[1] ?? '';
  for (const file of isOnPostgres ? [] : [databasePath, `${databasePath}-wal`]) {
    expect(readFileSync(file).includes(secret)).toBe(false);
  }
  const kept = await server.query('SELECT * FROM sign_ins');
  expect(kept.length).toBeGreaterThan(0);
  expect(JSON.stringify(kept)).not.toContain(secret);
  expect(JSON.stringify(server.logLines)).not.toContain(secret);
});
