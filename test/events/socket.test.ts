import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { updateAccount } from '../../src/domain/accounts.ts';
import { currentEventCursor } from '../../src/domain/event-cursor.ts';
import { openWire, requestText } from '../http/wire.ts';
import type { Json } from '../support/client.ts';
import { isOnPostgres } from '../support/postgres.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { eventFields, RawSocket, socketClient } from '../support/subscribe.ts';
import { eventually, leastOf, until } from '../support/wait.ts';

// GraphQL over WebSocket: each fault has the protocol's own answer, and what is wrong with one
// operation leaves the others of its socket alone. (graphql-transport-ws, PROTOCOL.md of graphql-ws.)

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const opened: { close(): void }[] = [];

// Whatever a test did, nothing of it is left behind.
afterEach(async () => {
  for (const one of opened.splice(0)) one.close();
  await until(() => server.app.sessions.size === 0 && server.app.liveLog.followers === 0);
  expect(server.logLines.splice(0).filter(({ level }) => level !== 'info')).toEqual([]);
});

function open(options?: ConstructorParameters<typeof RawSocket>[1], url = server.url): RawSocket {
  const socket = new RawSocket(url, options);
  opened.push({ close: () => socket.socket.terminate() });
  return socket;
}

async function openStream(path: string, secret: string, url = server.url): Promise<SseReader> {
  const stream = await SseReader.open(`${url}${path}`, { authorization: `Bearer ${secret}` });
  opened.push(stream);
  return stream;
}

/** A server of the test's own, with other times. */
async function startOwn(options: Parameters<typeof startTestServer>[0]): Promise<TestServer> {
  const own = await startTestServer(options);
  onTestFinished(() => own.close());
  return own;
}

async function makeKey(client: TestAccount, body: object = {}): Promise<{ id: string; secret: string }> {
  const made = await client.rest('POST', '/api-keys', { body: { name: 'test', ...body } });
  expect(made.status).toBe(201);
  return made.body;
}

const startConversation = (client: TestAccount, content = 'hello') =>
  client.rest('POST', '/conversations', { body: { message: { content, sender: 'visitor' } } });

const everything = `subscription ($after: String) { events(after: $after) { ${eventFields} } }`;
const expiredCursor = Buffer.from('00.1').toString('base64url');

/** What is left of an account's budget. Looking costs nothing. */
async function remaining({ account }: TestAccount): Promise<number> {
  return (await server.app.ports.limiter.peek(account)).remaining;
}

