import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import type { Letter, Outcome } from '../../src/delivery/letter.ts';
import { PostOffice, type PostOptions } from '../../src/delivery/post-office.ts';
import { TestClock } from '../support/clock.ts';
import { Receiver, type Replies } from '../support/receiver.ts';
import { until } from '../support/subscribe.ts';

// The thread that sends. What receivers are sent and may answer is in `test/webhooks`.

const clock = new TestClock();
const anywhere = { allowHttp: true, allowPrivate: true };
let post: PostOffice | undefined;
afterEach(() => post?.close());

function open(options: Partial<PostOptions> = {}): PostOffice {
  post = new PostOffice({ policy: anywhere, connectMs: 1_000, totalMs: 10_000, ...options });
  return post;
}

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

function letterTo(url: string, changes: Partial<Letter> = {}): Letter {
  return { url, id: 'evt_1', sentMs: clock.now(), body: '{}', secrets: [secret], ...changes };
}

async function openReceiver(replies?: Replies): Promise<Receiver> {
  const receiver = await Receiver.open(clock, replies);
  for (const path of ['/', '/silent']) receiver.trust(path, secret);
  return receiver;
}

test('a letter that cannot even be tried ends by itself, and those beside it arrive', async () => {
  const receiver = await openReceiver();
  const office = open();
  const outcomes = await Promise.all([
    office.send(letterTo('nowhere')),
    office.send(letterTo(receiver.url, { traceparent: 'two\nlines' })),
    office.send(letterTo(receiver.url)),
  ]);
  expect(outcomes).toEqual([
    expect.objectContaining({ status: null, error: 'The request failed (ERR_INVALID_URL).', isOurs: false }),
    expect.objectContaining({ status: null, error: 'The request failed (UND_ERR_INVALID_ARG).', isOurs: false }),
    expect.objectContaining({ status: 204, error: null }),
  ]);
});

test('when the thread dies, all that was underway has failed for a fault of ours, and the next has a new thread', async () => {
  const receiver = await openReceiver(({ path }) => (path === '/silent' ? { instead: 'hang' } : {}));
  const office = open();
  const underway = office.send(letterTo(`${receiver.url}/silent`));
  await until(() => receiver.open > 0);
  const deadly = office.send(undefined as unknown as Letter); // the thread has no guard against that
  for (const outcome of await Promise.all([underway, deadly])) {
    expect(outcome).toMatchObject({ status: null, body: null, isOurs: true });
    expect(outcome.error).toMatch(/^The thread that sends has ended: TypeError/);
  }
  expect(await office.send(letterTo(receiver.url))).toMatchObject({ status: 204 });
});

test('what was not yet with the thread when it died is sent by the next, and nothing is sent that was given back', async () => {
  const receiver = await openReceiver();
  const office = open();
  const deadly = office.send(undefined as unknown as Letter); // the thread has no guard against that
  let isDead = false;
  void deadly.then(() => {
    isDead = true;
  });
  const sent: { id: string; outcome: Promise<Outcome> }[] = [];
  // One in each turn of the event loop: whenever the end of the thread is noticed, one waits to be handed over.
  for (let number = 0; !isDead; number++) {
    await nextTurn();
    const id = `evt_${number}`;
    sent.push({ id, outcome: office.send(letterTo(receiver.url, { id })) });
  }
  const arrived: string[] = [];
  for (const { id, outcome } of sent) if ((await outcome).status === 204) arrived.push(id);
  expect(receiver.letters.map(({ headers }) => headers['webhook-id']).sort()).toEqual(arrived.sort());
  expect(arrived.length).toBeGreaterThan(1); // the one that waited when the old thread ended, and the one after it
});

test('when there is no thread to be had, that is a fault of ours', async () => {
  const office = open({ nameServers: [(() => {}) as unknown as string] }); // no thread can be given that
  expect(await office.send(letterTo('http://127.0.0.1:9'))).toMatchObject({ status: null, isOurs: true });
});

test('what is given up has no answer, nor has what is sent after that', async () => {
  const receiver = await openReceiver(() => ({ instead: 'hang' }));
  const office = open();
  const underway = office.send(letterTo(receiver.url));
  await until(() => receiver.open > 0);
  office.giveUp();
  const later = office.send(letterTo(receiver.url));
  for (const outcome of await Promise.all([underway, later])) {
    expect(outcome).toMatchObject({ status: null, error: 'No answer within 10 s.' });
  }
  expect(receiver.connections).toBe(1);
});

test('what is given up before there was a thread has no answer either', async () => {
  const receiver = await openReceiver();
  const office = open();
  office.giveUp();
  expect(await office.send(letterTo(receiver.url))).toMatchObject({ status: null });
  expect(receiver.connections).toBe(0);
});
