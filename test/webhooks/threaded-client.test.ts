import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { WebhookClient } from '../../src/webhooks/client.ts';
import { guardedConnector } from '../../src/webhooks/connector.ts';
import {
  type Outcome,
  ThreadedWebhookClient,
  type WebhookClientOptions,
  type WebhookRequest,
} from '../../src/webhooks/threaded-client.ts';
import { TestClock } from '../support/clock.ts';
import { longTest } from '../support/effort.ts';
import { Receiver, type Replies } from '../support/receiver.ts';
import { until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';

// The thread that sends webhooks. The requests and how responses to them are handled are tested beside it.

const clock = new TestClock();
let opened: ThreadedWebhookClient | undefined;
afterEach(() => opened?.close());

function open(options: Partial<WebhookClientOptions> = {}): ThreadedWebhookClient {
  opened = new ThreadedWebhookClient({ policy: anywhere, connectMs: 1_000, totalMs: 10_000, ...options });
  return opened;
}

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

function requestTo(url: string, changes: Partial<WebhookRequest> = {}): WebhookRequest {
  return { url, id: 'evt_1', sentMs: clock.now(), body: '{}', secrets: [secret], ...changes };
}

async function openReceiver(replies?: Replies): Promise<Receiver> {
  const receiver = await Receiver.open(clock, replies);
  for (const path of ['/', '/silent']) receiver.trust(path, secret);
  return receiver;
}

test('an invalid request fails alone, and others sent with it arrive', async () => {
  const receiver = await openReceiver();
  const client = open();
  const outcomes = await Promise.all([
    client.send(requestTo('nowhere')),
    client.send(requestTo(receiver.url, { traceparent: 'two\nlines' })),
    client.send(requestTo(receiver.url)),
  ]);
  expect(outcomes).toEqual([
    expect.objectContaining({ status: null, error: 'The request failed (ERR_INVALID_URL).', isLocalFailure: false }),
    expect.objectContaining({
      status: null,
      error: 'The request failed (UND_ERR_INVALID_ARG).',
      isLocalFailure: false,
    }),
    expect.objectContaining({ status: 204, error: null }),
  ]);
});

test('when the thread dies, all requests in flight fail as local failures, and the next one starts a new thread', async () => {
  const receiver = await openReceiver(({ path }) => (path === '/silent' ? { instead: 'hang' } : {}));
  const client = open();
  const underway = client.send(requestTo(`${receiver.url}/silent`));
  await until(() => receiver.open > 0);
  const deadly = client.send(undefined as unknown as WebhookRequest); // which makes the thread throw
  for (const outcome of await Promise.all([underway, deadly])) {
    expect(outcome).toMatchObject({ status: null, body: null, isLocalFailure: true });
    expect(outcome.error).toMatch(/^The thread that sends webhooks has ended: TypeError/);
  }
  expect(await client.send(requestTo(receiver.url))).toMatchObject({ status: 204 });
});

test('a request not yet passed to a dying thread is sent by the next one, and none is both sent and failed', async () => {
  const receiver = await openReceiver();
  const client = open();
  const deadly = client.send(undefined as unknown as WebhookRequest); // which makes the thread throw
  let isDead = false;
  void deadly.then(() => {
    isDead = true;
  });
  const sent: { id: string; outcome: Promise<Outcome> }[] = [];
  // One in each turn of the event loop, so that one is waiting whenever the end of the thread is noticed.
  for (let number = 0; !isDead; number++) {
    await nextTurn();
    const id = `evt_${number}`;
    sent.push({ id, outcome: client.send(requestTo(receiver.url, { id })) });
  }
  const arrived: string[] = [];
  for (const { id, outcome } of sent) if ((await outcome).status === 204) arrived.push(id);
  expect(receiver.deliveries.map(({ headers }) => headers['webhook-id']).sort()).toEqual(arrived.sort());
  expect(arrived.length).toBeGreaterThan(1); // the one that was waiting when the old thread ended, and the one after it
});

test('a thread that cannot be started is a local failure', async () => {
  const client = open({ nameServers: [(() => {}) as unknown as string] }); // a function cannot be cloned into a thread
  expect(await client.send(requestTo('http://127.0.0.1:9'))).toMatchObject({ status: null, isLocalFailure: true });
});

test('after giving up, requests in flight and later ones end without a response', async () => {
  const receiver = await openReceiver(() => ({ instead: 'hang' }));
  const client = open();
  const underway = client.send(requestTo(receiver.url));
  await until(() => receiver.open > 0);
  client.giveUp();
  const later = client.send(requestTo(receiver.url));
  for (const outcome of await Promise.all([underway, later])) {
    expect(outcome).toMatchObject({ status: null, error: 'No response within 10 s.' });
  }
  expect(receiver.connections).toBe(1);
});

test('giving up before the thread has started ends requests without a response, too', async () => {
  const receiver = await openReceiver();
  const client = open();
  client.giveUp();
  expect(await client.send(requestTo(receiver.url))).toMatchObject({ status: null });
  expect(receiver.connections).toBe(0);
});

longTest('each attempt has its whole time, and one that has taken it says so', async () => {
  const receiver = await openReceiver(() => ({ instead: 'hang' }));
  const client = open({ totalMs: 1_300 });
  for (let attempt = 0; attempt < 4; attempt++) {
    const { error, durationMs } = await client.send(requestTo(receiver.url));
    expect(error).toBe('No response within 1.3 s.');
    expect(durationMs).toBeGreaterThan(1_290);
  }
});

longTest('receivers that do not answer leave nothing behind, however many their names are', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const receiver = await Receiver.start(clock, () => ({ instead: 'hang' }));
  onTestFinished(() => receiver.close());
  const connector = guardedConnector(anywhere, 1_000, (_name, _options, callback) => {
    callback(null, [{ address: '127.0.0.1', family: 4 }]);
  });
  const client = new WebhookClient(connector, { totalMs: 200, maxResponseBytes: 1_000 });
  let hosts = 0;
  const attempt = (): Promise<Outcome> =>
    new Promise((resolve) => client.send(requestTo(`http://host-${hosts++}.test:${receiver.port}/silent`), resolve));
  const heapAfter = async (rounds: number): Promise<number> => {
    for (let round = 0; round < rounds; round++) {
      const outcomes = await Promise.all(Array.from({ length: 250 }, attempt));
      expect(new Set(outcomes.map(({ error }) => error))).toEqual(new Set(['No response within 0.2 s.']));
    }
    receiver.deliveries.length = 0;
    await until(() => receiver.open === 0);
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = await heapAfter(4);
  const after = await heapAfter(8);
  expect((after - before) / (8 * 250)).toBeLessThan(5_000);
});