describe('a socket is opened', () => {
  /** The handshake by hand: a client library would give up by itself over the subprotocol. */
  async function upgrade(headers: Record<string, string>, path = '/graphql'): Promise<Duplex> {
    const request = httpRequest(`${server.url}${path}`, {
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        ...headers,
      },
    });
    request.end();
    const [, socket, head] = (await once(request, 'upgrade')) as [unknown, Duplex, Buffer];
    if (head.length > 0) socket.unshift(head);
    onTestFinished(() => void socket.destroy());
    return socket;
  }

  test.each([
    { of: 'another subprotocol', headers: { 'sec-websocket-protocol': 'graphql-ws' } },
    { of: 'no subprotocol', headers: {} },
  ])('with $of: closed with 4406', async ({ headers }) => {
    const socket = await upgrade(headers);
    const [frame] = (await once(socket, 'data')) as [Buffer];
    expect([frame[0], frame.readUInt16BE(2)]).toEqual([0x88, 4406]);
  });

  test('and sends nothing: closed with 4408', async () => {
    const own = await startOwn({ timings: { initMs: 30 } });
    expect(await open({}, own.url).closed).toMatchObject({ code: 4408 });
  });

  test('and sends connection_init twice: closed with 4429', async () => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${client.secret}` } });
    expect(await socket.closed).toEqual({ code: 4429, reason: 'Too many initialisation requests' });
  });

  test('and subscribes before connection_init: closed with 4401', async () => {
    const socket = await open().opened();
    socket.subscribe('1', everything);
    expect(await socket.closed).toMatchObject({ code: 4401 });
  });

  test('and subscribes before connection_ack: closed with 4401', async () => {
    const client = await server.account();
    const socket = await open().opened();
    socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${client.secret}` } });
    socket.subscribe('1', everything);
    expect(await socket.closed).toMatchObject({ code: 4401 });
    expect(await remaining(client)).toBe(1_000_000);
  });

  test('with the credential in a header of the upgrade request', async () => {
    const client = await server.account();
    const socket = await open({ headers: { authorization: `Bearer ${client.secret}` } }).opened();
    socket.send({ type: 'connection_init' });
    await until(() => socket.messages.length > 0);
    expect(socket.messages).toEqual([{ type: 'connection_ack' }]);
  });

  test.each([undefined, 'mine'])('with a request id in the answer, by which its errors are told: %s', async (given) => {
    const client = await server.account();
    const socket = open({ headers: given === undefined ? {} : { 'x-request-id': given } });
    const [{ headers }] = (await once(socket.socket, 'upgrade')) as [IncomingMessage];
    const requestId = headers['x-request-id'];
    expect(requestId).toMatch(given ?? /^[0-9a-f-]{36}$/);
    await socket.init(client.secret);
    socket.subscribe('1', '{ nothing }');
    expect((await socket.first('1', 'error')).payload).toMatchObject([{ extensions: { requestId } }]);
    const line = { msg: 'socket request refused', requestId };
    expect(server.logLines).toContainEqual(expect.objectContaining(line));
  });

  test('with a credential in both places: that of connection_init is used', async () => {
    const [one, other] = [await server.account(), await server.account()];
    const socket = await open({ headers: { authorization: `Bearer ${one.secret}` } }).init(other.secret);
    socket.subscribe('1', '{ account { id } }');
    expect((await socket.first('1')).payload.data).toEqual({ account: { id: other.account.id } });

    const refused = await open({ headers: { authorization: `Bearer ${one.secret}` } }).opened();
    refused.send({ type: 'connection_init', payload: { authorization: 'Bearer nonsense' } });
    expect(await refused.closed).toMatchObject({ code: 4403 });
  });

  test.each<{ credential: string; secret: (client: TestAccount) => Promise<string | undefined> }>([
    { credential: 'no', secret: async () => undefined },
    { credential: 'an unreadable', secret: async () => 'nonsense' },
    { credential: 'an unknown', secret: async () => `cs_${'A'.repeat(43)}` },
    {
      credential: 'a revoked',
      secret: async (client) => {
        const { id, secret } = await makeKey(client);
        await client.rest('DELETE', `/api-keys/${id}`);
        return secret;
      },
    },
    {
      credential: 'an expired',
      secret: async (client) => {
        const { secret } = await makeKey(client, { expiresAt: new Date(server.clock.now() + 1_000).toISOString() });
        server.clock.advance(1_000);
        return secret;
      },
    },
  ])('with $credential credential: closed with 4403', async ({ secret: secretFor }) => {
    const secret = await secretFor(await server.account());
    const socket = await open().opened();
    socket.send({ type: 'connection_init', ...(secret && { payload: { authorization: `Bearer ${secret}` } }) });
    expect(await socket.closed).toEqual({ code: 4403, reason: 'Forbidden' });
  });

  test('by an allowed page, but with an API key: closed with 4403', async () => {
    const own = await startOwn({ config: { corsOrigins: ['https://shop.example'] } });
    const client = await own.account();
    const socket = await open({ headers: { origin: 'https://shop.example' } }, own.url).opened();
    socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${client.secret}` } });
    expect(await socket.closed).toMatchObject({ code: 4403 });
    await open({ headers: { origin: own.url } }, own.url).init(client.secret);
    expect((await own.app.ports.limiter.peek(client.account)).remaining).toBe(1_000_000);
  });

  test('on another path: rejected, whatever the client does with its connection', async () => {
    const { port, hostname } = new URL(server.url);
    const handshake = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
    for (const reaction of ['destroy', 'resetAndDestroy', 'keep'] as const) {
      const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
      onTestFinished(() => void socket.destroy());
      socket.on('error', () => {});
      socket.write(`GET /v1/conversations HTTP/1.1\r\nHost: x\r\n${handshake}\r\n`);
      if (reaction === 'keep') {
        const chunks: Buffer[] = [];
        socket.on('data', (chunk) => chunks.push(Buffer.from(chunk)));
        await once(socket, 'end');
        expect(String(Buffer.concat(chunks))).toMatch(/^HTTP\/1\.1 404 /);
        // This one keeps its half of the connection open; the server does not keep the other.
        await until(() => {
          if (!socket.destroyed) socket.write('still here');
          return socket.destroyed;
        });
      } else {
        socket[reaction]();
        await once(socket, 'close');
      }
    }
    const line = { level: 'info', msg: 'socket refused', path: '/v1/conversations', status: 404 };
    expect(server.logLines).toContainEqual(expect.objectContaining(line));
    const client = await server.account();
    expect((await client.rest('GET', '/account')).status).toBe(200);
  });

  const offer = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };
  const { 'Sec-WebSocket-Key': _key, ...keyless } = offer;
  const bad = { status: 400, code: 'BAD_REQUEST' };
  test.each([
    { what: 'without a key', headers: keyless, expected: bad },
    { what: 'with a key that is none', headers: { ...offer, 'Sec-WebSocket-Key': 'x' }, expected: bad },
    { what: 'in an unknown version', headers: { ...offer, 'Sec-WebSocket-Version': '99' }, expected: bad },
    { what: 'for a list that is none', headers: { ...offer, 'Sec-WebSocket-Protocol': ',,' }, expected: bad },
    { what: 'by POST', method: 'POST', headers: offer, expected: { status: 405, code: 'METHOD_NOT_ALLOWED' } },
    { what: 'on another path', path: '/nowhere', headers: offer, expected: { status: 404, code: 'NOT_FOUND' } },
    {
      what: 'by a page of an origin that is not allowed',
      headers: { ...offer, Origin: 'https://shop.example' },
      expected: { status: 403, code: 'FORBIDDEN' },
    },
  ])('$what: rejected with a code and the request id', async (asked) => {
    const { method = 'GET', path = '/graphql', headers, expected } = asked;
    for (const given of [undefined, 'mine']) {
      const wire = openWire(server.url);
      const named = given === undefined ? headers : { ...headers, 'X-Request-Id': given };
      await wire.send(requestText(method, path, { headers: named }));
      const answer = await wire.response();
      await wire.ended;
      const requestId = given ?? answer.headers['x-request-id'];
      expect(answer.status).toBe(expected.status);
      expect(answer.headers).toMatchObject({ 'content-type': 'application/problem+json', 'x-request-id': requestId });
      expect(JSON.parse(answer.body)).toMatchObject({ ...expected, instance: path, requestId });
      const line = { level: 'info', msg: 'socket refused', requestId, status: expected.status };
      expect(server.logLines).toContainEqual(expect.objectContaining(line));
      if (expected === bad) expect(answer.headers['sec-websocket-version']).toBe('13, 8');
    }
  });

  test('for HTTP/2 on plain requests: the upgrade is ignored', async () => {
    const client = await server.account();
    const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' };
    const request = httpRequest(`${server.url}/v1/account`, {
      headers: { ...headers, authorization: `Bearer ${client.secret}` },
    });
    request.end();
    const [response] = await once(request, 'response');
    response.resume();
    expect(response.statusCode).toBe(200);

    const body = JSON.stringify({ query: '{ account { id } }' });
    const post = httpRequest(`${server.url}/graphql`, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        'content-length': body.length,
        authorization: `Bearer ${client.secret}`,
      },
    });
    post.end(body);
    const [answer] = await once(post, 'response');
    expect(JSON.parse((await answer.toArray()).join(''))).toEqual({ data: { account: { id: client.account.id } } });
  });
});

describe('a message that breaks the protocol', () => {
  test.each<{ message: string; send: (socket: RawSocket) => void; code: number }>([
    { message: 'no JSON', send: (socket) => socket.send('{"type":'), code: 4400 },
    { message: 'no object', send: (socket) => socket.send('[]'), code: 4400 },
    { message: 'of no type', send: (socket) => socket.send({ id: '1' }), code: 4400 },
    { message: 'of an unknown type', send: (socket) => socket.send({ type: 'start', id: '1' }), code: 4400 },
    { message: 'that only a server sends', send: (socket) => socket.send({ type: 'connection_ack' }), code: 4400 },
    {
      message: 'that only a server sends, about an operation',
      send: (socket) => socket.send({ type: 'next', id: 'before', payload: { data: {} } }),
      code: 4400,
    },
    {
      message: 'a subscribe without a query',
      send: (socket) => socket.send({ type: 'subscribe', id: '1' }),
      code: 4400,
    },
    {
      message: 'a subscribe whose variables are a list',
      send: (socket) =>
        socket.send({ type: 'subscribe', id: '1', payload: { query: '{ eventCursor }', variables: [] } }),
      code: 4400,
    },
    {
      message: 'a subscribe with an id of more than 256 characters',
      send: (socket) => socket.subscribe('é'.repeat(257), '{ eventCursor }'),
      code: 4400,
    },
    {
      message: 'with more than 1,000 values',
      send: (socket) => {
        const variables = { padding: Array.from({ length: 1_000 }, () => ({})) };
        socket.send({ type: 'subscribe', id: '1', payload: { query: '{ account { id } }', variables } });
      },
      code: 4400,
    },
    {
      message: 'that is nested more than 64 deep',
      send: (socket) => {
        const deep = JSON.parse(`${'['.repeat(70)}${']'.repeat(70)}`);
        const variables = { deep };
        socket.send({ type: 'subscribe', id: '1', payload: { query: '{ account { id } }', variables } });
      },
      code: 4400,
    },
    { message: 'binary garbage', send: (socket) => socket.send(Uint8Array.of(0, 255, 128, 7)), code: 4400 },
    {
      message: 'text that is not UTF-8',
      send: ({ socket }) => socket.send(Buffer.from('c328', 'hex'), { binary: false }),
      code: 1007,
    },
    { message: 'above 64 KiB', send: (socket) => socket.send(' '.repeat(64 * 1024 + 1)), code: 1009 },
    {
      message: 'above 64 KiB in fragments',
      send: ({ socket }) => {
        for (let part = 0; part < 5; part++) socket.send(' '.repeat(16 * 1024), { fin: false });
      },
      code: 1009,
    },
  ])('$message: closed with $code', async ({ send, code }) => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    socket.subscribe('before', everything);
    send(socket);
    expect((await socket.closed).code).toBe(code);
  });

  test('a message of 64 KiB is still read', async () => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    const message = JSON.stringify({ id: '1', type: 'subscribe', payload: { query: '{ eventCursor }' } });
    socket.send(message.padEnd(64 * 1024));
    await socket.first('1', 'complete');
  });

  test.each(['1', 'é'.repeat(256), '__proto__'])('an id that is already in use: closed with 4409 (%s)', async (id) => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    socket.subscribe(id, everything);
    socket.subscribe(id, everything);
    expect((await socket.closed).code).toBe(4409);
  });

  test('messages after the end of a socket are ignored', async () => {
    const client = await server.account();
    const { id, secret } = await makeKey(client);
    const socket = await open().init(secret);
    socket.subscribe('all', everything);
    await until(() => server.app.liveLog.followers === 1);
    socket.socket.pause(); // it does not see that it is closed, and goes on sending
    await client.rest('DELETE', `/api-keys/${id}`);
    await until(() => server.app.sessions.size === 0 && server.app.liveLog.followers === 0);
    const before = await remaining(client);
    socket.subscribe('1', 'mutation { createConversation(input: {}) { conversation { id } } }');
    await client.graphql('{ eventCursor }');
    await client.graphql('{ eventCursor }');
    socket.socket.resume();
    expect((await socket.closed).code).toBe(4403);
    expect((await client.rest('GET', '/conversations')).body.pagination.total).toBe(0);
    expect(before - (await remaining(client))).toBe(3);
  });
});

describe('a rejected operation', () => {
  const refused: { fault: string; query: string; variables?: Json; code: string; also?: object }[] = [
    { fault: 'a syntax error', query: 'subscription {', code: 'BAD_REQUEST' },
    { fault: 'an empty document', query: '', code: 'BAD_REQUEST' },
    { fault: 'a validation error', query: 'subscription { nothing }', code: 'VALIDATION_FAILED' },
    {
      fault: 'an argument of another type',
      query: 'subscription { events(after: 1) { id } }',
      code: 'VALIDATION_FAILED',
      also: { errors: [{ pointer: '/after', detail: expect.any(String) }] },
    },
    {
      fault: 'two operations and no name',
      query: 'query a { eventCursor } query b { eventCursor }',
      code: 'BAD_REQUEST',
    },
    { fault: 'a fragment without an operation', query: 'fragment A on Query { __typename }', code: 'BAD_REQUEST' },
    { fault: 'two operations without names', query: '{ eventCursor } { eventCursor }', code: 'BAD_REQUEST' },
    {
      fault: 'two fields of a subscription',
      query: 'subscription { a: events { id } b: events { id } }',
      code: 'VALIDATION_FAILED',
    },
    {
      fault: 'a variable that is not of its type',
      query: 'subscription ($types: [EventType!]) { events(types: $types) { id } }',
      variables: { types: ['NOTHING'] },
      code: 'VALIDATION_FAILED',
      also: { errors: [{ pointer: '/types/0', detail: expect.stringContaining('CONVERSATION_STARTED') }] },
    },
    {
      fault: 'an empty list of types',
      query: 'subscription { events(types: []) { id } }',
      code: 'VALIDATION_FAILED',
      also: { errors: [{ pointer: '/types', detail: expect.any(String) }] },
    },
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
    {
      fault: 'a query that is too deep',
      query: `subscription { conversationStarted { conversation { current ${'{ messages { nodes { conversation '.repeat(4)}{ id }${' } } }'.repeat(4)} } } }`,
      code: 'QUERY_TOO_COMPLEX',
    },
    {
      fault: 'too many tokens',
      query: `subscription { events { ${'id '.repeat(2_000)} } }`,
      code: 'QUERY_TOO_COMPLEX',
    },
    { fault: 'an unknown id in a query', query: '{ conversation(id: "conv_1") { id } }', code: 'NOT_FOUND' },
    {
      fault: 'an unknown id in a mutation',
      query: 'mutation { closeConversation(input: { id: "conv_1" }) { eventCursor } }',
      code: 'NOT_FOUND',
    },
  ];

  function expectRefusal(message: Json, code: string, also: object = {}): void {
    const errors = message.type === 'error' ? message.payload : message.payload.errors;
    expect(errors[0]).toMatchObject({ extensions: { code, requestId: 'the-socket', ...also } });
    expect(errors[0].message).not.toBe('');
    expect(JSON.stringify(message)).not.toMatch(/node_modules|stack/);
  }

  /** A socket with a subscription, which is to go on whatever else happens. */
  async function subscribed(client: TestAccount, secret = client.secret): Promise<RawSocket> {
    const after = await currentEventCursor(server.storage.read, client.account.id);
    const socket = await open({ headers: { 'x-request-id': 'the-socket' } }).init(secret);
    // From where it is now: the operation that is refused may be answered before this one has looked.
    socket.subscribe('live', everything, { after });
    return socket;
  }

  async function expectLive(client: TestAccount, socket: RawSocket): Promise<void> {
    const had = socket.of('live').length;
    await startConversation(client);
    await until(() => socket.of('live').length === had + 2);
    expect(socket.of('live').every(({ type }) => type === 'next')).toBe(true);
  }

  test.each(refused)('$fault: $code, and other subscriptions continue', async ({ query, variables, code, also }) => {
    const client = await server.account();
    const socket = await subscribed(client);
    socket.subscribe('wrong', query, variables);
    expectRefusal(await socket.first('wrong'), code, also);
    await expectLive(client, socket);
    // The id is free again.
    await until(() => {
      if (!socket.of('wrong').some(({ type }) => type === 'error' || type === 'complete')) return false;
      return true;
    });
    socket.subscribe('wrong', '{ eventCursor }');
    await until(() => socket.of('wrong').some(({ payload }) => payload?.data?.eventCursor !== undefined));
  });

  test.each([
    ['an unknown name', { query: 'query a { eventCursor }', operationName: 'b' }],
    ['no name, of two operations', { query: 'query a { eventCursor } query b { eventCursor }' }],
    ['no operation', { query: 'fragment a on Query { eventCursor }' }],
  ])('that does not say which operation to run, by %s: BAD_REQUEST says how, as over HTTP', async (_, payload) => {
    const client = await server.account();
    const socket = await subscribed(client);
    socket.send({ id: 'wrong', type: 'subscribe', payload });
    const refusal = await socket.first('wrong');
    expectRefusal(refusal, 'BAD_REQUEST');
    const [{ message }] = refusal.payload;
    expect(message).toContain('`operationName`');
    const { body } = await client.post(payload);
    expect(body.errors).toMatchObject([{ message, extensions: { code: 'BAD_REQUEST' } }]);
    await expectLive(client, socket);
  });

  test('a missing scope: FORBIDDEN, and only in the field if a field needs it', async () => {
    const client = await server.account();
    const { secret } = await makeKey(client, { scopes: ['conversations:read'] });
    const socket = await open({ headers: { 'x-request-id': 'the-socket' } }).init(secret);
    socket.subscribe('wrong', everything);
    expectRefusal(await socket.first('wrong'), 'FORBIDDEN');
    socket.subscribe('partly', '{ conversations { totalCount } leads { totalCount } }');
    const { payload } = await socket.first('partly');
    expect(payload.data).toEqual({ conversations: { totalCount: 0 }, leads: null });
    expect(payload.errors).toMatchObject([{ path: ['leads'], extensions: { code: 'FORBIDDEN' } }]);
  });

  test('beyond the rate limit: RATE_LIMITED with the time to wait, and events still arrive', async () => {
    const client = await server.account({ requestsPerHour: 3 });
    const socket = await subscribed(client);
    socket.subscribe('query', '{ eventCursor }');
    await socket.first('query', 'complete');
    await startConversation(client);
    await until(() => socket.of('live').length === 2);
    const created = 'mutation { createConversation(input: {}) { eventCursor } }';
    for (const [index, query] of [everything, '{ eventCursor }', created].entries()) {
      const id = `wrong ${index}`;
      socket.subscribe(id, query);
      const message = await socket.first(id);
      expectRefusal(message, 'RATE_LIMITED', { retryAfterSeconds: expect.any(Number) });
      expect(message.payload[0].extensions.retryAfterSeconds).toBeGreaterThan(0);
    }
    await server.app.ports.storage.write(async (tx) => {
      await tx.events.append(client.account.id, [started()]);
    });
    await until(() => socket.of('live').length === 3);
  });

  test('the 101st subscription of a socket: QUOTA_EXCEEDED, until one of them ends', async () => {
    const client = await server.account();
    const socket = await open({ headers: { 'x-request-id': 'the-socket' } }).init(client.secret);
    const { data } = await client.graphql('{ eventCursor }');
    await startConversation(client);
    for (let number = 1; number <= 100; number++)
      socket.subscribe(`${number}`, everything, { after: data.eventCursor });
    for (let number = 1; number <= 100; number++) await socket.first(`${number}`, 'next');
    socket.subscribe('101', everything);
    expectRefusal(await socket.first('101'), 'QUOTA_EXCEEDED');
    socket.send({ id: '7', type: 'complete' });
    socket.subscribe('102', everything, { after: data.eventCursor });
    await socket.first('102', 'next');
  });

  test('of more than a hundred simultaneous subscriptions, a hundred are accepted', async () => {
    const client = await server.account();
    const socket = await open({ headers: { 'x-request-id': 'the-socket' } }).init(client.secret);
    const { data } = await client.graphql('{ eventCursor }');
    for (let number = 1; number <= 110; number++) {
      socket.subscribe(`${number}`, everything, { after: data.eventCursor });
    }
    const ids = Array.from({ length: 110 }, (_, index) => `${index + 1}`);
    const refused = () => ids.filter((id) => socket.of(id).length > 0);
    await until(() => refused().length === 10);
    if (!isOnPostgres) expect(refused()).toEqual(ids.slice(100)); // there the first need not begin first
    for (const id of refused()) expectRefusal(await socket.first(id), 'QUOTA_EXCEEDED');
    const accepted = ids.filter((id) => !refused().includes(id));
    await startConversation(client);
    for (const id of accepted) await socket.first(id, 'next');
  });

  test('with a hundred subscriptions open, queries and mutations are answered as usual', async () => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    const { data } = await client.graphql('{ eventCursor }');
    for (let number = 1; number <= 100; number++) {
      socket.subscribe(`${number}`, everything, { after: data.eventCursor });
    }
    socket.subscribe('mutation', 'mutation { createConversation(input: {}) { conversation { id } } }');
    const { payload } = await socket.first('mutation');
    const { id } = payload.data.createConversation.conversation;
    socket.subscribe('query', `{ conversation(id: "${id}") { id } }`);
    expect((await socket.first('query')).payload).toEqual({ data: { conversation: { id } } });
    for (let number = 1; number <= 100; number++) await socket.first(`${number}`, 'next');
  });

  // On PostgreSQL they wait for a connection before they are counted.
  test.skipIf(isOnPostgres)('cancelled queries count until they are answered', async () => {
    const client = await server.account();
    const socket = await open({ headers: { 'x-request-id': 'the-socket' } }).init(client.secret);
    socket.subscribe('first', '{ eventCursor }');
    await socket.first('first', 'complete'); // it reserves a block of the budget
    const release = await server.holdWrites();
    onTestFinished(release);
    for (let number = 1; number <= 100; number++) {
      socket.subscribe(`${number}`, 'mutation { createConversation(input: {}) { eventCursor } }');
      socket.send({ id: `${number}`, type: 'complete' });
    }
    socket.subscribe('101', '{ eventCursor }');
    expectRefusal(await socket.first('101'), 'QUOTA_EXCEEDED');
    await release();
  });

  test.skipIf(isOnPostgres)(
    'the 101st pending query or mutation of a socket: QUOTA_EXCEEDED, while subscriptions are accepted',
    async () => {
      const client = await server.account();
      const socket = await open({ headers: { 'x-request-id': 'the-socket' } }).init(client.secret);
      socket.subscribe('first', '{ eventCursor }');
      await socket.first('first', 'complete'); // it reserves a block of the budget
      const create = 'mutation { createConversation(input: {}) { eventCursor } }';
      const release = await server.holdWrites();
      onTestFinished(release);
      for (let number = 1; number <= 101; number++) socket.subscribe(`${number}`, create);
      expectRefusal(await socket.first('101'), 'QUOTA_EXCEEDED');
      socket.subscribe('102', '{ eventCursor }');
      expectRefusal(await socket.first('102'), 'QUOTA_EXCEEDED');
      socket.subscribe('events', everything);
      await release();
      for (let number = 1; number <= 100; number++) {
        expect((await socket.first(`${number}`)).payload.data.createConversation).not.toBeNull();
      }
      socket.subscribe('103', '{ eventCursor }');
      expect((await socket.first('103')).payload.data.eventCursor).toEqual(expect.any(String));
      await startConversation(client);
      await socket.first('events', 'next');
    },
  );
});

function started(conversationId: string | null = null) {
  const { ids } = server.app.ports;
  const now = server.clock.now();
  return {
    id: ids.next('event', now),
    type: 'conversation.started',
    timestamp: new Date(now).toISOString(),
    conversationId,
    visitorId: null,
    data: { conversation: null },
  } as const;
}

describe('the log has', () => {
  test('the cause of an internal error, under its request id', async () => {
    const own = await startOwn({});
    const client = await own.account();
    const { id } = (await startConversation(client)).body;
    await own.query('ALTER TABLE messages RENAME TO elsewhere');
    const socket = await open({}, own.url).init(client.secret);
    socket.subscribe('1', `{ conversation(id: "${id}") { messages { nodes { id } } } }`);
    const [error] = (await socket.first('1', 'next')).payload.errors;
    expect(error.extensions).toMatchObject({ code: 'INTERNAL', requestId: expect.any(String) });
    const { requestId } = error.extensions;
    const lines = own.logLines.filter((line) => line['requestId'] === requestId);
    expect(lines).toMatchObject([{ level: 'error', msg: 'request failed' }]);
    expect(JSON.stringify(lines)).toMatch(/no such table|relation .* does not exist/);
  });

  test('the cause of an internal error of an operation whose socket has gone meanwhile', async () => {
    const own = await startOwn({});
    const client = await own.account();
    const { id } = (await startConversation(client)).body;
    const socket = await open({}, own.url).init(client.secret);
    await own.query('ALTER TABLE messages RENAME TO elsewhere');
    const release = await own.holdWrites();
    socket.subscribe(
      'send',
      `mutation { sendMessage(input: { conversationId: "${id}", content: "Hello", sender: AGENT }) { message { id } } }`,
    );
    socket.subscribe('query', '{ account { id } }');
    await socket.first('query', 'next'); // what came before it waits for its turn to write
    socket.socket.terminate();
    await until(() => own.app.sessions.size === 0);
    await release();
    const failures = () => own.logLines.filter(({ msg }) => msg === 'request failed');
    await until(() => failures().length > 0);
    expect(JSON.stringify(failures())).toMatch(/no such table|relation .* does not exist/);
  });

  test('once, and not each second, that nobody can say whether a key was revoked', async () => {
    const own = await startOwn({});
    const client = await own.account();
    const { id, secret } = await makeKey(client);
    await open({}, own.url).init(client.secret);
    const other = await open({}, own.url).init(secret);
    const reports = () => own.logLines.filter(({ msg }) => msg === 'background work failed').length;
    const passes = (ms: number, startedMs = performance.now()) => until(() => performance.now() - startedMs > ms);
    await own.query('ALTER TABLE meta RENAME TO elsewhere');
    await until(() => reports() === 1);
    await passes(2_500);
    expect(reports()).toBe(1);
    await own.query('ALTER TABLE elsewhere RENAME TO meta');
    await client.rest('DELETE', `/api-keys/${id}`);
    expect(await other.closed).toMatchObject({ code: 4403 }); // by now somebody can say it again
    await own.query('ALTER TABLE meta RENAME TO elsewhere');
    await until(() => reports() === 2);
  });

  test('rejected operations and connections, under their request ids', async () => {
    const client = await server.account();
    const socket = await open({ headers: { 'x-request-id': 'my-socket' } }).init(client.secret);
    socket.subscribe('1', '{ nothing }');
    const [error] = (await socket.first('1', 'error')).payload;
    expect(error.extensions.requestId).toBe('my-socket');
    const stranger = await open({ headers: { 'x-request-id': 'no-socket' } }).opened();
    stranger.send({ type: 'connection_init', payload: { authorization: 'Bearer cs_nobody' } });
    await stranger.closed;
    const refused = { path: '/graphql', msg: 'socket request refused' };
    expect(server.logLines.filter(({ msg }) => msg === refused.msg)).toMatchObject([
      { ...refused, requestId: 'my-socket', accountId: client.account.id, code: 'VALIDATION_FAILED' },
      { ...refused, requestId: 'no-socket', code: 'UNAUTHENTICATED' },
    ]);
  });
});

describe('the rate limit of a socket', () => {
  test('counts queries, mutations and subscriptions 1 each; events, pings and connection_init nothing', async () => {
    const client = await server.account();
    const before = await remaining(client);
    const socket = await open().init(client.secret);
    expect(before - (await remaining(client))).toBe(0);
    socket.subscribe('events', everything);
    socket.subscribe('typed', 'subscription { conversationStarted { id } }');
    socket.subscribe('query', '{ account { id name } }');
    expect((await socket.first('query', 'next')).payload.data.account.id).toBe(client.account.id);
    await socket.first('query', 'complete');
    socket.subscribe('mutation', 'mutation { createConversation(input: {}) { conversation { status } } }');
    expect((await socket.first('mutation', 'next')).payload).toEqual({
      data: { createConversation: { conversation: { status: 'ACTIVE' } } },
    });
    await socket.first('mutation', 'complete');
    await until(() => socket.of('events').length === 1 && socket.of('typed').length === 1);
    expect(before - (await remaining(client))).toBe(4);
    for (let count = 0; count < 20; count++)
      await server.app.ports.storage.write(async (tx) => {
        await tx.events.append(client.account.id, [started()]);
      });
    for (let count = 0; count < 20; count++) socket.send({ type: 'ping', payload: { count } });
    await until(() => socket.messages.filter(({ type }) => type === 'pong').length === 20);
    await until(() => socket.of('events').length === 21 && socket.of('typed').length === 21);
    expect(before - (await remaining(client))).toBe(4);
  });

  test('is the present one of the account, not that of when the socket was opened', async () => {
    const client = await server.account({ requestsPerHour: 1 });
    const socket = await open().init(client.secret);
    socket.subscribe('1', '{ eventCursor }');
    await socket.first('1', 'next');
    socket.subscribe('2', '{ eventCursor }');
    await socket.first('2', 'error');
    await updateAccount(server.app.ports, client.account.id, { requestsPerHour: 2 });
    socket.subscribe('3', '{ eventCursor }');
    await socket.first('3', 'next');
    await updateAccount(server.app.ports, client.account.id, { requestsPerHour: 1 });
    socket.subscribe('4', '{ eventCursor }');
    await socket.first('4', 'error');
  });

  test('does not count what it rejects', async () => {
    const client = await server.account({ requestsPerHour: 1 });
    const socket = await open().init(client.secret);
    socket.subscribe('1', everything);
    await eventually(
      () => remaining(client),
      (left) => left === 0,
    );
    for (const id of ['2', '3', '4']) {
      socket.subscribe(id, everything);
      await socket.first(id, 'error');
    }
    // One request was charged, so a limit of two leaves exactly one more.
    await updateAccount(server.app.ports, client.account.id, { requestsPerHour: 2 });
    socket.subscribe('5', '{ eventCursor }');
    expect((await socket.first('5')).type).toBe('next');
    socket.subscribe('6', '{ eventCursor }');
    expect((await socket.first('6')).type).toBe('error');
  });
});

describe('subscriptions', () => {
  test('complete ends only one of them', async () => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    const after = (await client.graphql('{ eventCursor }')).data.eventCursor;
    socket.subscribe('one', everything, { after });
    socket.subscribe('other', everything, { after });
    await startConversation(client);
    await until(() => socket.of('one').length === 2 && socket.of('other').length === 2);
    socket.send({ id: 'one', type: 'complete' });
    socket.subscribe('after', '{ eventCursor }'); // answered later than that was read
    await socket.first('after', 'complete');
    await startConversation(client);
    await until(() => socket.of('other').length === 4);
    expect(socket.of('one').length).toBe(2);
  });

  test('complete for an unknown id does nothing', async () => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    socket.send({ id: 'nobody', type: 'complete' });
    socket.subscribe('query', '{ eventCursor }');
    await socket.first('query', 'complete');
  });

  test('complete right after subscribe leaves nothing behind', async () => {
    const client = await server.account();
    const socket = await open().init(client.secret);
    for (let round = 0; round < 20; round++) {
      socket.subscribe(`${round}`, everything);
      socket.send({ id: `${round}`, type: 'complete' });
    }
    socket.subscribe('query', '{ eventCursor }');
    await socket.first('query', 'complete');
    await until(() => server.app.liveLog.followers === 0);
    await startConversation(client);
    expect(socket.messages.filter(({ type }) => type === 'next').length).toBe(1);
  });

  test('an id can be used again right after complete', async () => {
    const client = await server.account();
    const { data } = await client.graphql('{ eventCursor }');
    await startConversation(client);
    const socket = await open().init(client.secret);
    for (let round = 1; round <= 10; round++) {
      socket.subscribe('same', everything, { after: data.eventCursor });
      await until(() => socket.of('same').length >= 2 * round);
      socket.send({ id: 'same', type: 'complete' });
    }
    expect(socket.of('same').every(({ type }) => type === 'next')).toBe(true);
  });

  test('typed ones give only their type, and those of one conversation only its events', async () => {
    const client = await server.account();
    const { data } = await client.graphql('{ eventCursor }');
    const after = data.eventCursor;
    const ids: string[] = [];
    for (const name of ['one', 'other']) {
      const { body } = await startConversation(client, name);
      ids.push(body.id);
      await client.rest('POST', '/leads', { body: { conversationId: body.id, email: `${name}@example.com` } });
      await client.rest('PATCH', `/conversations/${body.id}`, { body: { status: 'closed' } });
    }
    await client.rest('POST', '/leads', { body: { phone: '1' } }); // of no conversation
    const socket = await open().init(client.secret);
    const subscriptions = [
      { id: 'started', field: 'conversationStarted(after: $after)', sequences: [1, 5] },
      { id: 'received', field: 'messageReceived(after: $after)', sequences: [2, 6] },
      { id: 'captured', field: 'leadCaptured(after: $after)', sequences: [3, 7, 9] },
      { id: 'closed', field: 'conversationClosed(after: $after)', sequences: [4, 8] },
      { id: 'all', field: 'events(after: $after)', sequences: [1, 2, 3, 4, 5, 6, 7, 8, 9] },
      { id: 'changed', field: 'conversationChanged(after: $after)', sequences: [1, 2, 4, 5, 6, 8] },
      {
        id: 'changed of other',
        field: `conversationChanged(after: $after, conversationId: "${ids[1]}")`,
        sequences: [5, 6, 8],
      },
      {
        id: 'some',
        field: 'events(after: $after, types: [LEAD_CAPTURED, MESSAGE_RECEIVED])',
        sequences: [2, 3, 6, 7, 9],
      },
      { id: 'of one', field: `events(after: $after, conversationId: "${ids[0]}")`, sequences: [1, 2, 3, 4] },
      { id: 'typed of other', field: `leadCaptured(after: $after, conversationId: "${ids[1]}")`, sequences: [7] },
    ];
    for (const { id, field } of subscriptions) {
      const name = field.slice(0, field.indexOf('('));
      socket.subscribe(id, `subscription ($after: String) { ${name}: ${field} { __typename sequence accountId } }`, {
        after,
      });
    }
    for (const { id, sequences } of subscriptions) {
      await until(() => socket.of(id).length >= sequences.length);
    }
    // And live: the last one that all of them are given.
    await client.rest('POST', '/leads', { body: { conversationId: ids[1], email: 'last@example.com' } });
    const given = (id: string) => socket.of(id).map(({ payload }) => (Object.values(payload.data)[0] as Json).sequence);
    for (const { id, sequences } of subscriptions) {
      const withLast = ['captured', 'all', 'some', 'typed of other'].includes(id) ? [...sequences, 10] : sequences;
      await until(() => socket.of(id).length >= withLast.length);
      expect([id, given(id)]).toEqual([id, withLast]);
    }
    const kinds = (id: string) =>
      new Set(socket.of(id).map(({ payload }) => (Object.values(payload.data)[0] as Json).__typename));
    expect([kinds('started'), kinds('received'), kinds('captured'), kinds('closed')]).toEqual([
      new Set(['ConversationStartedEvent']),
      new Set(['MessageReceivedEvent']),
      new Set(['LeadCapturedEvent']),
      new Set(['ConversationClosedEvent']),
    ]);
  });

  test('two accounts never see each other’s events', async () => {
    const clients = [await server.account(), await server.account()];
    const sockets = await Promise.all(clients.map((client) => open().init(client.secret)));
    const streams = await Promise.all(clients.map((client) => openStream('/v1/events/stream', client.secret)));
    const ids = await Promise.all(clients.map(async (client) => (await startConversation(client)).body.id));
    const cursors = await Promise.all(clients.map((client) => client.graphql('{ eventCursor }')));
    for (const [index, socket] of sockets.entries()) {
      socket.subscribe('all', everything, { after: cursors[index]?.data?.eventCursor });
      socket.subscribe('foreign', `subscription { events(conversationId: "${ids[1 - index]}") { ${eventFields} } }`);
    }
    await Promise.all(
      clients.map(async (client, index) => {
        for (let round = 0; round < 10; round++) {
          await client.rest('POST', `/conversations/${ids[index]}/messages`, {
            body: { content: `of ${client.account.id}`, sender: 'visitor' },
          });
        }
      }),
    );
    await until(() => sockets.every((socket) => socket.of('all').length === 10));
    await until(() => streams.every(({ events }) => events.length === 12));
    for (const [index, { account }] of clients.entries()) {
      const [socket, stream] = [sockets[index] as RawSocket, streams[index] as SseReader];
      const seen = [...socket.of('all').map(({ payload }) => payload.data.events), ...stream.events];
      expect(new Set(seen.map(({ accountId }) => accountId))).toEqual(new Set([account.id]));
      expect(socket.of('foreign')).toEqual([]);
      const contents = seen.flatMap((event) => event.message?.content ?? event.data?.message?.content ?? []);
      expect(new Set(contents)).toEqual(new Set(['hello', `of ${account.id}`]));
    }
  });

  test('what a snapshot leads to is the conversation as it is at each event, and needs its scope', async () => {
    const client = await server.account();
    const { secret } = await makeKey(client, { scopes: ['events:read'] });
    const query = `subscription ($after: String) { messageReceived(after: $after) {
      message { content }
      conversation { messageCount current { messages { totalCount nodes { content } } } }
    } }`;
    const { data } = await client.graphql('{ eventCursor }');
    const { body } = await startConversation(client, 'first');
    const send = (content: string, sender: string) =>
      client.rest('POST', `/conversations/${body.id}/messages`, { body: { content, sender } });
    await send('second', 'agent');
    const socket = await open().init(client.secret);
    socket.subscribe('full', query, { after: data.eventCursor });
    expect((await socket.first('full')).payload).toEqual({
      data: {
        messageReceived: {
          message: { content: 'first' },
          conversation: {
            messageCount: 1, // as it was
            current: { messages: { totalCount: 2, nodes: [{ content: 'first' }, { content: 'second' }] } },
          },
        },
      },
    });
    await send('third', 'agent');
    await send('fourth', 'visitor');
    await until(() => socket.of('full').length === 2);
    expect(socket.of('full')[1].payload.data.messageReceived).toEqual({
      message: { content: 'fourth' },
      conversation: {
        messageCount: 4,
        current: {
          messages: { totalCount: 4, nodes: ['first', 'second', 'third', 'fourth'].map((content) => ({ content })) },
        },
      },
    });

    const narrow = await open().init(secret);
    narrow.subscribe('narrow', query, { after: data.eventCursor });
    const { payload } = await narrow.first('narrow');
    expect(payload.data.messageReceived).toEqual({
      message: { content: 'first' },
      conversation: { messageCount: 1, current: null },
    });
    expect(payload.errors).toMatchObject([
      { path: ['messageReceived', 'conversation', 'current'], extensions: { code: 'FORBIDDEN' } },
    ]);
  });
});

/** A socket and both kinds of SSE streams with one credential. */
async function openAll(secret: string) {
  const socket = await open().init(secret);
  socket.subscribe('all', everything);
  const query = encodeURIComponent('subscription { events { id } }');
  const streams = [await openStream('/v1/events/stream', secret), await openStream(`/graphql?query=${query}`, secret)];
  await until(() => streams.every(({ body }) => body !== ''));
  return { socket, streams };
}

async function expectOpen({ socket, streams }: Awaited<ReturnType<typeof openAll>>): Promise<void> {
  socket.subscribe('still there', '{ eventCursor }');
  await socket.first('still there', 'complete');
  expect(streams.map(({ ended }) => ended)).toEqual([false, false]);
}

/** A credential, and the id of the key that it is, or that it was made with. */
type MakeCredential = (client: TestAccount, body?: object) => Promise<{ id: string; secret: string }>;

async function tokenOf(secret: string): Promise<string> {
  const body = { scopes: ['events:read', 'conversations:read'] };
  return (await server.clientFor(secret).rest('POST', '/tokens', { body })).body.token;
}

const makeToken: MakeCredential = async (client, body) => {
  const { id, secret } = await makeKey(client, body);
  return { id, secret: await tokenOf(secret) };
};

test('a key that is revoked in another process ends within 100 ms, and its tokens too', async () => {
  const client = await server.account();
  const other = await openAll(client.secret);
  const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
  /** How long after it the last of its sockets and streams ended. */
  const lastEndedMs = async (): Promise<number> => {
    const { id, secret } = await makeKey(client);
    const ended = [await openAll(secret), await openAll(await tokenOf(secret))];
    const all = ended.flatMap(({ socket, streams }) => [
      socket.closed,
      until(() => streams.every((stream) => stream.ended)),
    ]);
    const endedAt = Promise.all(all).then(() => performance.now());
    await promisify(execFile)(process.execPath, [program, 'key', 'revoke', id, '--account', client.account.id], {
      env: { ...process.env, DATABASE_URL: isOnPostgres ? server.database : `file:${server.database}` },
    });
    const revokedAt = performance.now();
    for (const { socket } of ended) expect(await socket.closed).toMatchObject({ code: 4403 });
    return (await endedAt) - revokedAt;
  };
  expect(await leastOf(lastEndedMs, 100)).toBeLessThan(100);
  await expectOpen(other);
});

describe.each<[string, MakeCredential]>([
  ['a key', makeKey],
  ['a token', makeToken],
])('the end of %s', (_, makeCredential) => {
  test('by revoking the key: its sockets are closed with 4403 and its streams end, those of other keys stay', async () => {
    const client = await server.account();
    const { id, secret } = await makeCredential(client);
    const [ended, other] = [await openAll(secret), await openAll(client.secret)];
    await client.rest('DELETE', `/api-keys/${id}`);
    expect(await ended.socket.closed).toEqual({ code: 4403, reason: 'Forbidden' });
    await until(() => ended.streams.every((stream) => stream.ended));
    await expectOpen(other);
  });

  // On PostgreSQL nothing tells whether it is still under way.
  test.skipIf(isOnPostgres)(
    'by revoking the key in another process: a mutation that is under way is not done',
    async () => {
      const client = await server.account();
      const { id, secret } = await makeKey(client);
      const socket = await open().init(secret);
      socket.send({
        id: 'late',
        type: 'subscribe',
        payload: { query: 'mutation { createConversation(input: {subject: "late"}) { eventCursor } }' },
      });
      // Before this process can have heard of it.
      await server.query('UPDATE api_keys SET revoked_at = ? WHERE id = ?', server.clock.now(), id);
      expect((await socket.closed).code).toBe(4403);
      expect((await client.rest('GET', '/conversations')).body.data).toEqual([]);
    },
  );

  test('by the expiry of the key: its sockets are closed with 4403 and its streams end', async () => {
    const client = await server.account();
    const { secret } = await makeCredential(client, { expiresAt: new Date(server.clock.now() + 60_000).toISOString() });
    const [ended, other] = [await openAll(secret), await openAll(client.secret)];
    server.clock.advance(59_999);
    await expectOpen(ended);
    server.clock.advance(1);
    ended.socket.subscribe('too late', '{ eventCursor }');
    expect(await ended.socket.closed).toEqual({ code: 4403, reason: 'Forbidden' });
    expect(ended.socket.of('too late')).toEqual([]);
    await until(() => ended.streams.every((stream) => stream.ended));
    await expectOpen(other);
  });

  test('while a socket is being opened: the socket is closed, whichever comes first', async () => {
    const client = await server.account();
    for (let round = 0; round < 20; round++) {
      const { id, secret } = await makeCredential(client);
      const socket = await open().opened();
      const revoked = client.rest('DELETE', `/api-keys/${id}`);
      for (let turn = 0; turn < round; turn++) await new Promise((resolve) => setImmediate(resolve));
      socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } });
      expect((await socket.closed).code).toBe(4403);
      await revoked;
    }
  });
});

test('a token that expires before its key: its sockets are closed with 4403 and its streams end, those of the key stay', async () => {
  const client = await server.account();
  const { secret } = await makeKey(client);
  const minted = await server.clientFor(secret).rest('POST', '/tokens', {
    body: { scopes: ['events:read'], expiresInSeconds: 60 },
  });
  const [ended, other] = [await openAll(minted.body.token), await openAll(secret)];
  server.clock.nowMs = Date.parse(minted.body.expiresAt) - 1;
  await expectOpen(ended);
  server.clock.advance(1);
  expect(await ended.socket.closed).toEqual({ code: 4403, reason: 'Forbidden' });
  await until(() => ended.streams.every((stream) => stream.ended));
  await expectOpen(other);
});

test('a stock client that gets a new token for each connection continues past their expiry without a gap', async () => {
  const client = await server.account();
  let [minted, last, connections] = [0, (await client.graphql('{ eventCursor }')).data.eventCursor, 0];
  const subscriber = socketClient(server.url, '', {
    connectionParams: async () => {
      const { body } = await client.rest('POST', '/tokens', {
        body: { scopes: ['events:read'], expiresInSeconds: 60 },
      });
      minted++;
      return { authorization: `Bearer ${body.token}` };
    },
    on: { connected: () => connections++ },
  });
  onTestFinished(() => void subscriber.dispose());
  const sequences: number[] = [];
  subscriber.subscribe<Json>(
    {
      query: everything,
      variables: {
        get after() {
          return last;
        },
      },
    },
    {
      next: ({ data }) => {
        sequences.push(data.events.sequence);
        last = data.events.cursor;
      },
      error: () => {},
      complete: () => {},
    },
  );
  for (let round = 1; round <= 3; round++) {
    await until(() => connections === round);
    await startConversation(client);
    await until(() => sequences.length === round * 4 - 2);
    server.clock.advance(60_000);
    await startConversation(client);
    await until(() => sequences.length === round * 4);
  }
  expect(sequences).toEqual(Array.from({ length: 12 }, (_, index) => index + 1));
  expect(minted).toBeGreaterThan(2);
});

test('a token bound to a conversation follows only that one', async () => {
  const client = await server.account();
  const [own, other] = [await startConversation(client), await startConversation(client)];
  const minted = await client.rest('POST', '/tokens', {
    body: { scopes: ['events:read'], conversationId: own.body.id },
  });
  const { socket, streams } = await openAll(minted.body.token);
  const send = ({ body }: Json, content: string) =>
    client.rest('POST', `/conversations/${body.id}/messages`, {
      body: { content, sender: 'visitor', metadata: { secret: content } },
    });
  await send(other, 'not for the page');
  await send(own, 'for the page');
  await until(() => socket.of('all').length === 1 && streams.every(({ events }) => events.length === 1));
  expect(socket.of('all')[0].payload.data.events.message.content).toBe('for the page');
  const [rest, graphql] = streams;
  expect(rest?.events[0].data.message).toMatchObject({ content: 'for the page', metadata: {} });
  expect(graphql?.body).not.toContain(other.body.id);
  expect(rest?.body).not.toContain('not for the page');
  socket.subscribe('other', `subscription { events(conversationId: "${other.body.id}") { id } }`);
  const refused = await socket.first('other');
  expect(refused.payload.errors).toMatchObject([{ path: ['events'], extensions: { code: 'NOT_FOUND' } }]);
});

describe('identical subscriptions share their results', () => {
  const query = `subscription ($after: String) { messageReceived(after: $after) {
    sequence message { content } conversation { metadata current { messages(first: 5) { totalCount } } }
  } }`;
  const contents = (socket: RawSocket): string[] =>
    socket.of('s').map(({ payload }) => payload.data.messageReceived.message.content);

  test('but each has its own id, permissions and position', async () => {
    const client = await server.account();
    const { body } = await client.rest('POST', '/conversations', { body: { metadata: { secret: 'yes' } } });
    const send = (content: string) =>
      client.rest('POST', `/conversations/${body.id}/messages`, { body: { content, sender: 'visitor' } });
    const eventsOnly = await makeKey(client, { scopes: ['events:read'] });
    const token = await client.rest('POST', '/tokens', {
      body: { scopes: ['conversations:read', 'events:read'], conversationId: body.id },
    });
    const start = (await client.graphql('{ eventCursor }')).data.eventCursor;
    await send('before');
    const secrets = [client.secret, client.secret, eventsOnly.secret, token.body.token];
    const sockets = await Promise.all(secrets.map((secret) => open().init(secret)));
    const [whole, late, poor, page] = sockets as [RawSocket, RawSocket, RawSocket, RawSocket];
    for (const socket of [whole, poor, page]) socket.subscribe('s', query);
    late.subscribe('s', query, { after: start });
    whole.subscribe('other', query.replace('sequence', 'alias: sequence'));
    await until(() => server.app.liveLog.followers === 5 && late.of('s').length === 1);
    for (const socket of [whole, poor, page]) socket.subscribe('ready', '{ __typename }');
    await until(() => [whole, poor, page].every((socket) => socket.of('ready').length > 0));
    for (const content of ['one', 'two', 'three']) await send(content);
    await until(() => sockets.every((socket) => socket.of('s').length >= 3));
    await until(() => late.of('s').length === 4 && whole.of('other').length === 3);
    expect([contents(whole), contents(late)]).toEqual([
      ['one', 'two', 'three'],
      ['before', 'one', 'two', 'three'],
    ]);
    const first = (socket: RawSocket, id = 's'): Json => socket.of(id)[0].payload;
    expect(first(whole).data.messageReceived.conversation).toMatchObject({ metadata: { secret: 'yes' } });
    expect(first(whole, 'other').data.messageReceived).toMatchObject({
      alias: first(whole).data.messageReceived.sequence,
    });
    expect(first(page).data.messageReceived.conversation).toMatchObject({ metadata: {} });
    expect(first(poor)).toMatchObject({
      data: { messageReceived: { message: { content: 'one' }, conversation: { current: null } } },
      errors: [{ extensions: { code: 'FORBIDDEN' } }],
    });
  });
});

describe('a client that vanishes silently', () => {
  test('and does not answer pings is disconnected', async () => {
    const own = await startOwn({ timings: { pingMs: 1_000 } }); // a busy machine takes its time for a pong
    const client = await own.account();
    const [dead, alive] = [await open({}, own.url).init(client.secret), await open({}, own.url).init(client.secret)];
    for (const socket of [dead, alive]) socket.subscribe('all', everything);
    let pings = 0;
    alive.socket.on('ping', () => pings++);
    dead.socket.pause(); // its kernel takes what is sent; nobody reads it
    await until(() => own.app.sessions.size === 1);
    expect(pings).toBeGreaterThan(0);
    const pingsBefore = pings;
    await until(() => pings > pingsBefore + 3);
    expect(own.app.sessions.size).toBe(1);
    await startConversation(client);
    await until(() => alive.of('all').length === 2);
  });
});

describe('the server stops', () => {
  /** A fifth of the grace period by default. */
  const soonMs = 2_000;

  test('sockets are closed with 1012, streams end, and it stops at once', async () => {
    const own = await startTestServer();
    const client = await own.account();
    const [socket, silent] = [await open({}, own.url).init(client.secret), await open({}, own.url).opened()];
    socket.subscribe('all', everything);
    const stream = await openStream('/v1/events/stream', client.secret, own.url);
    await until(() => stream.body !== '');
    const startedMs = performance.now();
    await own.close();
    expect(performance.now() - startedMs).toBeLessThan(soonMs);
    expect(await socket.closed).toEqual({ code: 1012, reason: 'Service restart' });
    expect(await silent.closed).toMatchObject({ code: 1012 });
    await until(() => stream.ended);
    expect(stream.failed).toBe(false);
  });

  test('at once even with sockets that are being opened', async () => {
    const query = encodeURIComponent('subscription { events { id } }');
    for (let round = 0; round < 12; round++) {
      const own = await startTestServer();
      const client = await own.account();
      const socket = await open({}, own.url).opened();
      const requests = ['/v1/events/stream', `/graphql?query=${query}`].map((path) => {
        const request = httpRequest(`${own.url}${path}`, {
          headers: { authorization: `Bearer ${client.secret}`, accept: 'text/event-stream' },
        });
        request.on('response', (response) => response.on('error', () => {}).resume()).on('error', () => {});
        request.end();
        return request;
      });
      await Promise.all(requests.map((request) => once(request, 'socket')));
      socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${client.secret}` } });
      for (let turn = 0; turn < round; turn++) await new Promise((resolve) => setImmediate(resolve));
      const startedMs = performance.now();
      await own.close();
      expect(performance.now() - startedMs).toBeLessThan(soonMs);
      expect([own.app.sessions.size, own.app.liveLog.followers]).toEqual([0, 0]);
      expect((await socket.closed).code).toBe(1012);
    }
  });

  test('within its grace period when clients do not react', async () => {
    const own = await startTestServer({ config: { shutdownGraceMs: 200 } });
    const client = await own.account();
    const socket = await open({}, own.url).init(client.secret);
    socket.socket.pause();
    const { port, hostname } = new URL(own.url);
    // One that holds on to a refused upgrade, and one that does not say what it wants.
    for (const text of ['GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', '']) {
      const holding = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
      onTestFinished(() => void holding.destroy());
      holding.on('error', () => {});
      await once(holding, 'connect');
      holding.write(text);
    }
    const startedMs = performance.now();
    await own.close();
    expect(performance.now() - startedMs).toBeLessThan(soonMs);
  });
});

test('an upgrade during shutdown is rejected, and does not delay the shutdown', async () => {
  const stopping = await startTestServer();
  const { port } = new URL(stopping.url);
  const raw = connect(Number(port), '127.0.0.1');
  let answer = '';
  raw.setEncoding('utf8').on('data', (text) => {
    answer += text;
  });
  const ended = once(raw, 'close');
  await once(raw, 'connect');
  raw.write('GET /graphql HTTP/1.1\r\nHost: localhost\r\n');
  await fetch(`${stopping.url}/healthz`); // by then what came before was read
  const closed = stopping.close();
  raw.write('Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n');
  raw.write('Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n');
  await ended;
  expect(answer).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/);
  expect(answer).toContain('\r\nRetry-After: 1\r\n');
  await closed;
});
