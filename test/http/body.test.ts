import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { clientOf, type Json, type RestResponse } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { openWire, requestText, type Wire, type WireResponse } from './wire.ts';

// Bodies as they come over the wire: whole, in pieces, cut off, endless, or not at all.

const mebibyte = 1024 * 1024;

let server: TestServer;
let client: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());
beforeEach(() => server.clock.advance(61_000)); // forgets the failed authentications

const authorized = (): Record<string, string> => ({ Authorization: `Bearer ${client.secret}` });

/** Everything of the account that a request could change. */
async function state(): Promise<Json> {
  const { eventCursor } = (await client.rest('GET', '/account')).body;
  const { data, pagination } = (await client.rest('GET', '/conversations?limit=100')).body;
  return { eventCursor, data, pagination };
}

async function send(text: string): Promise<{ status: number; headers: Readonly<Record<string, string>>; body: Json }> {
  const wire = openWire(server.url);
  await wire.send(text);
  const { status, headers, body } = await wire.response();
  return { status, headers, body: body === '' ? '' : JSON.parse(body) };
}

const codeOf = ({ body }: { body: Json }): string => body.code ?? body.errors[0].extensions.code;

/** A request that changes something, on either face. */
const faces = [
  { face: 'REST', path: '/v1/conversations', body: '{"subject":"Parcel"}', created: 201 },
  {
    face: 'GraphQL',
    path: '/graphql',
    body: '{"query":"mutation { createConversation(input: {subject: \\"Parcel\\"}) { eventCursor } }"}',
    created: 200,
  },
];

