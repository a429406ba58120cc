import Database from 'better-sqlite3';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { parseJson } from '../../src/http/json.ts';
import { RequestMemory } from '../../src/http/request-memory.ts';
import { clientOf, type Json } from '../support/client.ts';
import { cpuMsOf } from '../support/cpu-time.ts';
import { effort, longTest } from '../support/effort.ts';
import { scrape } from '../support/metrics.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';
import { openWire, requestText, type Wire } from './wire.ts';

// What a body may cost while it arrives and when it is parsed, and what can happen to its sender meanwhile.

const mebibyte = 1024 * 1024;

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

const codeOf = ({ body }: { body: Json }): string => body.code ?? [body].flat()[0].errors[0].extensions.code;
const conversations = async (): Promise<number> =>
  (await client.rest('GET', '/conversations')).body.pagination.total as number;

/** A connection with the head of a request on it, whose body is to follow. */
async function begin(secret: string, path: string, framing: Record<string, string>): Promise<Wire> {
  const wire = openWire(server.url);
  const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json', ...framing };
  await wire.send(requestText('POST', path, { headers }));
  return wire;
}

async function answer(wire: Wire): Promise<{ status: number; headers: Readonly<Record<string, string>>; body: Json }> {
  const { status, headers, body } = await wire.response();
  return { status, headers, body: JSON.parse(body) };
}

/** Of the 32 MiB of an account, what others of its requests hold already. A test is done sooner with what is left. */
const heldBefore = effort(24, 0) * mebibyte;
const large = effort(16, 40); // of 1 MiB each, more than there is room for

function holdMost(): void {
  const others = new RequestMemory({ account: client.account });
  others.growTo(heldBefore);
  onTestFinished(() => others.release());
}

const mutation = { query: 'mutation { createConversation(input: {subject: "Parcel"}) { eventCursor } }' };
const faces = [
  { face: 'REST', path: '/v1/conversations', body: '{"subject":"Parcel"}' },
  { face: 'GraphQL', path: '/graphql', body: JSON.stringify(mutation) },
  { face: 'a batch', path: '/graphql', body: JSON.stringify([mutation, mutation]) },
];

describe.each(faces)('on $face', ({ path, body }) => {
  const post = (text: string) =>
    path === '/graphql' ? client.post(text) : client.rest('POST', '/conversations', { body: text });

  test('a body nested more than 64 deep is refused before it is parsed', async () => {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const nested = (depth: number): string => `{"metadata":${open.repeat(depth - 1)}"[["${close.repeat(depth - 1)}}`;
      expect((await post(nested(64))).body.detail ?? '').not.toContain('nested');
      const refused = await post(nested(65));
      expect([refused.status, codeOf(refused)]).toEqual([400, 'BAD_REQUEST']);
      expect(JSON.stringify(refused.body)).toContain('nested more than 64 deep');
    }
  });

  test('a body of more than 12,000 values is refused before it is parsed', async () => {
    const keys = Array.from({ length: 12_000 }, (_, index) => `"k${index}":","`).join(',');
    const refused = await post(`{"metadata":{${keys}}}`);
    expect([refused.status, codeOf(refused)]).toEqual([400, 'BAD_REQUEST']);
    expect(JSON.stringify(refused.body)).toContain('more than 12000 values');
  });

  test('a body in more than 4,096 pieces is PAYLOAD_TOO_LARGE', async () => {
    const wire = await begin(client.secret, path, { 'Transfer-Encoding': 'chunked' });
    const chunk = (text: string): string => [...text].map((one) => `1\r\n${one}\r\n`).join('');
    await wire.send(`${chunk(body)}${chunk(' ').repeat(5_000)}0\r\n\r\n`);
    const refused = await answer(wire);
    expect([refused.status, codeOf(refused)]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
    await wire.ended;
  });

  test('a key that is revoked while a body arrives makes nothing', async () => {
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'leaked' } });
    const before = await conversations();
    const wire = await begin(key.secret, path, { 'Content-Length': String(body.length) });
    await wire.send(body.slice(0, -1));
    for (let turn = 0; turn < 5; turn++) await client.rest('GET', '/account'); // by now it has been admitted
    expect((await client.rest('DELETE', `/api-keys/${key.id}`)).status).toBe(204);
    await wire.send(body.slice(-1));
    const refused = await answer(wire);
    expect([refused.status, codeOf(refused)]).toEqual([401, 'UNAUTHENTICATED']);
    expect(await conversations()).toBe(before);
  });
});

