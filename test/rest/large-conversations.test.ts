import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { revocationMs } from '../../src/access/admission.ts';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { openWire, requestText } from '../http/wire.ts';
import type { Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// A conversation can hold 8 MiB. It is read and written in pieces, which nobody has to wait for.

let server: TestServer;
let client: TestAccount;
let statements: string[] = [];
beforeAll(async () => {
  server = await startTestServer({ onStatement: (sql) => void statements.push(sql) });
  client = await server.account();
});
afterAll(() => server.close());

async function conversationWith(count: number, content: string): Promise<string> {
  const { body } = await client.rest('POST', '/conversations', { body: { metadata: { a: 'ü' } } });
  const caller: Caller = { account: client.account, keyId: 'test', credential: 'key', scopes: new Set(scopes) };
  const message = { conversationId: body.id, content, sender: 'agent' } as const;
  const all = Array.from({ length: count }, () => sendMessage.execute(server.app.ports, caller, message));
  await Promise.all(all);
  return body.id;
}

test.each([
  { name: 'many short messages', count: 250, content: 'Grüße 📦' },
  { name: 'a few long messages', count: 41, content: '€'.repeat(16_384) },
])('a large conversation has all its messages, in order: $name', async ({ count, content }) => {
  const id = await conversationWith(count, content);
  const { status, headers, body } = await client.rest('GET', `/conversations/${id}`);
  expect([status, headers['transfer-encoding']]).toEqual([200, 'chunked']);
  const { messages, ...conversation } = body;
  expect({ data: [conversation] }).toMatchObject({
    data: (await client.rest('GET', '/conversations?limit=1')).body.data,
  });
  const listed: Json[] = [];
  for (let offset = 0; offset < count; offset += 100) {
    const page = await client.rest('GET', `/conversations/${id}/messages?limit=100&offset=${offset}`);
    listed.push(...page.body.data);
  }
  expect(messages).toEqual(listed);
  // The newest of them are the same, and so is a conversation without any.
  for (const newest of [1, 40, 100]) {
    const found = (await client.rest('GET', `/conversations/${id}?messages=last:${newest}`)).body;
    expect(found).toEqual({ ...conversation, messages: listed.slice(-newest) });
  }
  expect((await client.rest('GET', `/conversations/${id}?messages=none`)).body).toEqual(conversation);
  expect(listed.map(({ sequence }) => sequence)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
});

/** Not for indexing them. */
const readsMessages = (sql: string): boolean => /\bmessages\b/.test(sql) && !sql.includes('search_texts');

test('a client that has the current version is told so before any message is read', async () => {
  const id = await conversationWith(150, 'Hello');
  const path = `/conversations/${id}`;
  const { headers } = await client.rest('GET', path);
  statements = [];
  const unchanged = await client.rest('GET', path, { headers: { 'if-none-match': headers['etag'] as string } });
  expect([unchanged.status, unchanged.headers['etag']]).toEqual([304, headers['etag']]);
  expect(statements.filter(readsMessages)).toEqual([]);
});

test('HEAD has the headers of a large conversation, and reads no message', async () => {
  const id = await conversationWith(150, 'Hello');
  const path = `/conversations/${id}`;
  const got = await client.rest('GET', path);
  statements = [];
  const head = await request(`${server.url}/v1${path}`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${client.secret}` },
  });
  expect([head.statusCode, await head.body.text()]).toEqual([200, '']);
  for (const name of ['etag', 'content-type', 'cache-control', 'vary'])
    expect(head.headers[name]).toBe(got.headers[name]);
  expect(statements.filter(readsMessages)).toEqual([]);
});

/** Begins to read a conversation, stops, and reads on when something has happened. */
async function cutOffAfter(id: string, secret: string, happens: () => Promise<void>): Promise<void> {
  const wire = openWire(server.url);
  wire.pause();
  await wire.send(requestText('GET', `/v1/conversations/${id}`, { headers: { Authorization: `Bearer ${secret}` } }));
  await client.rest('GET', '/account');
  await happens();
  wire.goOn();
  await wire.ended;
  await expect(wire.response()).rejects.toThrow('The connection ended');
  expect(server.logLines.filter(({ level }) => level === 'error')).toEqual([]);
}

longTest('a large conversation that is deleted while it is read is cut off, not ended', async () => {
  const id = await conversationWith(160, '€'.repeat(16_384));
  await cutOffAfter(id, client.secret, async () => {
    expect((await client.rest('DELETE', `/conversations/${id}`)).status).toBe(204);
  });
});

longTest('and so is one whose reader’s key is revoked meanwhile', async () => {
  const id = await conversationWith(160, '€'.repeat(16_384));
  const key = (await client.rest('POST', '/api-keys', { body: { name: 'ending' } })).body;
  await cutOffAfter(id, key.secret, async () => {
    expect((await client.rest('DELETE', `/api-keys/${key.id}`)).status).toBe(204);
    const revokedMs = performance.now();
    await until(() => performance.now() > revokedMs + revocationMs);
  });
});
