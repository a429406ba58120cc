import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { operatorOf } from '../../src/domain/caller.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { openWire, requestText, type Wire } from '../http/wire.ts';
import type { Json } from '../support/client.ts';
import { effort, longTest } from '../support/effort.ts';
import { scrape } from '../support/metrics.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { eventually, until } from '../support/wait.ts';

// Answers that a client asks for and does not read are bounded in memory, however many it asks for, and on whatever
// connections. Whoever goes on reading gets all of them.

let server: TestServer;
let client: TestAccount;
/** A conversation of a hundred of the largest messages. */
let large: string;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  large = await conversationWith(client, 100);
});
afterAll(() => server.close());
beforeEach(() => void server.logLines.splice(0));

const mebibyte = 1024 * 1024;
const largest = '€'.repeat(16_384); // 48 KiB

async function conversationWith(account: TestAccount, messages: number, { app } = server): Promise<string> {
  const { body } = await account.rest('POST', '/conversations');
  const caller = operatorOf(account.account);
  const message = { conversationId: body.id, content: largest, sender: 'agent' } as const;
  await Promise.all(Array.from({ length: messages }, () => sendMessage.execute(app.ports, caller, message)));
  return body.id;
}

/** A connection that has asked for a hundred messages of a conversation so often, and reads nothing. */
async function askUnread(account: TestAccount, id: string, times: number): Promise<Wire> {
  const wire = openWire(server.url);
  wire.pause();
  const headers = { Authorization: `Bearer ${account.secret}` };
  await wire.send(requestText('GET', `/v1/conversations/${id}/messages?limit=100`, { headers }).repeat(times));
  return wire;
}

const answered = (): number => server.logLines.filter(({ path }) => String(path).includes('/conversations/')).length;

