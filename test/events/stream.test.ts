import { once } from 'node:events';
import { request as httpRequest, IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Database from 'better-sqlite3';
import { createClient } from 'graphql-sse';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { streamEvents } from '../../src/domain/events.ts';
import { defaultTimings } from '../../src/http/timings.ts';
import { openEventStream } from '../../src/rest/event-stream.ts';
import { scheduler } from '../../src/runtime/scheduler.ts';
import type { Json } from '../support/client.ts';
import { temporaryFolder } from '../support/files.ts';
import { sampleConversation, sampleEvent } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { eventFields } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

// Server-Sent Events on both faces: what is promised of a stream besides that it resumes.

const timings = { heartbeatMs: 50 };
let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ timings });
});
afterAll(() => server.close());

const opened: { close(): void }[] = [];

// Whatever a test did, nothing of it is left behind.
afterEach(async () => {
  for (const one of opened.splice(0)) one.close();
  await until(() => server.app.sessions.size === 0 && server.app.liveLog.followers === 0);
  expect(server.logLines.splice(0).filter(({ level }) => level !== 'info')).toEqual([]);
});

async function openStream(client: TestAccount, query = '', headers: Record<string, string> = {}): Promise<SseReader> {
  const reader = await SseReader.open(`${server.url}/v1/events/stream${query}`, {
    authorization: `Bearer ${client.secret}`,
    ...headers,
  });
  opened.push(reader);
  return reader;
}

const startConversation = (client: TestAccount, content = 'hello') =>
  client.rest('POST', '/conversations', { body: { message: { content, sender: 'visitor' } } });

const cursorOf = async (client: TestAccount): Promise<string> =>
  (await client.graphql('{ eventCursor }')).data.eventCursor;

const everything = `subscription ($after: String) { events(after: $after) { ${eventFields} } }`;
const expiredCursor = Buffer.from('00.1').toString('base64url');

/** Removes all events that there are, as if they had grown old. */
async function forgetEvents(): Promise<void> {
  server.clock.advance(1);
  await server.app.ports.storage.write(async (tx) => await tx.events.prune(server.clock.now(), 10_000));
}

