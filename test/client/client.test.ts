import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Client, newestOnly, ServiceError } from '../../src/client/index.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// The client for front-ends and programs, against a real server.

let server: TestServer;
let account: TestAccount;
let client: Client;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
  client = new Client({ url: server.url, credential: account.secret });
});
afterAll(() => server.close());

/** A stand-in for the network: passes requests on unless it is told what happens to them. */
function network(happens: (count: number, url: string) => Promise<Response | undefined> | Response | undefined) {
  const sent: { url: string; headers: Record<string, string>; body: unknown }[] = [];
  const through: typeof fetch = async (url, init) => {
    sent.push({ url: String(url), headers: init?.headers as Record<string, string>, body: init?.body });
    return (await happens(sent.length, String(url))) ?? (await fetch(url, init));
  };
  return { through, sent };
}

const refusal = (status: number, code: string, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify({ code, detail: 'Not now.', status }), {
    status,
    headers: { 'X-Request-Id': 'r-1', 'Content-Type': 'application/problem+json', ...headers },
  });

describe('a call', () => {
  test('takes what belongs into path, query and body together, and answers what REST does', async () => {
    const created = await client.call('createConversation', {
      subject: 'Parcel',
      tags: ['a b', 'urgent'],
      message: { sender: 'visitor', content: 'Where is it?' },
    });
    const sent = await client.call('sendMessage', { conversationId: created.id, sender: 'agent', content: 'Here.' });
    expect(sent).toMatchObject({ conversationId: created.id, sequence: 2 });
    const changed = await client.call('updateConversation', { id: created.id, addTags: ['late'] });
    expect(changed.tags).toEqual(['a b', 'late', 'urgent']);
    const listed = await client.call('listConversations', { tags: ['a b', 'late'], status: ['active'], limit: 5 });
    expect(listed.data.map(({ id }) => id)).toEqual([created.id]);
    const read = await client.call('markRead', { conversationId: created.id, reader: 'agent-1', sequence: 2 });
    expect(read.sequence).toBe(2);
    expect(await client.call('deleteConversation', { id: created.id })).toBeUndefined();
    expect((await client.call('getAccount')).id).toBe(account.account.id);
  });

  test('that is refused throws what the service has said', async () => {
    const failed = await client.call('captureLead', { phone: '' }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ServiceError);
    expect(failed).toMatchObject({
      code: 'VALIDATION_FAILED',
      status: 400,
      requestId: expect.any(String),
      errors: [{ pointer: '/phone', detail: expect.any(String) }],
    });
    await expect(client.call('getConversation', { id: 'conv_1' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(client.graphql('{ conversation(id: "conv_1") { id } }')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(client.graphql('{ nothing }')).rejects.toMatchObject({ code: 'VALIDATION_FAILED', status: 400 });
  });

  test('whose version has changed meanwhile changes nothing', async () => {
    const { id, version } = await client.call('createConversation', {});
    await client.call('updateConversation', { id, subject: 'first' }, { ifVersion: version });
    const second = client.call('updateConversation', { id, subject: 'second' }, { ifVersion: version });
    await expect(second).rejects.toMatchObject({ code: 'VERSION_CONFLICT' });
  });

  test('whose answer was lost is sent again under its key, and done once', async () => {
    const { id } = await client.call('createConversation', {});
    const { through, sent } = network(async (count, url) => {
      if (count > 1) return undefined;
      await fetch(url, { method: 'POST', headers: sent[0]?.headers ?? {}, body: String(sent[0]?.body) });
      throw new TypeError('the connection was lost');
    });
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    const message = await unlucky.call('sendMessage', { conversationId: id, sender: 'agent', content: 'Once.' });
    expect(message.sequence).toBe(1);
    expect(sent).toHaveLength(2);
    expect((await client.call('getConversation', { id, messages: 'none' })).messageCount).toBe(1);
  });

  test('that could be done twice is not sent again', async () => {
    const { through, sent } = network(() => Promise.reject(new TypeError('the connection was lost')));
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    await expect(unlucky.call('createToken', { scopes: ['events:read'] })).rejects.toThrow('the connection was lost');
    await expect(unlucky.graphql('mutation { a }')).rejects.toThrow('the connection was lost');
    expect(sent).toHaveLength(2);
  });

  test('waits for as long as the service says, and no longer than it may', async () => {
    const { through, sent } = network((count) =>
      count === 1 ? refusal(503, 'UNAVAILABLE', { 'Retry-After': '1' }) : undefined,
    );
    const patient = new Client({ url: server.url, credential: account.secret, fetch: through });
    const startedMs = performance.now();
    await patient.call('getAccount');
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(990);
    expect(sent).toHaveLength(2);

    const spent = network(() => refusal(429, 'RATE_LIMITED', { 'Retry-After': '1800' }));
    const impatient = new Client({ url: server.url, credential: account.secret, fetch: spent.through });
    await expect(impatient.call('getAccount')).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      retryAfterSeconds: 1_800,
    });
    expect(spent.sent).toHaveLength(1);
  });

  test('gets a new token when the one that it has is refused, and only then', async () => {
    const given: string[] = [];
    const page = new Client({
      url: server.url,
      credential: async () => {
        const { body } = await account.rest('POST', '/tokens', { body: { scopes: ['conversations:read'] } });
        given.push(body.token);
        return given.length === 1 ? `${body.token}x` : body;
      },
    });
    await page.call('listConversations');
    await page.call('listConversations');
    expect(given).toHaveLength(2);
    const hopeless = new Client({ url: server.url, credential: async () => 'no token' });
    await expect(hopeless.call('getAccount')).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  });

  test('ends when it is told to', async () => {
    const { through } = network(() => refusal(503, 'UNAVAILABLE', { 'Retry-After': '30' }));
    const patient = new Client({ url: server.url, credential: account.secret, fetch: through });
    const stop = new AbortController();
    const called = patient.call('getAccount', {}, { signal: stop.signal });
    setImmediate(() => stop.abort());
    await expect(called).rejects.toThrow('abort');
  });
});

test('a list is all its items, whatever the size of its pages', async () => {
  const owner = await server.account();
  const own = new Client({ url: server.url, credential: owner.secret });
  const made: string[] = [];
  for (let count = 0; count < 7; count++) made.push((await own.call('createConversation', {})).id);
  const found: string[] = [];
  for await (const { id } of own.list('listConversations', { limit: 3, sort: 'createdAt' })) found.push(id);
  expect(found).toEqual(made);
  const events: number[] = [];
  for await (const { sequence } of own.list('listEvents', { limit: 2 })) events.push(sequence ?? 0);
  expect(events).toEqual([1, 2, 3, 4, 5, 6, 7]);
});

describe('the guard before a cache', () => {
  const of = (version: number, fields: object = {}) => ({ __typename: 'Conversation', id: 'c1', version, ...fields });

  test('lets no older version of a conversation through, wherever it stands', () => {
    const newest = newestOnly();
    expect(newest({ conversation: of(2, { status: 'CLOSED' }) })).toEqual({
      conversation: of(2, { status: 'CLOSED' }),
    });
    const late = { conversations: { nodes: [of(1, { status: 'ACTIVE' }), { ...of(1), id: 'c2' }] } };
    expect(newest(late)).toEqual({
      conversations: { nodes: [of(2, { status: 'CLOSED' }), { ...of(1), id: 'c2' }] },
    });
    expect(newest({ conversation: of(3, { status: 'ACTIVE' }) })).toEqual({
      conversation: of(3, { status: 'ACTIVE' }),
    });
  });

  test('adds no field that was not asked for, keeps those that it knows no newer of, and lets messages be', () => {
    const newest = newestOnly();
    newest(of(2, { status: 'CLOSED' }));
    newest(of(2, { subject: 'Parcel', messages: { nodes: [1, 2] } }));
    const late = of(1, { subject: null, tags: ['a'], messages: { nodes: [1] } });
    expect(newest(late)).toEqual(of(2, { subject: 'Parcel', tags: ['a'], messages: { nodes: [1] } }));
  });
});

test('the client is small: a page can afford it, and what it loads for sockets', async () => {
  const { outputFiles } = await build({
    entryPoints: ['src/client/index.ts'],
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    outdir: 'dist',
    write: false,
  });
  const sizeOf = (isEntry: boolean): number => {
    const files = outputFiles.filter(({ path }) => path.endsWith('/index.js') === isEntry);
    return files.reduce((sum, { contents }) => sum + gzipSync(contents).length, 0);
  };
  onTestFinished(() =>
    console.log(`The client: ${sizeOf(true)} bytes, compressed; for sockets: ${sizeOf(false)} more.`),
  );
  expect(sizeOf(true)).toBeLessThanOrEqual(5_000);
  expect(sizeOf(false)).toBeGreaterThan(1_000);
  expect(sizeOf(false)).toBeLessThanOrEqual(5_000);
});