test('a megabyte of numbers without a comma is looked through about as fast as one of words', () => {
  const refused = (text: string) => cpuMsOf(() => expect(() => parseJson(text)).toThrow('not JSON'), 5);
  const words = refused('x'.repeat(mebibyte));
  // Some machines count processor time in steps of four milliseconds.
  expect(refused('1 '.repeat(mebibyte / 2))).toBeLessThan(12 + 2 * words);
});

test('large bodies are bounded for an account, and another account is not refused for them', async () => {
  holdMost();
  const other = await server.account();
  const hold = async (secret: string): Promise<Wire> => {
    const wire = await begin(secret, '/v1/conversations', { 'Content-Length': String(mebibyte) });
    await wire.send(' '.repeat(mebibyte - 1));
    return wire;
  };
  const wires = await Promise.all(Array.from({ length: large }, () => hold(client.secret)));
  const refused: Json[] = [];
  for (const wire of wires)
    void wire.response().then(
      (response) => refused.push(response),
      () => {},
    );
  await until(() => refused.length >= 8);
  for (const { status, headers } of refused) {
    expect([status, headers['retry-after']]).toEqual([503, '1']);
  }
  expect(server.logLines.filter(({ level }) => level === 'error')).toEqual([]);
  // Ordinary requests of the same account go on, and so do large ones of another.
  expect((await client.rest('POST', '/conversations', { body: { subject: 'x'.repeat(200) } })).status).toBe(201);
  expect((await other.rest('POST', '/conversations', { body: `{}${' '.repeat(mebibyte - 2)}` })).status).toBe(201);
  for (const wire of wires) wire.cut();
  await vi.waitFor(async () => {
    const { status } = await client.rest('POST', '/conversations', { body: `{}${' '.repeat(mebibyte - 2)}` });
    expect(status).toBe(201);
  }, 10_000);
});

test('the large bodies of a visitor leave room for those of the agents, and of other visitors', async () => {
  const pageOf = async (id: string): Promise<string> => {
    const asked = { scopes: ['conversations:write'], visitor: { id } };
    return (await client.rest('POST', '/tokens', { body: asked })).body.token;
  };
  const [page, other] = [await pageOf('one'), await pageOf('other')];
  const wires = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const wire = await begin(page, '/v1/conversations', { 'Content-Length': String(mebibyte) });
      await wire.send(' '.repeat(mebibyte - 1));
      return wire;
    }),
  );
  const refused: number[] = [];
  for (const wire of wires) {
    void wire.response().then(
      ({ status }) => refused.push(status),
      () => {},
    );
  }
  await until(() => refused.length >= 8);
  expect(new Set(refused)).toEqual(new Set([503]));
  const large = { body: `{}${' '.repeat(mebibyte - 2)}` };
  expect((await client.rest('POST', '/conversations', large)).status).toBe(201);
  expect((await server.clientFor(other).rest('POST', '/conversations', large)).status).toBe(201);
});

test('however many accounts hold as much as they may, another one is not refused', async () => {
  for (const id of ['first', 'second', 'third']) {
    const held = new RequestMemory({ account: { id } });
    onTestFinished(() => held.release());
    expect(() => {
      for (let bytes = mebibyte; bytes < 100 * mebibyte; bytes += mebibyte) held.growTo(bytes);
    }).toThrow('Too many large requests');
  }
  const body = `{}${' '.repeat(mebibyte - 2)}`;
  expect((await client.rest('POST', '/conversations', { body })).status).toBe(201);
});

