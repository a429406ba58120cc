import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { effort, longTest } from '../support/effort.ts';
import { sampleConversation, sampleEvent } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { watchTimers } from '../support/timers.ts';
import { eventually, until } from '../support/wait.ts';

// A thousand sockets at once: each has what is its own, and nothing is left of them.

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(() => server.close());

const query = 'subscription ($after: String) { events(after: $after) { accountId sequence } }';

/** A socket that keeps of its events only what shows that they are right. */
class Subscriber {
  readonly client: TestAccount;
  readonly socket: WebSocket;
  /** Of each subscription the last sequence that it was given. */
  readonly lasts = new Map<string, number>();
  readonly faults: unknown[] = [];
  acknowledged = false;
  #nextId = 1;

  constructor(client: TestAccount) {
    this.client = client;
    this.socket = new WebSocket(`${server.url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws');
    this.socket.on('error', () => {});
    this.socket.on('open', () => {
      this.#send({ type: 'connection_init', payload: { authorization: `Bearer ${client.secret}` } });
    });
    this.socket.on('message', (data) => this.#receive(JSON.parse(String(data))));
  }

  subscribe(): void {
    if (this.acknowledged) this.#send({ id: `${this.#nextId++}`, type: 'subscribe', payload: { query } });
  }

  complete(): void {
    const [id] = this.lasts.keys();
    if (id !== undefined) this.#send({ id, type: 'complete' });
  }

  #receive({
    type,
    id,
    payload,
  }: {
    type: string;
    id: string;
    payload?: { data?: { events: { accountId: string; sequence: number } } };
  }): void {
    if (type === 'connection_ack') {
      this.acknowledged = true;
      this.subscribe();
      return;
    }
    const event = payload?.data?.events;
    const last = this.lasts.get(id);
    const expected = last === undefined ? event?.sequence : last + 1;
    if (event === undefined || event.sequence !== expected || event.accountId !== this.client.account.id) {
      this.faults.push({ type, id, payload, last });
    } else {
      this.lasts.set(id, event.sequence);
    }
  }

