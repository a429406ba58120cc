import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import {
  type Outcome,
  ThreadedWebhookClient,
  type WebhookClientOptions,
  type WebhookRequest,
} from '../../src/webhooks/threaded-client.ts';
import { TestClock } from '../support/clock.ts';
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