describe('GET /v1/events/stream', () => {
  test('is an event stream that is not cached, with the headers of every response', async () => {
    const client = await server.account();
    const { status, headers } = await openStream(client, '', { 'x-request-id': 'my-stream' });
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
      'x-request-id': 'my-stream',
      'ratelimit-policy': '"business";q=1000000;w=3600',
      ratelimit: expect.stringMatching(/^"business";r=999999;t=\d+$/),
      'x-ratelimit-remaining': '999999',
    });
    expect(headers).not.toHaveProperty('content-length');
  });

  test('begins with a block that has its start cursor and the reconnection time', async () => {
    const client = await server.account();
    await startConversation(client);
    const reader = await openStream(client);
    await reader.until(({ blocks }) => blocks.length > 0);
    expect(reader.blocks[0]).toEqual({ id: await cursorOf(client), retry: '1000' });
  });

  test('starts at the present without a cursor', async () => {
    const client = await server.account();
    await startConversation(client, 'before');
    const reader = await openStream(client);
    await startConversation(client, 'after');
    await reader.until(({ events }) => events.length === 2);
    expect(reader.events.map(({ sequence }) => sequence)).toEqual([3, 4]);
    expect(reader.events[1].data.message.content).toBe('after');
  });

  test('advances the cursor of a reader whose filter excludes all events', async () => {
    const client = await server.account();
    const reader = await openStream(client, '?types=lead.captured');
    await startConversation(client);
    const end = await cursorOf(client);
    await reader.until(({ lastEventId }) => lastEventId === end);
    expect(reader.events).toEqual([]);
    const resumed = await openStream(client, '', { 'last-event-id': end });
    await startConversation(client, 'next');
    await resumed.until(({ events }) => events.length === 2);
    expect(resumed.events.map(({ sequence }) => sequence)).toEqual([3, 4]);
  });

  test('filters by several types and one conversation', async () => {
    const client = await server.account();
    const after = await cursorOf(client);
    const [one, other] = [(await startConversation(client)).body.id, (await startConversation(client)).body.id];
    for (const id of [one, other]) {
      await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
      await client.rest('POST', '/leads', { body: { conversationId: id, phone: '1' } });
    }
    const readers = [
      { query: 'types=message.received,lead.captured', sequences: [2, 4, 6, 8] },
      { query: `conversationId=${other}`, sequences: [3, 4, 7, 8] },
      { query: `types=conversation.closed&conversationId=${other}`, sequences: [7] },
      { query: 'conversationId=conv_of_nobody', sequences: [] },
    ];
    for (const { query, sequences } of readers) {
      const reader = await openStream(client, `?after=${after}&${query}`);
      const end = await cursorOf(client);
      await reader.until(({ lastEventId }) => lastEventId === end);
      expect([query, reader.events.map(({ sequence }) => sequence)]).toEqual([query, sequences]);
    }
  });

  test('resumes from Last-Event-ID, even if `after` says something else', async () => {
    const client = await server.account();
    await startConversation(client);
    const first = await cursorOf(client);
    await startConversation(client);
    const second = await cursorOf(client);
    await startConversation(client);
    const cases = [
      { query: `?after=${first}`, headers: {}, sequences: [3, 4, 5, 6] },
      { query: `?after=${first}`, headers: { 'last-event-id': second }, sequences: [5, 6] },
      { query: '', headers: { 'last-event-id': second }, sequences: [5, 6] },
      { query: `?after=${second}`, headers: { 'last-event-id': '' }, sequences: [5, 6] },
    ];
    for (const { query, headers, sequences } of cases) {
      const reader = await openStream(client, query, headers);
      await reader.until(({ events }) => events.length === sequences.length);
      expect(reader.events.map(({ sequence }) => sequence)).toEqual(sequences);
    }
  });

  test.each<{ request: string; query?: string; headers?: Record<string, string>; status: number; body: object }>([
    {
      request: 'an unknown type',
      query: '?types=lead.captured,nothing',
      status: 400,
      body: {
        code: 'VALIDATION_FAILED',
        errors: [{ parameter: 'types', detail: expect.any(String) }],
      },
    },
    { request: 'no type', query: '?types=', status: 400, body: { code: 'VALIDATION_FAILED' } },
    {
      request: 'a parameter twice',
      query: '?conversationId=conv_01m7ybqaw0egys6s45e12pxxzb&conversationId=conv_01m7ybqaw0egys6s45e12pxxzb',
      status: 400,
      body: { code: 'VALIDATION_FAILED' },
    },
    {
      request: 'an unknown parameter',
      query: '?type=lead.captured',
      status: 400,
      body: { code: 'VALIDATION_FAILED', errors: [{ parameter: 'type', detail: expect.any(String) }] },
    },
    {
      request: 'what is no cursor',
      query: '?after=nonsense',
      status: 400,
      body: { code: 'VALIDATION_FAILED', errors: [{ parameter: 'after', detail: expect.any(String) }] },
    },
    {
      request: 'what is no cursor in Last-Event-ID',
      headers: { 'last-event-id': 'nonsense' },
      status: 400,
      body: {
        code: 'VALIDATION_FAILED',
        detail: 'The header `Last-Event-ID` is not a cursor of the event log.',
        errors: [{ pointer: '/after', header: 'Last-Event-ID', detail: 'is not a cursor of the event log' }],
      },
    },
    {
      request: 'a cursor of another log',
      query: `?after=${expiredCursor}`,
      status: 410,
      body: { code: 'CURSOR_EXPIRED', oldestCursor: expect.any(String) },
    },
    {
      request: 'a cursor of another log in Last-Event-ID',
      headers: { 'last-event-id': expiredCursor },
      status: 410,
      body: { code: 'CURSOR_EXPIRED', oldestCursor: expect.any(String) },
    },
  ])('with $request: $status', async ({ query = '', headers = {}, status, body }) => {
    const client = await server.account();
    const answer = await client.rest('GET', `/events/stream${query}`, { headers });
    expect(answer.status).toBe(status);
    expect(answer.headers['content-type']).toBe('application/problem+json');
    expect(answer.body).toMatchObject(body);
  });

  test('after a cursor that the log no longer reaches back to: 410, and resumes from `oldestCursor`', async () => {
    const client = await server.account();
    const before = await cursorOf(client);
    await startConversation(client);
    await forgetEvents();
    await startConversation(client);
    const expired = await client.rest('GET', `/events/stream?after=${before}`);
    expect([expired.status, expired.body.code]).toEqual([410, 'CURSOR_EXPIRED']);
    const reader = await openStream(client, `?after=${expired.body.oldestCursor}`);
    await reader.until(({ events }) => events.length === 2);
    expect(reader.events.map(({ sequence }) => sequence)).toEqual([3, 4]);
  });

  test.each(['HEAD', 'POST', 'DELETE'])('%s: 405 with the supported methods', async (method) => {
    const client = await server.account();
    const answer = await client.rest(method, '/events/stream');
    expect([answer.status, answer.headers['allow']]).toEqual([405, 'GET, OPTIONS']);
  });

  test('without its scope: 403 with its name', async () => {
    const client = await (await server.account()).withScopes('conversations:read');
    const answer = await client.rest('GET', '/events/stream');
    expect([answer.status, answer.body.code]).toEqual([403, 'FORBIDDEN']);
    expect(answer.body.detail).toContain('events:read');
  });

  test('counts 1, however long it lasts', async () => {
    const client = await server.account();
    const reader = await openStream(client);
    await server.app.ports.storage.write(async (tx) => {
      await tx.events.append(client.account.id, [sampleEvent(sampleConversation())]);
    });
    await reader.until(({ blocks, events }) => events.length === 1 && blocks.length > 4);
    expect((await server.app.ports.limiter.peek(client.account)).remaining).toBe(999_999);
  });

  test('shows each of two accounts only its own events', async () => {
    const clients = [await server.account(), await server.account()];
    const readers = await Promise.all(clients.map((client) => openStream(client)));
    for (let round = 0; round < 5; round++) await Promise.all(clients.map((client) => startConversation(client)));
    await until(() => readers.every(({ events }) => events.length === 10));
    for (const [index, { account }] of clients.entries()) {
      const { events } = readers[index] as SseReader;
      expect(new Set(events.map(({ accountId }) => accountId))).toEqual(new Set([account.id]));
      expect(events.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
  });
});