/** Resolves when for some turns of the loop no further request was answered. */
async function settled(): Promise<number> {
  for (let last = -1; last !== answered(); ) {
    last = answered();
    await client.rest('GET', '/account'); // what came before it is done with
    for (let turn = 0; turn < 200; turn++) await nextTurn();
  }
  return answered();
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What the whole process holds, the clients of the test included. */
function memoryBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test('of requests sent at once on a connection one is answered after the other, as the client takes the answers', async () => {
  const count = effort(12, 60);
  const wire = await askUnread(client, large, count);
  await until(() => answered() > 0);
  const sizeOfAll = count * 100 * largest.length * 3;
  expect(await settled(), 'as many as the system takes').toBeLessThan(10);
  wire.goOn();
  for (let index = 0; index < count; index++) expect((await wire.response()).status).toBe(200);
  expect(sizeOfAll).toBeGreaterThan(effort(50, 256) * mebibyte); // which it would have held
}, 60_000);

test('behind a response that does not end, no more requests are read from a connection than a bound', async () => {
  // A server of its own: it notices only by its heartbeats that the client of a connection that it does not read has gone.
  const own = await startTestServer();
  onTestFinished(() => own.close());
  const { hostname, port } = new URL(own.url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  const headers = { Authorization: `Bearer ${(await own.account()).secret}` };
  socket.write(requestText('GET', '/v1/events/stream', { headers }));
  await once(socket, 'data');
  const block = requestText('GET', '/healthz').repeat(1_000);
  const blocks = 300; // more than the kernel buffers on both sides
  for (let index = 0; index < blocks; index++) socket.write(block);
  const before = memoryBytes();
  for (let last = -1; last !== socket.writableLength; ) {
    last = socket.writableLength;
    for (let turn = 0; turn < 300; turn++) await nextTurn();
  }
  expect(socket.writableLength, 'of what the client would send').toBeGreaterThan(0.3 * blocks * block.length);
  expect((memoryBytes() - before) / mebibyte).toBeLessThan(20);
  socket.destroy(); // else the server would answer all of them before it stops
});

test('requests of which many are sent at once are all answered, in their order', async () => {
  const wire = openWire(server.url);
  for (let index = 0; index < 1_000; index++)
    await wire.send(requestText('GET', `/healthz`, { headers: { 'X-Request-Id': String(index) } }));
  for (let index = 0; index < 1_000; index++)
    expect((await wire.response()).headers['x-request-id']).toBe(String(index));
});

longTest('when too much is unread, who has most of it loses the connection that is slow for longest', async () => {
  const other = await server.account();
  const others = await conversationWith(other, 100);
  const patient = await askUnread(other, others, 1);
  await until(() => answered() === 1);
  const wires: Wire[] = [];
  const isCutOff = (): boolean => server.logLines.some(({ msg }) => String(msg).includes('slow reader'));
  while (!isCutOff() && wires.length < 100) {
    wires.push(await askUnread(client, large, 1));
    await until(() => answered() === wires.length + 1);
  }
  for (const wire of wires) wire.goOn();
  const responses = await Promise.allSettled(wires.map((wire) => wire.response()));
  const whole = responses.map(({ status }) => status === 'fulfilled');
  expect(whole, 'the oldest is cut off').toEqual(wires.map((_, index) => index > 0));
  expect(server.logLines).toContainEqual(expect.objectContaining({ level: 'warn', accountId: client.account.id }));
  patient.goOn();
  const { data } = JSON.parse((await patient.response()).body);
  expect(data).toHaveLength(100);
});

const aliases = Array.from({ length: 100 }, (_, index) => `a${index}: content`);

async function socketOf(account: TestAccount): Promise<RawSocket> {
  return await new RawSocket(server.url).init(account.secret);
}

longTest(
  'answers to events are made for a socket as it takes them, however many of its subscriptions wait',
  async () => {
    const { body } = await client.rest('POST', '/conversations');
    const socket = await socketOf(client);
    const subscriptions = effort(40, 80);
    for (let index = 0; index < subscriptions; index++)
      socket.subscribe(
        `s${index}`,
        `subscription { messageReceived { message { ${aliases.slice(0, 4).join(' ')} } } }`,
      );
    await until(() => server.app.liveLog.followers === subscriptions);
    socket.socket.pause();
    const before = memoryBytes();
    const content = { content: largest, sender: 'visitor' };
    const events = 5;
    for (let sent = 0; sent < events; sent++)
      await client.rest('POST', `/conversations/${body.id}/messages`, { body: content });
    for (let turn = 0; turn < 500; turn++) await nextTurn();
    expect((memoryBytes() - before) / mebibyte, `of ${effort(37, 75)} MiB`).toBeLessThan(effort(20, 40));
    socket.socket.resume();
    await until(() => socket.messages.filter(({ type }) => type === 'next').length === subscriptions * events);
    for (let index = 0; index < subscriptions; index++) {
      const sizes = socket.of(`s${index}`).map(({ payload }: Json) => payload.data.messageReceived.message.a3.length);
      expect(sizes).toEqual(Array.from({ length: events }, () => largest.length));
    }
  },
);

/** How many operations on sockets have been done, as far as the service is concerned. */
async function done(operation: string): Promise<number> {
  const name = `conversation_service_operations_total{face="socket",operation="${operation}",code="OK"}`;
  return (await scrape(server.url)).get(name) ?? 0;
}
const queriesDone = (): Promise<number> => done('getConversation');

longTest('queries on a socket are begun as it takes their answers, however many were sent at once', async () => {
  const id = await conversationWith(client, 1);
  const socket = await socketOf(client);
  socket.socket.pause();
  const doneBefore = await queriesDone();
  const before = memoryBytes();
  const queries = effort(8, 30);
  for (let index = 0; index < queries; index++)
    socket.subscribe(`q${index}`, `{ conversation(id: "${id}") { messages { nodes { ${aliases.join(' ')} } } } }`);
  await eventually(queriesDone, (count) => count > doneBefore);
  for (let turn = 0; turn < 500; turn++) await nextTurn();
  // Where answers come from another process, several may be under way, as many as there is room for.
  expect((await queriesDone()) - doneBefore).toBeLessThanOrEqual(3);
  expect((memoryBytes() - before) / mebibyte, `of ${effort(37, 140)} MiB`).toBeLessThan(effort(20, 40));
  socket.socket.resume();
  await until(() => socket.messages.filter(({ type }) => type === 'complete').length === queries);
  expect(socket.messages.filter(({ type }) => type === 'next')).toHaveLength(queries);
});

longTest(
  'a client on a slow line gets answers over its socket that take it longer than it may read nothing',
  async () => {
    const own = await startTestServer({ timings: { slowReaderMs: 3_000 } });
    onTestFinished(() => own.close());
    const account = await own.account();
    const id = await conversationWith(account, 80, own);
    const connecting = new RawSocket(own.url);
    onTestFinished(() => connecting.socket.terminate());
    connecting.socket.once('upgrade', ({ socket }) => {
      socket.on('data', () => {
        socket.pause();
        setTimeout(() => socket.resume(), 40); // 64 KiB each time
      });
    });
    const socket = await connecting.init(account.secret);
    const queries = 3;
    for (let index = 0; index < queries; index++)
      socket.subscribe(
        `q${index}`,
        `{ conversation(id: "${id}") { messages(first: 80) { nodes { a: content b: content } } } }`,
      );
    const isDone = (): boolean => socket.messages.filter(({ type }) => type === 'complete').length === queries;
    await Promise.race([until(isDone, 60_000), socket.closed]);
    expect(socket.messages.filter(({ type }) => type === 'next')).toHaveLength(queries);
  },
  90_000,
);

test('a client that reads nothing is closed with 4290, though it goes on sending pings', async () => {
  const own = await startTestServer({ timings: { slowReaderMs: 1_500 } });
  onTestFinished(() => own.close());
  const account = await own.account();
  const id = await conversationWith(account, 80, own);
  const reader = await new RawSocket(own.url).init(account.secret);
  const { socket, closed } = reader;
  onTestFinished(() => socket.terminate());
  socket.pause();
  const query = `{ conversation(id: "${id}") { messages(first: 80) { nodes { a: content b: content } } } }`; // 8 MB
  for (const operation of ['a', 'b', 'c']) reader.subscribe(operation, query);
  const pinging = setInterval(() => socket.ping(), 100);
  onTestFinished(() => clearInterval(pinging));
  await until(() => own.app.sessions.size === 0);
  socket.resume();
  expect((await closed).code).toBe(4290);
});

test('an operation that waits behind unread answers is not done once its key was revoked', async () => {
  const id = await conversationWith(client, 1);
  const { body: made } = await client.rest('POST', '/api-keys', { body: { name: 'leaked' } });
  const socket = await new RawSocket(server.url).init(made.secret);
  const send = (content: string): void =>
    socket.subscribe(
      content,
      `mutation { sendMessage(input: {conversationId: "${id}", content: "${content}", sender: AGENT}) { eventCursor } }`,
    );
  socket.socket.pause();
  const doneBefore = await queriesDone();
  const sentBefore = await done('sendMessage');
  for (let index = 0; index < 10; index++)
    socket.subscribe(`q${index}`, `{ conversation(id: "${id}") { messages { nodes { ${aliases.join(' ')} } } } }`);
  send('late');
  await eventually(queriesDone, (count) => count > doneBefore);
  send('later'); // it cannot even be read
  for (let turn = 0; turn < 200; turn++) await nextTurn();
  const { status } = await client.rest('DELETE', `/api-keys/${made.id}`);
  expect(status).toBe(204);
  // Where the answers to queries come from another process, what was sent with them may be done before the first is there.
  const sent = (await done('sendMessage')) - sentBefore;
  expect(sent).toBeLessThan(2);
  socket.socket.resume();
  await socket.closed;
  for (let turn = 0; turn < 200; turn++) await nextTurn();
  expect((await client.rest('GET', `/conversations/${id}`)).body.messages).toHaveLength(1 + sent);
});

test('of a conversation that is taken slowly, nothing more is read once the key was revoked', async () => {
  const { body: made } = await client.rest('POST', '/api-keys', { body: { name: 'leaked' } });
  const { body: long } = await client.rest('POST', '/conversations');
  const caller = operatorOf(client.account);
  // In JSON each of its characters takes two bytes: 16 MiB, more than the kernel buffers of what is not read.
  const message = { conversationId: long.id, content: '"'.repeat(16_384), sender: 'agent' } as const;
  await Promise.all(Array.from({ length: 500 }, () => sendMessage.execute(server.app.ports, caller, message)));
  const ask = async (): Promise<Wire> => {
    const wire = openWire(server.url);
    wire.pause();
    const headers = { Authorization: `Bearer ${made.secret}`, Connection: 'close' };
    await wire.send(requestText('GET', `/v1/conversations/${long.id}`, { headers }));
    return wire;
  };
  const wire = await ask();
  const askedAtMs = performance.now();
  await settled();
  expect((await client.rest('DELETE', `/api-keys/${made.id}`)).status).toBe(204);
  await until(() => performance.now() - askedAtMs > 150); // before, no credential is looked up again
  wire.goOn();
  await wire.ended;
  await expect(wire.response().then(({ body }) => body.length)).rejects.toThrow('The connection ended');
  expect(server.logLines.filter(({ level }) => level === 'error')).toEqual([]);
});