describe('what was parsed of a large request is bounded for an account until it is answered', () => {
  /** Sends many requests, none of which ends before some are refused. */
  async function sendMany(count: number, send: () => Promise<{ status: number; headers: Json; body: Json }>) {
    await client.post(mutation); // its budget is at hand from here on
    holdMost();
    const refusals = async (): Promise<number> =>
      (await scrape(server.url)).get('conversation_service_overload_refusals_total') ?? 0;
    const before = await refusals();
    const lock = new Database(server.databasePath);
    onTestFinished(() => void lock.close());
    lock.exec('BEGIN IMMEDIATE');
    const answers: Json[] = [];
    const all = Array.from({ length: count }, async () => void answers.push(await send()));
    await until(() => answers.length >= 8);
    for (const { status, headers, body } of answers) {
      expect([status, headers['retry-after']]).toEqual([503, '1']);
      expect(JSON.stringify(body)).toContain('Too many large requests');
    }
    lock.exec('COMMIT');
    await Promise.all(all);
    const refused = answers.filter(({ status }) => status === 503).length;
    expect((await refusals()) - before, 'the metric counts them').toBe(refused);
    expect((await send()).status).toBeLessThan(300);
  }

  const padded = JSON.stringify({ ...mutation, variables: { padding: 'x'.repeat(mebibyte - 500) } });
  const ofManyValues = JSON.stringify({ ...mutation, variables: { padding: Array(5_000).fill({}) } });
  longTest.each([
    ['REST', large, () => client.rest('POST', '/conversations', { body: `{}${' '.repeat(mebibyte - 2)}` })],
    ['GraphQL', large, () => client.post(padded)],
    ['GraphQL in a batch', large, () => client.post(`[${padded}]`)],
    ['GraphQL in short texts of very many values', effort(40, 120), () => client.post(ofManyValues)],
  ])('sent by %s', (_, count, send) => sendMany(count, send));

  test('but nothing is held for a stream', async () => {
    holdMost();
    const padding = 'x'.repeat(mebibyte - 500);
    for (let opened = 0; opened < large; opened++) {
      const { statusCode, body } = await request(`${server.url}/graphql`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${client.secret}`,
          accept: 'text/event-stream',
          'content-type': 'application/json',
        },
        body: JSON.stringify({ query: 'subscription { events { id } }', extensions: { padding } }),
      });
      onTestFinished(() => void body.on('error', () => {}).destroy());
      expect(statusCode).toBe(200);
    }
    expect((await client.post(padded)).status).toBe(200);
  });

  test('in the URL', async () => {
    const all = new RequestMemory({ account: client.account });
    all.growTo(32 * mebibyte);
    onTestFinished(() => all.release());
    const ask = async (values: number) => {
      const wire = openWire(server.url);
      const variables = `{"padding":[${Array(values).fill('{}').join(',')}]}`;
      const headers = { Authorization: `Bearer ${client.secret}` };
      await wire.send(requestText('GET', `/graphql?query={__typename}&variables=${variables}`, { headers }));
      return (await wire.response()).status;
    };
    expect([await ask(4_000), await ask(10)]).toEqual([503, 200]);
    all.release();
    expect(await ask(4_000)).toBe(200);
  });
});

test('for a client that goes while it waits to be admitted, nothing is done', async () => {
  const trial = await server.account({ plan: 'trial' }); // each of whose requests waits for a write to be admitted
  const { id } = (await trial.rest('POST', '/conversations')).body;
  const lock = new Database(server.databasePath);
  onTestFinished(() => void lock.close());
  lock.exec('BEGIN IMMEDIATE');
  const before = server.logLines.length;
  const wire = openWire(server.url);
  const path = `/v1/conversations/${id}`;
  await wire.send(requestText('DELETE', path, { headers: { Authorization: `Bearer ${trial.secret}` } }));
  await clientOf(server.url).rest('GET', '/account'); // by now the server has read what came before
  await until(() => server.storage.waitingWrites > 0);
  wire.cut();
  await wire.ended;
  await clientOf(server.url).rest('GET', '/account'); // by now the server knows
  lock.exec('COMMIT');
  await until(() => server.logLines.slice(before).some((line) => line['path'] === path));
  expect((await trial.rest('GET', `/conversations/${id}`)).status).toBe(200);
});

describe('a number in metadata that a double cannot hold', () => {
  const inexact = [
    '9007199254740993',
    '-9007199254740993',
    '1e400',
    '1e-400',
    '0.3000000000000000444',
    '12345678901234567890.5',
  ];
  const exact: [string, number][] = [
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992],
    ['0.1', 0.1],
    ['1.0', 1],
    ['1e2', 100],
    ['100e-2', 1],
    ['1E+21', 1e21],
    ['0.30000000000000004', 0.1 + 0.2],
    ['5e-324', 5e-324],
    ['-0.000', 0],
    ['0e999', 0],
  ];
  const create = 'createConversation(input:';
  const select = '{ conversation { metadata } }';
  const rest = async (number: string): Promise<Json> =>
    (await client.rest('POST', '/conversations', { body: `{"metadata":{"ok":1,"n":${number}}}` })).body;
  const asVariable = (number: string): string =>
    `{"query":"mutation ($i: CreateConversationInput!) { ${create} $i) ${select} }","variables":{"i":{"metadata":{"ok":1,"n":${number}}}}}`;
  const asLiteral = (number: string): string =>
    JSON.stringify({ query: `mutation { ${create} {metadata: {ok: 1, n: ${number}}}) ${select} }` });
  const overSocket = async (number: string): Promise<Json> => {
    const socket = await new RawSocket(server.url).init(client.secret);
    socket.socket.send(`{"id":"1","type":"subscribe","payload":${asVariable(number)}}`);
    await until(() => socket.of('1').length > 0);
    socket.socket.terminate();
    const [{ payload }] = socket.of('1');
    return Array.isArray(payload) ? { errors: payload } : payload;
  };
  const faultsAt = (pointer: string) => [{ pointer, detail: expect.stringContaining('double') }];

  test.each(inexact)('%s is VALIDATION_FAILED, on every face', async (number) => {
    expect(await rest(number)).toMatchObject({ code: 'VALIDATION_FAILED', errors: faultsAt('/metadata/n') });
    const errors = faultsAt('/input/metadata/n');
    for (const body of [
      (await client.post(asVariable(number))).body,
      (await client.post(asLiteral(number))).body,
      await overSocket(number),
    ]) {
      expect(body.errors[0].extensions).toMatchObject({ code: 'VALIDATION_FAILED', errors });
    }
  });

  test.each(['/metadata', '/visitor', '/subject'])('is refused in place of %s, too', async (pointer) => {
    for (const number of inexact) {
      const body = `{"${pointer.slice(1)}":${number}}`;
      const answer = await client.rest('POST', '/conversations', { body });
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
    }
  });

  test.each(exact)('%s is kept as %d, on every face', async (number, value) => {
    expect((await rest(number)).metadata).toEqual({ ok: 1, n: value });
    for (const body of [
      (await client.post(asVariable(number))).body,
      (await client.post(asLiteral(number))).body,
      await overSocket(number),
    ]) {
      expect(body.data.createConversation.conversation.metadata).toEqual({ ok: 1, n: value });
    }
  });
});

test('of a client without a credential no body is read', async () => {
  const anonymous = clientOf(server.url);
  const wires = await Promise.all(
    Array.from({ length: 10 }, () => begin('cs_unknown', '/v1/conversations', { 'Content-Length': String(mebibyte) })),
  );
  for (const wire of wires) expect((await answer(wire)).status).toBe(401); // before any of it was sent
  expect((await anonymous.rest('POST', '/conversations', { body: {} })).status).toBe(401);
});