describe('a client that disconnects', () => {
  const paths = ['/v1/events/stream', `/graphql?query=${encodeURIComponent('subscription { events { id } }')}`];

  function get(client: TestAccount, path: string) {
    const request = httpRequest(`${server.url}${path}`, {
      headers: { authorization: `Bearer ${client.secret}`, accept: 'text/event-stream' },
    });
    request.on('error', () => {});
    request.end();
    return request;
  }

  test.each(paths)('while waiting leaves nothing behind (%s)', async (path) => {
    const client = await server.account();
    const before = process.getActiveResourcesInfo().length;
    for (let round = 0; round < 10; round++) {
      const request = get(client, path);
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      await once(response, 'data');
      await until(() => server.app.sessions.size === 1);
      request.destroy();
      await until(() => server.app.sessions.size === 0 && server.app.liveLog.followers === 0);
    }
    await until(() => process.getActiveResourcesInfo().length <= before);
  });

  test.each(paths)('before it was admitted leaves nothing behind (%s)', async (path) => {
    const client = await server.account();
    // The admission has to reserve of the account's budget first, which takes a write, which has to wait.
    const blocker = new Database(server.databasePath);
    onTestFinished(() => void blocker.close());
    blocker.exec('BEGIN IMMEDIATE');
    const connections = () => process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
    const before = connections();
    const request = get(client, path);
    await once(request, 'finish');
    const [socket] = request.socket === null ? await once(request, 'socket') : [request.socket];
    await until(() => socket.bytesWritten > 0 && socket.writableLength === 0);
    request.destroy();
    await until(() => connections() <= before);
    blocker.exec('COMMIT');
    await until(() => server.logLines.some(({ accountId }) => accountId === client.account.id));
    await until(() => server.app.sessions.size === 0);
  });
});

