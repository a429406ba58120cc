import { fileURLToPath } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import { type Serving, serve } from '../cli/program.ts';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { readLog } from '../support/log.ts';
import { PostgresServer } from '../support/postgres.ts';
import { startTestServer } from '../support/server.ts';
import { spend, spendAll } from '../support/spending.ts';
import { socketClient } from '../support/subscribe.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { eventually, until } from '../support/wait.ts';

// The log of an account whose clients are at several nodes on one PostgreSQL database.

const commits = 200;
/** What the budget of an account is, beside that of the one with the log. */
const limit = 320;
const jumpingClock = fileURLToPath(new URL('../support/jumping-clock.mts', import.meta.url));

async function setUp() {
  const database = await PostgresServer.start();
  onTestFinished(() => database.remove());
  const url = await database.database();
  const before = await startTestServer({ config: { postgres: { url, directUrl: undefined } } });
  const [{ secret }, spender] = [await before.account(), await before.account({ requestsPerHour: limit })];
  await before.close();
  return { url, secret, spender: spender.secret };
}

/** Notes when events come to a socket, by their conversations. */
async function subscribe(node: Serving, secret: string): Promise<ReadonlyMap<string, number>> {
  const client = socketClient(node.url, secret);
  onTestFinished(() => void client.dispose());
  const seenMs = new Map<string, number>();
  let failure: unknown;
  client.subscribe<Json>(
    { query: 'subscription { conversationStarted { conversation { id: conversationId } } }' },
    {
      next: ({ data }) => void seenMs.set(data.conversationStarted.conversation.id, performance.now()),
      error: (error) => {
        failure = error;
      },
      complete: () => {},
    },
  );
  // It is there when an event comes.
  const own = clientOf(node.url, secret);
  await eventually(
    () => own.rest('POST', '/conversations', { body: {} }),
    () => failure !== undefined || seenMs.size > 0,
  );
  expect(failure).toBeUndefined();
  return seenMs;
}

/** @returns how long it takes until those who follow see what is committed through another node, in milliseconds */
async function delays(writer: Client, seenMs: ReadonlyMap<string, number>): Promise<number[]> {
  const all: number[] = [];
  for (let count = 0; count < commits; count++) {
    const { body } = await writer.rest('POST', '/conversations', { body: {} });
    const answeredMs = performance.now();
    await until(() => seenMs.has(body.id));
    all.push(Math.max(0, (seenMs.get(body.id) ?? 0) - answeredMs));
  }
  return all.toSorted((a, b) => a - b);
}

const medianOf = (sorted: readonly number[]): number => Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0);

longTest(
  'a socket sees what is committed on another node soon, and also when no notification can reach its node',
  {
    timeout: 300_000,
  },
  async () => {
    const { url, secret } = await setUp();
    const direct = await TcpRelay.open(url);
    const one = await serve('', { DATABASE_URL: url });
    const other = await serve('', { DATABASE_URL: url, DATABASE_DIRECT_URL: direct.through(url) });
    const writer = clientOf(one.url, secret);
    const seenMs = await subscribe(other, secret);

    const told = medianOf(await delays(writer, seenMs));
    direct.remove(url);
    expect(direct.cut(), 'a connection on which it listens').toBeGreaterThan(0);
    const polled = medianOf(await delays(writer, seenMs));
    console.log(`Seen on another node after ${told} ms, and after ${polled} ms without notifications (medians).`);
    // 100 and 500 ms on a machine that has nothing else to do.
    expect(told).toBeLessThan(400);
    expect(polled).toBeLessThan(1_500);

    direct.add(url);
    await eventually(
      async () => medianOf(await delays(writer, seenMs)),
      (ms) => ms < 400,
    );
  },
);

longTest(
  'a clock that jumps on one node changes neither limits, nor the order of the log, nor what a key repeats',
  {
    timeout: 120_000,
  },
  async () => {
    const { url, secret, spender } = await setUp();
    const jumping = await serve('', { DATABASE_URL: url, NODE_OPTIONS: `--import=${jumpingClock}` });
    const right = await serve('', { DATABASE_URL: url });
    const clients = [clientOf(jumping.url, secret), clientOf(right.url, secret)] as const;
    const spenders = [clientOf(jumping.url, spender), clientOf(right.url, spender)] as const;
    const [wrong] = clients;
    const isAhead = async (): Promise<boolean> => {
      const { body } = await wrong.rest('POST', '/conversations', { body: {} });
      return Date.parse(body.createdAt) > Date.now() + 60_000;
    };
    const jump = async (): Promise<void> => {
      const before = await isAhead();
      jumping.signal('SIGUSR2');
      await eventually(isAhead, (after) => after !== before);
    };
    const { id } = (await wrong.rest('POST', '/conversations', { body: {} })).body;
    const messages: Json[] = [];
    const send = async (client: Client, content: string): Promise<void> => {
      const asked = { body: { content, sender: 'visitor' }, headers: { 'idempotency-key': content } };
      const { status, body } = await client.rest('POST', `/conversations/${id}/messages`, asked);
      expect(status).toBe(201);
      messages.push(body);
      const others = await Promise.all(
        clients.map((each) => each.rest('POST', `/conversations/${id}/messages`, asked)),
      );
      expect(others.map((again) => [again.status, again.body, again.headers['idempotent-replayed']])).toEqual(
        clients.map(() => [201, body, 'true']),
      );
    };
    let admitted = 0;
    for (let round = 0; round < 4; round++) {
      for (const [index, client] of clients.entries()) await send(client, `message-${round}-${index}`);
      for (const client of spenders) admitted += await spend(client, limit / 16);
      await jump();
    }
    for (const client of spenders) admitted += await spendAll(client);
    expect(admitted).toBeLessThanOrEqual(limit);
    // The other's last block, which it can use itself.
    for (const client of spenders) admitted += await spendAll(client);
    expect(admitted).toBe(limit);

    const log = await readLog(clients[1]);
    expect(log.map(({ sequence }) => sequence)).toEqual(log.map((_, index) => index + 1));
    const received = log.filter(({ type }) => type === 'message.received').map(({ data }) => data.message.id);
    expect(received).toEqual(messages.map((message) => message.id));
    expect(messages.map(({ sequence }) => sequence)).toEqual(messages.map((_, index) => index + 1));
    for (const of of ['id', 'createdAt']) {
      const values = messages.map((message) => message[of]);
      expect(values).toEqual(values.toSorted());
    }
  },
);
