import { readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { serve } from '../cli/program.ts';
import { openWire, requestText } from '../http/wire.ts';
import { clientOf, type Json } from '../support/client.ts';
import { longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { Random } from '../support/random.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';
import { accountsIn } from './accounts.ts';
import { fileDatabase } from './databases.ts';
import { type ProcessState, probeOf } from './process-probe.ts';

// A server under a mixed load for a while: clients of all kinds that come, work, and go, not all of them politely.
// What it holds on to must be what it held before, and not a bit more for each that has come and gone.

const soakMs = 600_000;
const workers = 6;
/** Between two visits of a worker: others want the machine, too. */
const pauseMs = 20;
const mebibyte = 1024 * 1024;

interface Sample extends ProcessState {
  readonly descriptors: number;
  readonly logBytes: number;
}

test('what it holds levels off, whoever comes and goes: memory, descriptors, timers and the write-ahead log', {
  timeout: soakMs + 120_000,
}, async () => {
  const folder = temporaryFolder();
  const databasePath = join(folder, 'test.db');
  const probe = probeOf(folder);
  const [secret = ''] = await accountsIn(fileDatabase(databasePath), 1);
  const server = await serve(databasePath, {
    ...probe.environment,
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true',
  });
  const receiver = await startReceiver();
  const client = clientOf(server.url, secret);
  await client.rest('POST', '/webhooks', { body: { url: receiver.url } });

  let stopped = false;
  let visits = 0;
  const run = async (index: number): Promise<void> => {
    const random = new Random(index, 0);
    for (; !stopped; visits++) {
      await random.pick(kinds)({ url: server.url, secret, random });
      await sleep(pauseMs);
    }
  };
  const running = Promise.all(Array.from({ length: workers }, (_, index) => run(index)));
  const samples: Sample[] = [];
  const endMs = performance.now() + soakMs;
  // It is as large as it will be when all is loaded and compiled: that is the first third.
  for (let nextMs = performance.now(); performance.now() < endMs; nextMs += soakMs / 30) {
    await sleep(Math.max(0, nextMs - performance.now()));
    const descriptors = readdirSync(`/proc/${server.pid}/fd`).length;
    samples.push({ ...(await probe.ask()), descriptors, logBytes: statSync(`${databasePath}-wal`).size });
  }
  stopped = true;
  await running;

  const third = Math.floor(samples.length / 3);
  const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)];
  const most = (of: readonly Sample[], what: (sample: Sample) => number): number => Math.max(...of.map(what));
  const grown = (what: (sample: Sample) => number): number => most(last, what) - most(middle, what);
  const timers = ({ resources }: Sample): number => resources['Timeout'] ?? 0;
  const handles = ({ resources }: Sample): number =>
    Object.values(resources).reduce((sum, count) => sum + count, 0) - (resources['Timeout'] ?? 0);
  const told = `${visits} visits, ${JSON.stringify(samples.map(({ stalls: _, ...sample }) => sample))}`;
  // What the last third may have more than the one before: in a short run code is still being compiled, and in a long
  // one the bounded caches of what was read are still being filled. The visits of a third are 20,000 then.
  expect(grown(({ heapBytes }) => heapBytes) / mebibyte, `heap after a collection: ${told}`).toBeLessThan(12);
  expect(grown(({ rssBytes }) => rssBytes) / mebibyte, `resident memory: ${told}`).toBeLessThan(64);
  expect(
    grown(({ descriptors }) => descriptors),
    `descriptors: ${told}`,
  ).toBeLessThan(25);
  expect(grown(timers), `timers: ${told}`).toBeLessThan(40);
  expect(grown(handles), `handles: ${told}`).toBeLessThan(40);
  expect(most(last, ({ logBytes }) => logBytes) / mebibyte, `the write-ahead log: ${told}`).toBeLessThan(32);
  expect(receiver.received(), 'webhooks came').toBeGreaterThan(0);

  // And when all have gone, nothing of them is left.
  const left = async (): Promise<Json> => {
    const metrics = await scrape(server.url);
    return ['sessions', 'subscribers', 'writer_queue'].map((name) => metrics.get(`conversation_service_${name}`));
  };
  let now = await left();
  for (let patience = 100; patience > 0 && now.some((value: number) => value !== 0); patience--) {
    await sleep(50);
    now = await left();
  }
  expect(now, 'no session, no follower, no write is left').toEqual([0, 0, 0]);
  server.signal('SIGTERM');
  const { code, stdout } = await server.ended;
  expect(code).toBe(0);
  expect(stdout.split('\n').filter((line) => /"level":"(error|fatal)"/.test(line))).toEqual([]);
});

interface Visit {
  readonly url: string;
  readonly secret: string;
  readonly random: Random;
}

/** One visit each, and how it ends. */
const kinds: readonly ((visit: Visit) => Promise<void>)[] = [
  async function writesAndErases({ url, secret, random }) {
    const client = clientOf(url, secret);
    const body = { message: { content: 'Where is it?', sender: 'visitor' } };
    const { id } = (await client.rest('POST', '/conversations', { body })).body;
    await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'Here.', sender: 'agent' } });
    await client.rest('GET', '/conversations?limit=20');
    if (random.chance(0.9)) await client.rest('DELETE', `/conversations/${id}`);
  },
  async function asksByGraphQL({ url, secret, random }) {
    const client = clientOf(url, secret);
    // Documents that nobody sends twice must not be kept for ever.
    await client.graphql(`{ a${random.below(1_000_000)}: conversations(first: 5) { nodes { id subject } } }`);
    await client.graphql('mutation { captureLead(input: {email: "ada@example.com"}) { lead { id } } }');
  },
  async function followsByEventStream({ url, secret, random }) {
    const reader = await SseReader.open(`${url}/v1/events/stream`, { authorization: `Bearer ${secret}` });
    await until(() => reader.blocks.length > 0 || reader.ended);
    if (random.chance(0.5)) await clientOf(url, secret).rest('POST', '/leads', { body: { phone: '1' } });
    reader.close();
  },
  async function followsBySocket({ url, secret, random }) {
    const socket = await new RawSocket(url).init(secret);
    for (let count = 1 + random.below(4); count > 0; count--)
      socket.subscribe(String(count), 'subscription { events { id } }');
    await clientOf(url, secret).rest('POST', '/leads', { body: { phone: '1' } });
    await until(() => socket.messages.some(({ type }) => type === 'next') || random.chance(0.01));
    // Some say goodbye, and some are just gone.
    if (random.chance(0.3)) socket.send({ id: '1', type: 'complete' });
    if (random.chance(0.5)) socket.socket.close();
    else socket.socket.terminate();
    await socket.closed;
  },
  async function leavesInTheMiddle({ url, secret, random }) {
    const headers = { authorization: `Bearer ${secret}` };
    const text = requestText('POST', '/v1/conversations', { headers, body: '{"subject":"Parcel"}' });
    const wire = openWire(url);
    await wire.send(text.slice(0, random.below(text.length)));
    wire.cut();
  },
  async function isRefused({ url, secret }) {
    await clientOf(url, secret).rest('GET', '/conversations?limit=0');
    const socket = new RawSocket(url);
    await socket.opened();
    socket.send({ type: 'connection_init', payload: { authorization: 'Bearer no' } });
    await socket.closed;
  },
];

/** A receiver of webhooks that fails one time of ten. */
async function startReceiver(): Promise<{ url: string; received(): number }> {
  let received = 0;
  const server = createServer((req, res) => {
    req.resume().on('end', () => {
      received++;
      res.writeHead(received % 10 === 0 ? 500 : 204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, received: () => received };
}