describe('a GraphQL subscription over SSE with a stock client', () => {
  interface Subscription {
    readonly results: Json[];
    readonly outcome: () => 'open' | 'complete' | 'error';
    readonly ended: Promise<unknown>;
  }

  function subscribe(
    secret: string,
    query: string,
    variables: Record<string, unknown> = {},
    options: object = {},
    onResult: (result: Json) => void = () => {},
  ): Subscription {
    const subscriber = createClient({
      url: `${server.url}/graphql`,
      headers: { authorization: `Bearer ${secret}` },
      retryAttempts: 0,
      ...options,
    });
    opened.push({ close: () => subscriber.dispose() });
    const results: Json[] = [];
    let outcome: ReturnType<Subscription['outcome']> = 'open';
    const ended = new Promise((resolve) => {
      subscriber.subscribe<Json>(
        { query, variables },
        {
          next: (result) => {
            results.push(result);
            onResult(result);
          },
          error: (error) => {
            outcome = 'error';
            resolve(error);
          },
          complete: () => {
            outcome = 'complete';
            resolve(undefined);
          },
        },
      );
    });
    return { results, outcome: () => outcome, ended };
  }

  test('gives the same events as the other faces', async () => {
    const client = await server.account();
    const { results } = subscribe(client.secret, everything, { after: await cursorOf(client) });
    await startConversation(client);
    await until(() => results.length === 2);
    const { data } = await client.graphql(`{ events { nodes { ${eventFields} } } }`);
    expect(results.map((result) => result.data.events)).toEqual(data.events.nodes);
  });

  test.each<{ fault: string; query: string; variables?: Json; code: string; also?: object }>([
    {
      fault: 'what is no cursor',
      query: everything,
      variables: { after: 'nonsense' },
      code: 'VALIDATION_FAILED',
      also: { errors: [{ pointer: '/after', detail: expect.any(String) }] },
    },
    {
      fault: 'a cursor of another log',
      query: everything,
      variables: { after: expiredCursor },
      code: 'CURSOR_EXPIRED',
      also: { oldestCursor: expect.any(String) },
    },
    { fault: 'an empty list of types', query: 'subscription { events(types: []) { id } }', code: 'VALIDATION_FAILED' },
  ])('with $fault: $code as a GraphQL error, and the end', async ({ query, variables, code, also = {} }) => {
    const client = await server.account();
    const subscription = subscribe(client.secret, query, variables);
    expect(await subscription.ended).toBeUndefined();
    expect(subscription.results).toMatchObject([
      { errors: [{ path: ['events'], extensions: { code, requestId: expect.any(String), ...also } }] },
    ]);
  });

  test('of a client that wants one stream for all subscriptions: METHOD_NOT_ALLOWED says what to do', async () => {
    const client = await server.account();
    // The client gives up without a look at the body, which is there for the developer who looks.
    const bodies: Json[] = [];
    const fetchFn = async (...asked: Parameters<typeof fetch>): Promise<Response> => {
      const response = await fetch(...asked);
      bodies.push(await response.clone().json());
      return response;
    };
    const subscription = subscribe(client.secret, everything, {}, { singleConnection: true, fetchFn });
    const { response } = (await subscription.ended) as { response: Response };
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST, OPTIONS']);
    expect(bodies).toMatchObject([{ errors: [{ extensions: { code: 'METHOD_NOT_ALLOWED' } }] }]);
    expect(bodies[0].errors[0].message).toContain('give `singleConnection: false` to the client graphql-sse');
  });

  test('without its scope: FORBIDDEN, and the end', async () => {
    const { body } = await (await server.account()).rest('POST', '/api-keys', {
      body: { name: 'narrow', scopes: ['leads:read'] },
    });
    const subscription = subscribe(body.secret, everything);
    expect(await subscription.ended).toBeUndefined();
    expect(subscription.results).toMatchObject([{ errors: [{ extensions: { code: 'FORBIDDEN' } }] }]);
  });

  test('that may not see all of an event: a GraphQL error in that field, with its code, and the stream continues', async () => {
    const client = await server.account();
    const { body } = await client.rest('POST', '/api-keys', { body: { name: 'narrow', scopes: ['events:read'] } });
    const { results } = subscribe(
      body.secret,
      'subscription { messageReceived { message { content } conversation { current { messages { nodes { content } } } } } }',
    );
    await until(() => server.app.liveLog.followers === 1);
    await startConversation(client, 'one');
    await startConversation(client, 'other');
    await until(() => results.length === 2);
    for (const [index, content] of ['one', 'other'].entries()) {
      expect(results[index]).toEqual({
        data: { messageReceived: { message: { content }, conversation: { current: null } } },
        errors: [
          expect.objectContaining({
            path: ['messageReceived', 'conversation', 'current'],
            message: expect.stringContaining('conversations:read'),
            extensions: { code: 'FORBIDDEN', requestId: expect.any(String) },
          }),
        ],
      });
    }
  });

  test.each([
    { fault: 'a syntax error', query: 'subscription {', code: 'BAD_REQUEST' },
    { fault: 'a validation error', query: 'subscription { nothing }', code: 'VALIDATION_FAILED' },
    { fault: 'a variable of another type', query: everything, variables: { after: 1 }, code: 'VALIDATION_FAILED' },
  ])('with $fault: $code', async ({ query, variables, code }) => {
    const client = await server.account();
    const { status, headers, body } = await client.post(
      { query, variables },
      { headers: { accept: 'text/event-stream' } },
    );
    expect(headers['content-type']).toContain('text/event-stream');
    expect([status, /"code":"(\w+)"/.exec(body)?.[1]]).toEqual([status, code]);
    expect(body).toContain('event: complete');
  });

  test('is not buffered, compressed or cached by proxies', async () => {
    const client = await server.account();
    const reader = await SseReader.open(`${server.url}/graphql?query=${encodeURIComponent(everything)}`, {
      authorization: `Bearer ${client.secret}`,
      accept: 'text/event-stream',
    });
    opened.push(reader);
    expect(reader.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    expect(reader.headers).not.toHaveProperty('content-encoding');
  });

  test.each([{ accept: 'application/json' }, { accept: 'application/graphql-response+json' }, { accept: '*/*' }, {}])(
    'asked for as $accept: a GraphQL error that says how to ask',
    async (headers: { accept?: string }) => {
      const client = await server.account();
      const answer = await client.post({ query: everything }, { headers: headers as Record<string, string> });
      expect(answer.headers['content-type']).toMatch(/json/);
      expect(answer.body).toEqual({
        errors: [
          {
            message: expect.stringContaining('text/event-stream'),
            extensions: { code: 'BAD_REQUEST', requestId: answer.headers['x-request-id'] },
          },
        ],
      });
      expect(server.app.sessions.size).toBe(0);
    },
  );

  test.each(['application/json', 'text/event-stream'])(
    'in a batch (%s): a GraphQL error, and the others are answered',
    async (accept) => {
      const client = await server.account();
      const { body } = await client.post([{ query: '{ eventCursor }' }, { query: everything }], {
        headers: { accept },
      });
      expect(typeof body === 'string' ? body : JSON.stringify(body)).toMatch(
        /"eventCursor":"\w+".*"code":"BAD_REQUEST"/s,
      );
      expect(server.app.sessions.size).toBe(0);
    },
  );

  test('resumes across a restart of the server, without a gap and without a repeat', async () => {
    const databasePath = `${temporaryFolder()}/test.db`;
    let own = await startTestServer({ databasePath });
    let client = await own.account();
    const { port } = new URL(own.url);
    let after = await cursorOf(client);
    const subscription = subscribe(
      client.secret,
      everything,
      {
        get after() {
          return after;
        },
      },
      {
        url: `${own.url}/graphql`,
        retryAttempts: 10_000,
        retry: () => new Promise((resolve) => setTimeout(resolve, 5)),
      },
      ({ data }) => {
        after = data.events.cursor;
      },
    );
    for (let restarts = 0; restarts < 3; restarts++) {
      await startConversation(client);
      await startConversation(client);
      await until(() => subscription.results.length === 4 * (restarts + 1) || subscription.outcome() !== 'open');
      await own.close();
      own = await startTestServer({ databasePath, config: { port: Number(port) } });
      client = { ...client, ...own.clientFor(client.secret) };
    }
    await startConversation(client);
    await until(() => subscription.results.length === 14 || subscription.outcome() !== 'open');
    expect(subscription.outcome()).toBe('open');
    expect(subscription.results.map(({ data }) => data.events.sequence)).toEqual(
      Array.from({ length: 14 }, (_, index) => index + 1),
    );
    await own.close();
  });

  test('ends without `complete` when its key is revoked', async () => {
    const client = await server.account();
    const { body } = await client.rest('POST', '/api-keys', { body: { name: 'short', scopes: ['events:read'] } });
    const subscription = subscribe(body.secret, everything);
    await until(() => server.app.liveLog.followers === 1);
    await client.rest('DELETE', `/api-keys/${body.id}`);
    await subscription.ended;
    expect(subscription.outcome()).toBe('error');
  });
});

test('of many streams that an event wakes, each makes its text in a step, between which others have theirs', async () => {
  const client = await server.account();
  const { ports, sessions } = server.app;
  const [key] = (await client.rest('GET', '/api-keys')).body.data;
  const caller: Caller = { account: client.account, keyId: key.id, credential: 'key', scopes: new Set(scopes) };
  const onError = (error: unknown): void => expect.fail(String(error));
  const streams = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const res = new ServerResponse(new IncomingMessage(new Socket()));
      const subscription = await streamEvents.execute(ports, caller, {});
      const options = { caller, res, sessions, timings: defaultTimings, onError };
      return { res, blocks: openEventStream(subscription, options)[Symbol.asyncIterator]() };
    }),
  );
  for (const { blocks } of streams) await blocks.next(); // the one that has the start
  let steps = 0;
  /** How many steps the other has had when each text was made. */
  const stepsBefore = new Set<number>();
  const texts = streams.map(({ blocks }) =>
    blocks.next().then(({ value }) => {
      stepsBefore.add(steps);
      return value;
    }),
  );
  let isDone = false;
  const all = Promise.all(texts).finally(() => {
    isDone = true;
  });
  const started = startConversation(client);
  for (; !isDone; steps++) await scheduler.step('another account');
  await started;
  for (const { res } of streams) res.emit('close');
  for (const text of await all) expect(text).toContain('"type":"conversation.started"');
  expect(stepsBefore.size).toBeGreaterThan(10);
});
