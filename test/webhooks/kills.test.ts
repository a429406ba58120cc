import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { expect, onTestFinished } from 'vitest';
import { clientOf, type Json } from '../support/client.ts';
import { hourMs, TestClock } from '../support/clock.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { readLog } from '../support/log.ts';
import { startTestServer } from '../support/server.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { FastProcess, type FastServer, type FastTime } from './fast-server.ts';

// A whole server, killed again and again while it sends to receivers that fail at random and while a client
// goes on writing. Its time passes faster than the wall's, all of it alike: the schedule, the lease, the
// limit of an attempt.

const kills = 50;
const speed = 15;
/** The longest that a server lives before it is killed, by the wall's clock. */
const maxLifeMs = 500;

/** One request that a receiver got. */
interface Arrival {
  readonly webhookId: string;
  readonly eventId: string;
  /** The start of the attempt in whole seconds: no two attempts of a delivery begin in the same. */
  readonly second: number;
  readonly body: Json;
  /** Which of the server's lives it was in. */
  readonly life: number;
  /** Whether it was answered 200. */
  accepted: boolean;
}

interface DeliveryRow {
  readonly webhookId: string;
  readonly eventId: string;
  readonly status: string;
  readonly lease: string | null;
}

interface AttemptRow {
  readonly webhookId: string;
  readonly eventId: string;
  readonly second: number;
  readonly status: number | null;
}

longTest(
  'a server that is killed at any instant loses no event, and repeats none but those in flight then',
  {
    timeout: 60_000 + kills * 5_000,
  },
  async () => {
    const folder = temporaryFolder();
    const databasePath = join(folder, 'test.db');
    const receiver = await startReceiver();
    const secret = await setUp(databasePath, receiver);
    const wallMs = Date.now();
    let startMs = new TestClock().now();

    // Loaded while another one serves.
    const ready = [new FastProcess(folder)];
    const live = (): { process: FastProcess; serving: Promise<FastServer | undefined> } => {
      const process = ready.pop() ?? expect.fail();
      const time: FastTime = { startMs, wallMs, speed };
      return { process, serving: process.serve({ databasePath, time }) };
    };

    const writer = new EndlessWriter(secret);
    // What was being tried when the server was killed: whatever was accepted of it then may come again.
    const inFlight: Set<string>[] = [];
    for (let kill = 0; kill < kills; kill++) {
      const { process, serving } = live();
      ready.push(new FastProcess(folder));
      void serving.then((server) => {
        writer.url = server?.url;
      });
      // Now and then it does not even come to serving; else it has to do some work first.
      if (kill % 4 !== 3) {
        await serving;
        const [written, arrived] = [writer.written + 5, receiver.arrivals.length + 50];
        while (writer.written < written || receiver.arrivals.length < arrived) await sleep(10);
      }
      await sleep(Math.random() * maxLifeMs);
      writer.url = undefined;
      await process.kill();
      await receiver.quiet();
      inFlight.push(new Set(deliveriesIn(databasePath).flatMap((row) => (row.lease === null ? [] : [nameOf(row)]))));
      receiver.life++;
      startMs += Math.random() * hourMs; // nobody was there to start it again
    }
    // In the end all goes well, and whatever is planned is due.
    await writer.stop();
    receiver.behaves = true;
    startMs += 30 * hourMs;
    const last = (await live().serving) ?? expect.fail();
    while (deliveriesIn(databasePath).some(({ status }) => status === 'pending')) await sleep(50);

    const log = await readLog(clientOf(last.url, secret));
    expect(log.map(({ sequence }) => sequence)).toEqual(log.map((_, index) => index + 1));
    expect(log.length).toBeGreaterThanOrEqual(2 * writer.written);

    const [all, messages] = ['/all', '/messages'].map((path) => receiver.webhooks.get(path) ?? '');
    const wanted = [
      ...log.map(({ id }) => nameOf({ webhookId: all ?? '', eventId: id })),
      ...log
        .filter(({ type }) => type === 'message.received')
        .map(({ id }) => nameOf({ webhookId: messages ?? '', eventId: id })),
    ].toSorted();
    const deliveries = deliveriesIn(databasePath);
    expect(deliveries.map(nameOf).toSorted(), 'one delivery of each event to each webhook').toEqual(wanted);
    expect(deliveries.filter(({ status }) => status !== 'succeeded')).toEqual([]);

    const accepted = receiver.arrivals.filter((arrival) => arrival.accepted);
    expect([...new Set(accepted.map(nameOf))].toSorted(), 'each has arrived, and nothing else').toEqual(wanted);
    const byId = new Map(log.map((event) => [event.id, event]));
    for (const { eventId, body } of receiver.arrivals) expect(body).toEqual(byId.get(eventId));

    // What was accepted is recorded as that, or it was in flight when the server was killed. That an answer
    // came too late for the server is recorded too; then it was right to try again.
    const recorded = new Map(attemptsIn(databasePath).map((row) => [placeOf(row), row]));
    const lost = accepted.filter((arrival) => !recorded.has(placeOf(arrival)));
    for (const arrival of lost) expect(inFlight[arrival.life], 'tried when killed').toContain(nameOf(arrival));
    const successes = accepted.filter((arrival) => recorded.get(placeOf(arrival))?.status === 200).map(nameOf);
    expect(successes.toSorted(), 'none is sent again after its success was recorded').toEqual(wanted);
    const seen = new Set(receiver.arrivals.map(placeOf));
    const answered = [...recorded.values()].filter(({ status }) => status !== null);
    expect(answered.filter((row) => !seen.has(placeOf(row)))).toEqual([]);
    // The test was hard enough: events came all the time, some were cut off, and receivers did fail.
    expect(log.length).toBeGreaterThan(5 * kills);
    expect(inFlight.some(({ size }) => size > 0)).toBe(true);
    expect(answered.some(({ status }) => status === 500)).toBe(true);
  },
);

