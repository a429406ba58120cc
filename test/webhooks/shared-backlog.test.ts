import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { type App, type AppOptions, buildApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { leaseMs } from '../../src/domain/delivery-record.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { createLog } from '../../src/server/log.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { clientOf } from '../support/client.ts';
import { TestClock } from '../support/clock.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import {
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleWebhook,
  startMs,
  storedAccount,
} from '../support/samples.ts';
import { gate, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { FastProcess, type FastServer } from './fast-server.ts';

// Several senders on one file, and a file that cannot be written for a while.

longTest(
  'two servers share a backlog and send nothing twice; what a killed one held the other sends after the lease',
  {
    timeout: 60_000,
  },
  async () => {
    const size = 2_000;
    const folder = temporaryFolder();
    const databasePath = join(folder, 'test.db');
    const processes = [new FastProcess(folder), new FastProcess(folder)];
    const storage = openSqliteStorage(databasePath);
    onTestFinished(() => storage.close());
    const receiver = await startReceiver();
    const webhook = await backlog(storage, receiver.url, size);
    const rows = rowsOf(databasePath);

    // It answers nothing until both are at it, for the first to start could be done with all before the other has.
    receiver.holds = true;
    const leases = () => rows.held().map(({ lease }) => lease);
    const bothAreAtIt = () => new Set(leases()).size === 2 && receiver.held.length === leases().length;
    const time = { startMs, wallMs: Date.now(), speed: 1 };
    const servers = await Promise.all(processes.map((process) => process.serve({ databasePath, time })));
    const [one = expect.fail(), two = expect.fail()] = servers;
    await eventually(bothAreAtIt);
    receiver.release();
    await eventually(() => receiver.arrivals.length >= size);
    await eventually(() => rows.pending() === 0);
    expect(new Set(receiver.arrivals).size).toBe(size);
    expect(receiver.arrivals).toHaveLength(size);
    await eventually(() => one.attempts() + two.attempts() === size);
    for (const server of [one, two]) expect(server.attempts()).toBeGreaterThan(0);
    expect(await storage.read.deliveries.due(startMs)).toEqual([]);

    // Now it answers nothing until one of them is killed.
    receiver.arrivals.length = 0;
    receiver.holds = true;
    const before = two.attempts();
    await webhook.add(200);
    await eventually(bothAreAtIt);
    const held = new Map(rows.held().map(({ eventId, lease }) => [eventId, lease]));
    await one.kill();
    receiver.release();
    await eventually(() => new Set(leases()).size === 1 && receiver.arrivals.length >= 200);
    const left = rows.held().map(({ eventId }) => eventId);
    await eventually(() => rows.pending() === left.length);
    expect(new Set(left.map((eventId) => held.get(eventId))).size, 'all held by the one that was killed').toBe(1);
    expect(left.length).toBeGreaterThan(0);
    expect(receiver.arrivals.toSorted(), 'nothing twice so far').toEqual([...new Set(receiver.arrivals)].toSorted());

    const elapsedMs = Date.now() - time.wallMs;
    await two.advance(29_000 - elapsedMs);
    await roundTrip(two);
    expect(receiver.arrivals, 'the lease holds').toHaveLength(200);
    await two.advance(elapsedMs + 2_000);
    await eventually(() => rows.pending() === 0);
    expect(receiver.arrivals.slice(200).toSorted()).toEqual(left.toSorted());
    await eventually(() => two.attempts() - before === 200);
  },
);

longTest(
  'what attempts have come to is recorded once a file that was locked for long can be written again',
  async () => {
    const databasePath = join(temporaryFolder(), 'test.db');
    // Writing gives up long before the lock ends.
    const storage = openSqliteStorage(databasePath, { busyTimeoutMs: 200 });
    const clock = new TestClock();
    const logged: string[] = [];
    const log = createLog({ level: 'warn', clock, destination: { write: (line: string) => void logged.push(line) } });
    const app = appOn({ storage, clock, log });
    onTestFinished(async () => {
      await app.close();
      await storage.close();
    });
    const receiver = await startReceiver();
    receiver.holds = true;
    receiver.statuses = [500, 200, 503];
    const { id: webhookId, accountId } = await backlog(storage, receiver.url, 20);
    app.webhooks.start();
    await eventually(() => receiver.held.length === 4);

    const other = new Database(databasePath);
    onTestFinished(() => void other.close());
    other.exec('BEGIN IMMEDIATE');
    receiver.release();
    await sleep(3_000);
    expect(receiver.arrivals, 'nothing is claimed in the meantime').toHaveLength(4);
    expect(logged.filter((line) => line.includes('could not record')).length).toBeGreaterThan(4);
    other.exec('COMMIT');

    const page = () => storage.read.deliveries.page(accountId, webhookId, { limit: 100, offset: 0 });
    await eventually(() => receiver.arrivals.length === 20);
    await eventually(async () => (await page()).items.every(({ isTried }) => !isTried));
    const { items } = await page();
    expect(new Set(receiver.arrivals).size, 'each was sent once').toBe(20);
    expect(items.map(({ attemptCount }) => attemptCount)).toEqual(items.map(() => 1));
    expect(items.filter(({ status }) => status === 'succeeded')).toHaveLength(18);
    const ranges = items.map(({ id }) => ({ deliveryId: id, from: 1, to: 9 }));
    const attempts = (await storage.read.deliveries.attempts(accountId, ranges)).flat();
    expect(attempts.map(({ responseStatus }) => responseStatus).toSorted()).toEqual([...Array(18).fill(200), 500, 503]);
  },
);

test('a clock that jumps over the end of a lease does not make a server send what it is sending already', async () => {
  const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'));
  const clock = new TestClock();
  const log = createLog({ level: 'silent', clock });
  const app = appOn({ storage, clock, log });
  onTestFinished(async () => {
    await app.close();
    await storage.close();
  });
  const receiver = await startReceiver();
  receiver.holds = true;
  const { id: webhookId, accountId } = await backlog(storage, receiver.url, 3);
  app.webhooks.start();
  await eventually(() => receiver.held.length === 3);
  clock.advance(31_000);
  await app.webhooks.look();
  const renewed = [{ accountId, webhookId, dueAtMs: clock.now() + 30_000 }];
  const page = async () => (await storage.read.deliveries.page(accountId, webhookId, { limit: 10, offset: 0 })).items;
  // It claims them again, so that nobody else does.
  const isRenewed = async () => isDeepStrictEqual(await storage.read.deliveries.due(clock.now()), renewed);
  await eventually(async () => receiver.arrivals.length > 3 || (await isRenewed()));
  receiver.release();
  await eventually(async () => (await page()).every(({ status }) => status !== 'pending'));
  expect(receiver.arrivals).toHaveLength(3);
  expect((await page()).map(({ attemptCount }) => attemptCount)).toEqual([1, 1, 1]);
});

test('what a killed server was sending is sent by the next one, however far the clock was set back in between', async () => {
  const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'));
  const clock = new TestClock();
  clock.nowMs = startMs + 3 * 3_600_000;
  const app = appOn({ storage, clock, log: createLog({ level: 'silent', clock }) });
  onTestFinished(async () => {
    await app.close();
    await storage.close();
  });
  const receiver = await startReceiver();
  const { id: webhookId } = await backlog(storage, receiver.url, 3);
  // All that is left of one that was killed is its claim.
  const lease = { id: 'of the dead', nowMs: clock.now(), endsMs: clock.now() + leaseMs };
  await storage.write(async (tx) => tx.deliveries.claim([{ webhookId, limit: 2 }], lease));
  clock.nowMs = startMs;
  app.webhooks.start();
  await eventually(() => receiver.arrivals.length === 3);
});

test('what is due is looked for once at a time, however long that takes and whatever happens meanwhile', async () => {
  const clock = new TestClock();
  const opened = openSqliteStorage(join(temporaryFolder(), 'test.db'));
  onTestFinished(() => opened.close());
  const answer = gate();
  const looks = { begun: 0, ended: 0 };
  let tell: Parameters<Storage['watch']>[0] = () => {};
  // A storage that takes its time, with commits of other nodes meanwhile.
  const storage: Storage = {
    ...opened,
    watch(listener) {
      tell = listener;
      return () => {};
    },
    read: {
      ...opened.read,
      deliveries: {
        ...opened.read.deliveries,
        async due() {
          looks.begun++;
          await answer.opened;
          looks.ended++;
          return [];
        },
      },
    },
  };
  const app = appOn({ storage, clock, log: createLog({ level: 'silent', clock }) });
  onTestFinished(() => app.close());
  app.webhooks.start();
  await until(() => looks.begun === 1);
  for (let count = 0; count < 20; count++) {
    tell(undefined);
    await sleep(1);
  }
  expect(looks).toEqual({ begun: 1, ended: 0 });
  answer.open();
  await until(() => looks.ended === 2); // for what happened during the first one
});

function appOn(parts: Pick<AppOptions, 'storage' | 'clock' | 'log'>): App {
  return buildApp({ ...readConfig({}), ...parts, metrics: new Metrics(), webhookPolicy: anywhere });
}

/** So many deliveries to one webhook, due at once, as events of one log. */
async function backlog(storage: Storage, url: string, count: number) {
  const { id: accountId } = await storedAccount(storage);
  const webhook = sampleWebhook({ url });
  await storage.write(async (tx) => tx.webhooks.insert(accountId, webhook));
  const conversation = sampleConversation();
  const add = (more: number): Promise<void> =>
    storage.write(async (tx) => {
      for (let index = 0; index < more; index++) {
        const event = sampleEvent(conversation);
        const eventSequence = await tx.events.append(accountId, [event]);
        await tx.deliveries.insert(accountId, sampleDelivery(webhook.id, { eventId: event.id, eventSequence }));
      }
    });
  await add(count);
  return { id: webhook.id, accountId, add };
}

/** Receives and accepts, at once or when it is told to. */
async function startReceiver() {
  const state = {
    url: '',
    /** The events that came, in their order. */
    arrivals: [] as string[],
    /** Whether answers wait. */
    holds: false,
    held: [] as ServerResponse[],
    /** What the first are answered with; the others with 200. */
    statuses: [] as number[],
    release() {
      state.holds = false;
      for (const response of state.held.splice(0)) answer(response);
    },
  };
  const answer = (response: ServerResponse): void => {
    response.writeHead(state.statuses.shift() ?? 200).end();
  };
  const server = createServer((request, response) => {
    state.arrivals.push(String(request.headers['webhook-id']));
    request.resume();
    request.on('error', () => {});
    if (state.holds) state.held.push(response);
    else answer(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return state;
}

/** What a server has begun before is done when it has answered. */
async function roundTrip(server: FastServer): Promise<void> {
  expect((await clientOf(server.url).rest('GET', '/account')).status).toBe(401);
}

/** What is said of deliveries in the file. */
function rowsOf(databasePath: string) {
  const database = new Database(databasePath, { readonly: true });
  onTestFinished(() => void database.close());
  const pending = database.prepare("SELECT count(*) FROM deliveries WHERE status = 'pending'").pluck();
  const held = database.prepare(
    'SELECT event_id AS eventId, lease FROM delivery_leases JOIN deliveries ON key = delivery_key',
  );
  return {
    pending: () => pending.get() as number,
    held: () => held.all() as { eventId: string; lease: string }[],
  };
}

/** Waits as long as the test may take. Whom it waits for needs the processor more than it does. */
async function eventually(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(20);
}