  #send(message: object): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}

async function openMany(client: TestAccount, count: number): Promise<Subscriber[]> {
  const subscribers = Array.from({ length: count }, () => new Subscriber(client));
  onTestFinished(() => {
    for (const { socket } of subscribers) socket.terminate();
  });
  await until(() => subscribers.every(({ acknowledged }) => acknowledged));
  return subscribers;
}

async function writeEvent({ account }: TestAccount): Promise<void> {
  await server.app.ports.storage.write(async (tx) => {
    await tx.events.append(account.id, [sampleEvent(sampleConversation())]);
  });
}

/** A token that is bound to a visitor. */
async function tokenOf({ rest }: TestAccount, visitor: string): Promise<string> {
  const { body } = await rest('POST', '/tokens', { body: { scopes: ['events:read'], visitor: { id: visitor } } });
  return body.token;
}

/** What a page of a visitor holds open. @returns the status */
async function openStream(token: string): Promise<number> {
  const reader = await SseReader.open(`${server.url}/v1/events/stream`, { authorization: `Bearer ${token}` });
  onTestFinished(() => reader.close());
  return reader.status;
}

/** Takes so many places for the agents of an account, and as many for visitors, of whom each has twenty. */
async function takePlaces({ account, rest }: TestAccount, count: number): Promise<void> {
  const [key] = (await rest('GET', '/api-keys')).body.data;
  const caller: Caller = { account, keyId: key.id, credential: 'key', scopes: new Set(scopes) };
  for (let place = 0; place < count; place++) {
    const visitor = { id: `visitor-${Math.floor(place / 20)}`, name: null, email: null };
    for (const each of [caller, { ...caller, visitor }]) {
      const session = { endSession() {} };
      server.app.sessions.open(each, session);
      onTestFinished(() => void server.app.sessions.close(each, session));
    }
  }
}

test('an account has places for 1,000 sockets and streams, of which its bound tokens may have half: the next socket is closed with 4429, the next stream is QUOTA_EXCEEDED, and those of other accounts open', async () => {
  const [client, other] = [await server.account(), await server.account()];
  const taken = effort(480, 0); // of each half, by what is neither a socket nor a stream
  await takePlaces(client, taken);
  for (let visitor = taken / 20; visitor < 25; visitor++) {
    const token = await tokenOf(client, `visitor-${visitor}`);
    for (let count = 0; count < 20; count++) expect(await openStream(token)).toBe(200);
  }
  expect(await openStream(await tokenOf(client, 'one more'))).toBe(409);
  const subscribers = await openMany(client, 500 - taken); // the agents always find a place
  const closed = async (socket: WebSocket): Promise<unknown> => (await once(socket, 'close'))[0];
  expect(await closed(new Subscriber(client).socket)).toBe(4429);
  const stream = await client.rest('GET', '/events/stream');
  expect([stream.status, stream.body.code]).toEqual([409, 'QUOTA_EXCEEDED']);
  const overSse = await client.post({ query }, { headers: { accept: 'text/event-stream' } });
  expect(overSse.body).toContain('QUOTA_EXCEEDED');

  const [foreign] = await openMany(other, 1);
  await until(() => server.app.liveLog.followers === 1_001 - 2 * taken);
  await writeEvent(client);
  await writeEvent(other);
  await until(() => [...subscribers, foreign].every((subscriber) => subscriber?.lasts.size === 1));

  // One that goes makes room for one.
  subscribers[10]?.socket.close();
  await until(() => server.app.sessions.size === 1_000);
  const [late] = await openMany(client, 1);
  expect(late?.acknowledged).toBe(true);
  expect(await closed(new Subscriber(client).socket)).toBe(4429);
});

test('tokens that are bound to the same may have 20 sockets and streams, which keeps nobody else out', async () => {
  const client = await server.account();
  for (let count = 0; count < 20; count++) expect(await openStream(await tokenOf(client, 'ada'))).toBe(200);
  expect(await openStream(await tokenOf(client, 'ada'))).toBe(409);
  const socket = await new RawSocket(server.url).opened();
  socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${await tokenOf(client, 'ada')}` } });
  expect(await socket.closed).toMatchObject({ code: 4429 });
  expect(await openStream(await tokenOf(client, 'grace'))).toBe(200);
  await openMany(client, 1);
});

longTest('a server that stops closes each of its sockets with 1012, however many there are', async () => {
  const accounts = [await server.account(), await server.account()];
  const subscribers = (await Promise.all(accounts.map((account) => openMany(account, 600)))).flat();
  const closed = Promise.all(subscribers.map(async ({ socket }) => (await once(socket, 'close'))[0]));
  await server.close();
  expect([...new Set(await closed)]).toEqual([1012]);
  server = await startTestServer();
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function memoryMegabytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 1024 / 1024;
}

/** Numbers from 0 to 1, the same ones each time (mulberry32). */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Opens and closes sockets in random order, around so many at once, while events happen. */
async function churn(
  clients: readonly TestAccount[],
  { atOnce, steps, seed }: { atOnce: number; steps: number; seed: number },
): Promise<void> {
  const random = numbersFrom(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const live: Subscriber[] = [];
  const faults: unknown[] = [];
  const take = (): Subscriber => live.splice(Math.floor(random() * live.length), 1)[0] as Subscriber;
  const end = (subscriber: Subscriber): void => {
    faults.push(...subscriber.faults);
    if (random() < 0.5) subscriber.socket.close();
    else subscriber.socket.terminate();
  };

  while (live.length < atOnce) live.push(new Subscriber(pick(clients)));
  await until(() => server.app.sessions.size === atOnce);
  for (let step = 0; step < steps; step++) {
    const action = random();
    // Some are closed while they are being opened.
    if (action < 0.4) live.push(new Subscriber(pick(clients)));
    else if (action < 0.8) end(take());
    else if (action < 0.9) pick(live).subscribe();
    else pick(live).complete();
    if (step % 20 === 0) await writeEvent(pick(clients));
    if (step % 5 === 0) await nextTurn();
  }
  await until(() => live.every(({ acknowledged }) => acknowledged));
  while (live.length > 0) end(take());
  await until(() => server.app.sessions.size === 0 && server.app.liveLog.followers === 0);
  expect(faults).toEqual([]);
}

longTest(
  'hundreds of sockets opened and closed in random order leave no session, timer, warning or memory behind',
  async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    await server.app.webhooks.stop(0); // it looks around by a timer of its own, whatever sockets do
    const clients = await Promise.all(Array.from({ length: 5 }, () => server.account()));
    await churn(clients, { atOnce: effort(100, 200), steps: effort(100, 200), seed: 1 }); // what is made once is made by now

    const resources = process.getActiveResourcesInfo().length;
    const before = memoryMegabytes();
    await churn(clients, { atOnce: effort(80, 1_000), steps: effort(100, 1_500), seed: 2 });
    await until(() => process.getActiveResourcesInfo().length <= resources);
    expect(memoryMegabytes() - before).toBeLessThan(effort(1, 10));

    const timers = watchTimers(); // from here on, since to watch costs more than what is watched
    await churn(clients, { atOnce: effort(20, 50), steps: effort(80, 200), seed: 3 });
    // That of the log runs for a second after a refusal; a statement of PostgreSQL, of whoever sends one just now, has one.
    const left = async () => (await timers.left()).filter((setter) => !setter.includes('RequestLog'));
    await eventually(left, (setters) => setters.length === 0);
    expect(warnings).toEqual([]);
    expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
  },
  60_000,
);