/** An account with a webhook for all that happens, and one for messages. @returns its key */
async function setUp(databasePath: string, receiver: Receiver): Promise<string> {
  const server = await startTestServer({
    databasePath,
    config: { webhookPolicy: anywhere },
  });
  const account = await server.account();
  for (const [path, events] of [
    ['/all', undefined],
    ['/messages', ['message.received']],
  ] as const) {
    const { body } = await account.rest('POST', '/webhooks', { body: { url: `${receiver.url}${path}`, events } });
    receiver.webhooks.set(path, body.id);
  }
  await server.close();
  return account.secret;
}

type Receiver = Awaited<ReturnType<typeof startReceiver>>;

function nameOf({ webhookId, eventId }: { webhookId: string; eventId: string }): string {
  return `${webhookId} ${eventId}`;
}

function placeOf(attempt: { webhookId: string; eventId: string; second: number }): string {
  return `${nameOf(attempt)} ${attempt.second}`;
}

/** Receives, and fails one time of six: with 500, with a connection cut off, and with silence. */
async function startReceiver() {
  const arrivals: Arrival[] = [];
  /** Resolves when all is read that a server has sent which was killed. */
  const quiet = async (): Promise<void> => {
    do await sleep(1);
    while ((await promisify(server.getConnections.bind(server))()) > 0);
  };
  const state = { life: 0, behaves: false, url: '', arrivals, webhooks: new Map<string, string>(), quiet };
  const answer = (request: IncomingMessage, response: ServerResponse, body: string): void => {
    const arrival = {
      webhookId: state.webhooks.get(request.url ?? '') ?? 'unknown',
      eventId: String(request.headers['webhook-id']),
      second: Number(request.headers['webhook-timestamp']),
      body: JSON.parse(body) as Json,
      life: state.life,
      accepted: false,
    };
    arrivals.push(arrival);
    const die = state.behaves ? 1 : Math.random();
    if (die < 0.01) return; // and no answer ever
    if (die < 0.06) {
      request.socket.resetAndDestroy();
    } else if (die < 0.16) {
      response.writeHead(500).end('no');
    } else {
      arrival.accepted = true;
      response.writeHead(200).end('yes');
    }
  };
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => answer(request, response, body)).on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return state;
}

/** A client that writes one conversation after the other, whatever becomes of the server. */
class EndlessWriter {
  /** Where the server is; undefined while it is away. */
  url: string | undefined;
  /** How many were acknowledged. */
  written = 0;
  readonly #secret: string;
  readonly #running: Promise<void>[];
  #stopped = false;

  constructor(secret: string) {
    this.#secret = secret;
    this.#running = [this.#run(), this.#run()];
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
  }

  async #run(): Promise<void> {
    const body = { message: { content: 'Is anybody there?', sender: 'visitor' } };
    while (!this.#stopped) {
      const { url } = this;
      const answered =
        url === undefined
          ? undefined
          : await clientOf(url, this.#secret)
              .rest('POST', '/conversations', { body })
              .catch(() => undefined);
      if (answered?.status === 201) this.written++;
      await sleep(5);
    }
  }
}

function deliveriesIn(databasePath: string): DeliveryRow[] {
  return rowsOf(
    databasePath,
    `SELECT webhooks.id AS webhookId, event_id AS eventId, status, lease
     FROM deliveries JOIN webhooks ON webhooks.key = webhook_key
       LEFT JOIN delivery_leases ON delivery_key = deliveries.key`,
  );
}

function attemptsIn(databasePath: string): AttemptRow[] {
  return rowsOf(
    databasePath,
    `SELECT webhooks.id AS webhookId, event_id AS eventId, started_at / 1000 AS second, response_status AS status
     FROM attempts JOIN deliveries ON deliveries.key = delivery_key JOIN webhooks ON webhooks.key = webhook_key`,
  );
}

function rowsOf<Row>(databasePath: string, sql: string): Row[] {
  const database = new Database(databasePath, { readonly: true });
  try {
    return database.prepare(sql).all() as Row[];
  } finally {
    database.close();
  }
}