describe.each(faces)('on $face', ({ face, path, body, created }) => {
  const post = (headers: Record<string, string>, content: string | Uint8Array): Promise<RestResponse> =>
    face === 'REST'
      ? client.rest('POST', '/conversations', { headers, body: content })
      : client.post(content, { headers });

  test.each([
    ['application/json', {}],
    ['APPLICATION/JSON', {}],
    ['application/json; charset=utf-8', {}],
    ['application/json\t;\tcharset=utf-8', {}],
    ['application/json;charset="UTF-8"', {}],
    ['application/json ; boundary=x', {}],
    ['application/json', { 'content-encoding': 'identity' }],
  ])('%s %o is read', async (type, headers) => {
    const response = await post({ 'content-type': type, ...headers }, body);
    expect(response.status).toBe(created);
  });

  test.each([
    ['text/plain', {}],
    ['', {}],
    ['application/x-www-form-urlencoded', {}],
    ['multipart/form-data; boundary=x', {}],
    ['application/graphql', {}],
    ['application/jsonx', {}],
    ['application/json5', {}],
    ['application/problem+json', {}],
    ['application/json, text/plain', {}],
    ['text/plain; application/json', {}],
    ['application/json; charset=latin1', {}],
    ['application/json; charset=utf-16', {}],
    ['application/json', { 'content-encoding': 'gzip' }],
    ['application/json', { 'content-encoding': 'br, identity' }],
  ])('%j %o is UNSUPPORTED_MEDIA_TYPE, and changes nothing', async (type, headers) => {
    const before = await state();
    const response = await post({ 'content-type': type, ...headers }, body);
    expect(response.status).toBe(415);
    expect(codeOf(response)).toBe('UNSUPPORTED_MEDIA_TYPE');
    expect(await state()).toEqual(before);
  });

  test('a body without a media type is UNSUPPORTED_MEDIA_TYPE', async () => {
    const headers = { ...authorized(), 'Content-Length': String(body.length) };
    const response = await send(`${requestText('POST', path, { headers })}${body}`);
    expect(response.status).toBe(415);
    expect(codeOf(response)).toBe('UNSUPPORTED_MEDIA_TYPE');
  });

  test('a body that is compressed on its way is UNSUPPORTED_MEDIA_TYPE', async () => {
    const headers = { ...authorized(), 'Content-Type': 'application/json', 'Transfer-Encoding': 'gzip, chunked' };
    const response = await send(`${requestText('POST', path, { headers })}2\r\n{}\r\n0\r\n\r\n`);
    expect(response.status).toBe(415);
    expect(codeOf(response)).toBe('UNSUPPORTED_MEDIA_TYPE');
  });

  test('exactly 1 MiB is read, and one byte more is PAYLOAD_TOO_LARGE', async () => {
    const full = body + ' '.repeat(mebibyte - body.length);
    expect((await post({}, full)).status).toBe(created);
    const before = await state();
    const response = await post({}, `${full} `);
    expect(response.status).toBe(413);
    expect(codeOf(response)).toBe('PAYLOAD_TOO_LARGE');
    expect(await state()).toEqual(before);
  });

  test('the same is so of a body that does not say its length', async () => {
    const chunked = async (text: string): Promise<number> => {
      const wire = openWire(server.url);
      const headers = { ...authorized(), 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' };
      await wire.send(requestText('POST', path, { headers }));
      await wire.send(`${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`);
      return (await wire.response()).status;
    };
    const full = body + ' '.repeat(mebibyte - body.length);
    expect(await chunked(full)).toBe(created);
    const before = await state();
    expect(await chunked(`${full} `)).toBe(413);
    expect(await state()).toEqual(before);
  });

  test.each([mebibyte + 1, 2 ** 31, 2 ** 53])(
    'a Content-Length of %d is PAYLOAD_TOO_LARGE before any of the body is sent, and ends the connection',
    async (length) => {
      const wire = openWire(server.url);
      const headers = { ...authorized(), 'Content-Type': 'application/json', 'Content-Length': String(length) };
      await wire.send(requestText('POST', path, { headers }));
      const response = await wire.response();
      expect(response.status).toBe(413);
      expect(codeOf({ body: JSON.parse(response.body) })).toBe('PAYLOAD_TOO_LARGE');
      expect(response.headers['connection']).toBe('close');
      await wire.ended;
    },
  );

  /** Streams until the server has hung up. Were it to read on, this would not end. */
  async function streamForEver(wire: Wire): Promise<number> {
    let streamed = 0;
    let over = false;
    void wire.ended.then(() => {
      over = true;
    });
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
    while (!over) {
      await wire.send(chunk);
      streamed += 0x10000;
      // The socket's events come between: `send` alone may resolve without a turn of the loop.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return streamed;
  }

  test.each([
    ['PAYLOAD_TOO_LARGE', 413, () => authorized(), path],
    ['UNAUTHENTICATED', 401, () => ({}), path],
    ['METHOD_NOT_ALLOWED', 405, () => authorized(), path],
  ])('an endless body is answered %s, and not read on', async (code, status, credential, target) => {
    const wire = openWire(server.url);
    const method = code === 'METHOD_NOT_ALLOWED' ? 'PUT' : 'POST';
    const headers = { ...credential(), 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' };
    await wire.send(requestText(method, target, { headers }));
    const streamed = streamForEver(wire);
    const response = await wire.response();
    expect(response.status).toBe(status);
    expect(codeOf({ body: JSON.parse(response.body) })).toBe(code);
    expect(response.headers['connection']).toBe('close');
    // What the buffers between the two take, and no more.
    expect(await streamed).toBeLessThan(32 * mebibyte);
  });

  test('an endless body of a preflight is not read on either', async () => {
    const wire = openWire(server.url);
    const preflight = { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'POST' };
    await wire.send(requestText('OPTIONS', path, { headers: { ...preflight, 'Transfer-Encoding': 'chunked' } }));
    const streamed = streamForEver(wire);
    const response = await wire.response();
    expect([response.status, response.headers['connection']]).toEqual([204, 'close']);
    expect(await streamed).toBeLessThan(32 * mebibyte);
  });

  test('a client that sends all of a body that is too large before it reads still gets its answer', async () => {
    const wire = openWire(server.url);
    const length = 8 * mebibyte;
    const headers = { ...authorized(), 'Content-Type': 'application/json', 'Content-Length': String(length) };
    await wire.send(requestText('POST', path, { headers }));
    for (let sent = 0; sent < length; sent += mebibyte) await wire.send(' '.repeat(mebibyte));
    expect((await wire.response()).status).toBe(413);
    await wire.ended;
  });

  test('a refused body of a usual size does not cost the connection', async () => {
    const wire = openWire(server.url);
    await wire.send(
      requestText('POST', path, { headers: { 'Content-Type': 'application/json', 'Content-Length': '50000' } }),
    );
    expect((await wire.response()).status).toBe(401);
    await wire.send(' '.repeat(50_000));
    await wire.send(requestText('POST', path, { headers: authorized(), body }));
    expect((await wire.response()).status).toBe(created);
  });

  test('a client that waits for 100 Continue gets it, and its answer', async () => {
    const wire = openWire(server.url);
    const headers = { ...authorized(), Expect: '100-continue', 'Content-Type': 'application/json' };
    await wire.send(requestText('POST', path, { headers: { ...headers, 'Content-Length': String(body.length) } }));
    expect((await wire.response()).status).toBe(100);
    await wire.send(body);
    expect((await wire.response()).status).toBe(created);
  });

  test('a request that comes byte by byte is read', async () => {
    const wire = openWire(server.url);
    for (const byte of Buffer.from(requestText('POST', path, { headers: authorized(), body }))) {
      await wire.send(Uint8Array.of(byte));
    }
    expect((await wire.response()).status).toBe(created);
  });

  test('a character that is split between two chunks is one character', async () => {
    const wire = openWire(server.url);
    const bytes = Buffer.from(body.replace('Parcel', 'Päckchen 📦'));
    const headers = { ...authorized(), 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' };
    await wire.send(requestText('POST', path, { headers }));
    for (const byte of bytes)
      await wire.send(Buffer.concat([Buffer.from('1\r\n'), Uint8Array.of(byte), Buffer.from('\r\n')]));
    await wire.send('0\r\n\r\n');
    expect((await wire.response()).status).toBe(created);
    const { data } = (await client.rest('GET', '/conversations?limit=1')).body;
    expect(data[0].subject).toBe('Päckchen 📦');
  });

  test.each([
    ['with a Content-Length', (length: number) => ({ 'Content-Length': String(length + 1) }), (text: string) => text],
    [
      'in chunks',
      () => ({ 'Transfer-Encoding': 'chunked' }),
      (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`,
    ],
  ])('a body %s that is cut off before its end changes nothing', async (_, framing, framed) => {
    const before = await state();
    const wire = openWire(server.url);
    // All that matters is there, only not the end: nothing may be done on a guess.
    const headers = {
      ...authorized(),
      'Content-Type': 'application/json',
      'X-Request-Id': `cut-${face}-${_}`.replaceAll(' ', '-'),
    };
    await wire.send(requestText('POST', path, { headers: { ...headers, ...framing(body.length) } }) + framed(body));
    wire.cut();
    // The server has dealt with it once it has written its line in the log.
    const line = () => server.logLines.find(({ requestId }) => requestId === headers['X-Request-Id']);
    await until(() => line() !== undefined);
    expect(line()).toMatchObject({ status: 400 });
    expect(await state()).toEqual(before);
  });

  test('a client that goes away before its answer is no error of ours', async () => {
    const wires = Array.from({ length: 20 }, () => openWire(server.url));
    await Promise.all(wires.map((wire) => wire.send(requestText('POST', path, { headers: authorized(), body }))));
    for (const wire of wires) wire.cut();
    expect((await client.rest('GET', '/account')).status).toBe(200);
  });

  test('pipelined requests are answered in their order', async () => {
    const wire = openWire(server.url);
    const labelled = (id: string, text: string) =>
      requestText('POST', path, { headers: { ...authorized(), 'X-Request-Id': id }, body: text });
    await wire.send(
      labelled('a', body) +
        labelled('b', '{') +
        labelled('c', body) +
        requestText('GET', '/nothing', { headers: { 'X-Request-Id': 'd' } }),
    );
    const answers = [await wire.response(), await wire.response(), await wire.response(), await wire.response()];
    expect(answers.map(({ status, headers }) => [headers['x-request-id'], status])).toEqual([
      ['a', created],
      ['b', 400],
      ['c', created],
      ['d', 404],
    ]);
  });

  const notJson: [name: string, bytes: string | Uint8Array][] = [
    ['a brace', '{'],
    ['a trailing comma', '{"subject":"x",}'],
    ['single quotes', "{'subject':'x'}"],
    ['no quotes', '{subject:"x"}'],
    ['a comment', '{"subject":"x"} // Parcel'],
    ['two values', '{}{}'],
    ['NaN', '{"metadata":{"a":NaN}}'],
    ['Infinity', '{"metadata":{"a":-Infinity}}'],
    ['a hexadecimal number', '{"metadata":{"a":0x10}}'],
    ['a raw line break in a text', '{"subject":"a\nb"}'],
    ['a raw U+0000', '{"subject":"a\u0000b"}'],
    ['a bad escape', '{"subject":"\\x41"}'],
    ['white space only', ' \r\n\t'],
    ['undefined', 'undefined'],
    ['a form', 'subject=x&status=active'],
    ['XML', '<?xml version="1.0"?><subject>x</subject>'],
    ['an unclosed nest', '['.repeat(100_000)],
    ['invalid UTF-8', Buffer.from('7b227375626a656374223a22ff227d', 'hex')],
    ['overlong UTF-8', Buffer.from('7b227375626a656374223a22c0af227d', 'hex')],
    ['a surrogate in UTF-8', Buffer.from('7b227375626a656374223a22eda080227d', 'hex')],
    ['UTF-16', Buffer.from('{"subject":"x"}', 'utf16le')],
    ['half a character', Buffer.from('7b227375626a656374223a22f09f93', 'hex')],
    ['null', 'null'],
    ['a number', '1'],
    ['a text', '"x"'],
    ['true', 'true'],
    ['a list', '[]'],
  ];
  test.each(notJson)('%s is BAD_REQUEST, and changes nothing', async (_, bytes) => {
    const before = await state();
    const response = await post({}, bytes);
    expect(response.status).toBe(400);
    expect(codeOf(response)).toBe('BAD_REQUEST');
    expect(await state()).toEqual(before);
  });

  test('what the body held is in no error and no log', async () => {
    const response = await post({}, '{"subject":"my secret" oops}');
    expect(codeOf(response)).toBe('BAD_REQUEST');
    expect(server.logLines.at(-1)).toMatchObject({ msg: 'request', status: 400 });
    expect(JSON.stringify(response.body)).not.toContain('secret');
    expect(JSON.stringify(server.logLines)).not.toContain('my secret');
  });

  test('a byte order mark before the JSON is passed over', async () => {
    expect((await post({}, Buffer.concat([Buffer.from('efbbbf', 'hex'), Buffer.from(body)]))).status).toBe(created);
  });
});

const absent: [name: string, headers: Record<string, string>, rest: string][] = [
  ['no body', {}, ''],
  ['a Content-Length of 0', { 'Content-Length': '0' }, ''],
  ['a media type and no body', { 'Content-Type': 'application/json' }, ''],
  ['no chunk but the last', { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }, '0\r\n\r\n'],
];

describe('an absent body', () => {
  test.each(absent)('counts as {} where a conversation is created: %s', async (_, headers, rest) => {
    const text = requestText('POST', '/v1/conversations', { headers: { ...authorized(), ...headers } });
    const response = await send(text + rest);
    expect(response.status).toBe(201);
    expect(response.body).toMatchObject({ subject: null, status: 'active', messages: [] });
  });

  test.each(absent)('is BAD_REQUEST for whatever else takes one: %s', async (_, headers, rest) => {
    const { id } = (await client.rest('POST', '/conversations', {})).body;
    const before = await state();
    for (const [method, path] of [
      ['PATCH', `/v1/conversations/${id}`],
      ['POST', `/v1/conversations/${id}/messages`],
      ['POST', '/v1/api-keys'],
      ['POST', '/graphql'],
    ] as const) {
      const response = await send(requestText(method, path, { headers: { ...authorized(), ...headers } }) + rest);
      expect([method, path, response.status, codeOf(response)]).toEqual([method, path, 400, 'BAD_REQUEST']);
    }
    expect(await state()).toEqual(before);
  });
});

describe('where a request takes no body', () => {
  const made: [path: string, body: object][] = [
    ['/conversations', {}],
    ['/webhooks', { url: 'https://example.com/hooks' }],
    ['/api-keys', { name: 'short-lived' }],
  ];

  async function make(path: string, body: object): Promise<string> {
    return `${path}/${(await client.rest('POST', path, { body })).body.id}`;
  }

  test.each(made)('what a body asks of DELETE %s is refused, and nothing is deleted', async (path, body) => {
    const one = await make(path, body);
    const before = await state();
    const unknown = await client.rest('DELETE', `${one}?force=true`, {
      body: { id: 'x', expectedVersion: 99, dryRun: true },
    });
    expect([unknown.status, unknown.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(unknown.body.errors).toEqual([
      expect.objectContaining({ parameter: 'force' }),
      { pointer: '/id', detail: 'is taken from the path and must not be in the body' },
      { pointer: '/expectedVersion', detail: 'is not known in the body; it is the header `If-Match`' },
      { pointer: '/dryRun', detail: 'is not a known field' },
    ]);
    const raw = (type: string, content: string) =>
      client.rest('DELETE', one, { headers: { 'content-type': type }, body: content });
    for (const content of ['{', '[]', 'null', '1']) {
      expect(codeOf(await raw('application/json', content))).toBe('BAD_REQUEST');
    }
    expect(codeOf(await raw('text/plain', '{}'))).toBe('UNSUPPORTED_MEDIA_TYPE');
    expect(codeOf(await raw('application/json', `{}${' '.repeat(mebibyte)}`))).toBe('PAYLOAD_TOO_LARGE');
    expect(await state()).toEqual(before);
    expect((await client.rest('DELETE', one)).status).toBe(204);
  });

  const nothing: [name: string, headers: Record<string, string>, rest: string][] = [
    ...absent,
    ['no chunk but the last, and no media type', { 'Transfer-Encoding': 'chunked' }, '0\r\n\r\n'],
    ['{}', { 'Content-Type': 'application/json', 'Content-Length': '2' }, '{}'],
  ];
  test.each(nothing)('one that asks nothing is fine: %s', async (_, headers, rest) => {
    for (const [path, body] of made) {
      const one = await make(path, body);
      const text = requestText('DELETE', `/v1${one}`, { headers: { ...authorized(), ...headers } });
      expect((await send(text + rest)).status).toBe(204);
    }
    expect(
      (await send(requestText('GET', '/v1/account', { headers: { ...authorized(), ...headers } }) + rest)).status,
    ).toBe(200);
  });

  test.each(['/conversations', '/events/stream', '/account'])('what a body asks of GET %s is refused', async (path) => {
    const filters = { status: 'closed', types: ['lead.captured'] };
    const { status, body } = await client.rest('GET', path, { body: filters });
    expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(body.errors).toEqual(
      Object.keys(filters).map((name) => ({ pointer: `/${name}`, detail: 'is not a known field' })),
    );
    const raw = (type: string, content: string) =>
      client.rest('GET', path, { headers: { 'content-type': type }, body: content });
    expect(codeOf(await raw('application/json', '['))).toBe('BAD_REQUEST');
    expect(codeOf(await raw('text/plain', '{}'))).toBe('UNSUPPORTED_MEDIA_TYPE');
    expect(codeOf(await raw('application/json', `{}${' '.repeat(mebibyte)}`))).toBe('PAYLOAD_TOO_LARGE');
  });

  test('that of a HEAD is refused too, and is not in the way of the next request', async () => {
    const chunked = `${requestText('HEAD', '/v1/conversations', {
      headers: { ...authorized(), 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' },
    })}13\r\n{"status":"closed"}\r\n0\r\n\r\n`;
    const wire = openWire(server.url);
    await wire.send(chunked + requestText('GET', '/v1/account', { headers: authorized() }));
    expect((await wire.response(true)).status).toBe(400);
    expect((await wire.response()).status).toBe(200);
  });
});

describe('broken HTTP is refused without a trace, and the server lives on', () => {
  const head = 'Host: localhost\r\n';
  const broken: [name: string, text: () => string, status: number][] = [
    ['a line of garbage', () => 'GARBAGE\r\n\r\n', 400],
    ['bytes of another protocol', () => '\u0016\u0003\u0001\u0002\u0000\u0001\r\n\r\n', 400],
    ['another version', () => `GET / HTTP/9.9\r\n${head}\r\n`, 400],
    ['a method in small letters', () => `get /v1/account HTTP/1.1\r\n${head}\r\n`, 400],
    ['an unknown method', () => `BREW /v1/account HTTP/1.1\r\n${head}\r\n`, 400],
    ['a target with a space', () => `GET /v1/ account HTTP/1.1\r\n${head}\r\n`, 400],
    ['no Host', () => 'GET / HTTP/1.1\r\n\r\n', 400],
    ['a header without a colon', () => `GET / HTTP/1.1\r\n${head}nonsense\r\n\r\n`, 400],
    ['a header with U+0000', () => `GET / HTTP/1.1\r\n${head}X-A: a\u0000b\r\n\r\n`, 400],
    ['too large a header', () => `GET / HTTP/1.1\r\n${head}X-A: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    ['too many headers', () => `GET / HTTP/1.1\r\n${head}${'X-A: b\r\n'.repeat(5_000)}\r\n`, 431],
    ['too long a target', () => `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\n${head}\r\n`, 431],
    ['two lengths', () => posting('Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}'), 400],
    ['a negative length', () => posting('Content-Length: -1\r\n\r\n{}'), 400],
    ['a length that is no number', () => posting('Content-Length: two\r\n\r\n{}'), 400],
    ['a length and chunks', () => posting('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'), 400],
    ['a chunk without a size', () => posting('Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'), 400],
    ['a bad chunk after a good one', () => posting('Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nzz\r\n'), 400],
    [
      'endless extensions of a chunk',
      () => posting(`Transfer-Encoding: chunked\r\n\r\n2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`),
      413,
    ],
    ['an unknown expectation', () => posting('Expect: a-miracle\r\nContent-Length: 2\r\n\r\n{}'), 417],
    [
      'an unknown expectation, without what is expected',
      () => posting('Expect: a-miracle\r\nContent-Length: 2\r\n\r\n'),
      417,
    ],
  ];
  const posting = (rest: string): string =>
    `POST /v1/conversations HTTP/1.1\r\n${head}Authorization: Bearer ${client.secret}\r\nContent-Type: application/json\r\n${rest}`;

  test.each(broken)('%s', async (_, text, status) => {
    const before = await state();
    const wire = openWire(server.url);
    await wire.send(text());
    expectProblem(await wire.response(), status);
    await wire.ended;
    await expect(wire.response()).rejects.toThrow('The connection ended after ""');
    expect(await state()).toEqual(before);
  });

  /** As every answer is: with a code to act on, and the id that the log has it under. */
  function expectProblem({ status, headers, body }: WireResponse, expected: number): void {
    expect(status).toBe(expected);
    expect(headers).toMatchObject({ 'content-type': 'application/problem+json', connection: 'close' });
    const requestId = headers['x-request-id'];
    const code = expected === 413 ? 'PAYLOAD_TOO_LARGE' : 'BAD_REQUEST';
    expect(JSON.parse(body)).toMatchObject({ status: expected, code, requestId });
    expect(server.logLines).toContainEqual(expect.objectContaining({ level: 'info', requestId, status: expected }));
  }

  test('no Host, on GraphQL as its clients read it', async () => {
    const wire = openWire(server.url);
    await wire.send('GET /graphql HTTP/1.1\r\nX-Request-Id: mine\r\n\r\n');
    const { status, headers, body } = await wire.response();
    expect([status, headers['x-request-id']]).toEqual([400, 'mine']);
    expect(JSON.parse(body).errors[0].extensions).toEqual({ code: 'BAD_REQUEST', requestId: 'mine' });
    await wire.ended;
  });

  test('a bad chunk under the id that its request came with', async () => {
    const wire = openWire(server.url);
    await wire.send(posting('X-Request-Id: mine\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'));
    expect((await wire.response()).headers['x-request-id']).toBe('mine');
  });

  test('what follows on a request gets an answer of its own, after that of the request', async () => {
    const before = (await state()).pagination.total;
    const wire = openWire(server.url);
    await wire.send(`${posting('Content-Length: 2\r\n\r\n{}').repeat(3)}GARBAGE\r\n\r\n${'x'.repeat(100_000)}`);
    for (let request = 0; request < 3; request++) expect((await wire.response()).status).toBe(201);
    expectProblem(await wire.response(), 400);
    await wire.ended;
    expect((await state()).pagination.total).toBe(before + 3);
  });

  test('what comes in the midst of an answer does not get into it', async () => {
    const stream = openWire(server.url);
    await stream.send(requestText('GET', '/v1/events/stream', { headers: authorized() }));
    await stream.received(1);
    await stream.send('GARBAGE\r\n\r\n');
    await client.rest('GET', '/account'); // by then it was read
    const message = { content: 'x'.repeat(5_000), sender: 'visitor' };
    await client.rest('POST', '/conversations', { body: { message } });
    await stream.received(5_000);
    stream.cut();
    await stream.ended;
    const seen = await stream.response().then(String, String); // it has no end, which quotes what came
    expect(seen).toContain('event: conversation.started');
    expect(seen).not.toContain('BAD_REQUEST');
  });

  test('one that cuts its connection off gets no answer, and nothing is said of it', async () => {
    const lines = server.logLines.length;
    for (const text of ['GET /v1/acc', 'GARBAGE']) {
      const wire = openWire(server.url);
      await wire.send(text);
      wire.cut();
      await wire.ended;
    }
    await client.rest('GET', '/account');
    expect(server.logLines.slice(lines).filter(({ level }) => level !== 'info')).toEqual([]);
  });

  test('a connection that says nothing, or half a request, holds up nobody', async () => {
    const silent = Array.from({ length: 50 }, () => openWire(server.url));
    await Promise.all(silent.map((wire, index) => wire.send(index % 2 === 0 ? 'GET /v1/acc' : 'POST /v1/')));
    expect((await clientOf(server.url, client.secret).rest('GET', '/account')).status).toBe(200);
  });
});

test('of a request that took too long, what comes after it was refused is not done any more', async () => {
  const impatient = await startTestServer({ timings: { headMs: 300, requestMs: 300 } });
  onTestFinished(() => impatient.close());
  const caller = await impatient.account();
  const text = '{"subject":"Too late"}';
  const headers = { Authorization: `Bearer ${caller.secret}`, 'Content-Type': 'application/json' };
  const socket = connect({ port: Number(new URL(impatient.url).port), host: '127.0.0.1', allowHalfOpen: true });
  const ended = once(socket, 'end');
  let answer = '';
  socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
  const head = requestText('POST', '/v1/conversations', {
    headers: { ...headers, 'Content-Length': `${text.length}` },
  });
  socket.write(head + text.slice(0, 5));
  await ended;
  expect(answer).toMatch(/^HTTP\/1\.1 408 .*"code":"BAD_REQUEST"/s);
  socket.end(text.slice(5));
  await once(socket, 'close');
  expect(await impatient.log(caller.account.id)).toEqual([]); // it gives no request time enough on a busy machine
});

test('nothing of all this was an error of the server’s own', () => {
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});
