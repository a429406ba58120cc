import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { heldByMessages, Inbox, type InboxSocket, type Message } from '../../src/graphql/socket/inbox.ts';
import { HeldMemory, type Owner } from '../../src/runtime/held-memory.ts';

// What a socket has sent waits for turns of its account and for the admission of its operations, in bounded memory.

const many = 32;

/** A socket that counts the messages that cost nothing. */
class TestSocket implements InboxSocket {
  readonly turns: string;
  readonly owner: Owner;
  readonly handle: (content: unknown) => Promise<void>;
  free = 0;
  constructor(handle: (content: unknown) => Promise<void>, account = 'account') {
    this.handle = handle;
    this.turns = account;
    this.owner = { name: account };
  }
  read(text: string): Message {
    const [type = '', id = '', size = '0'] = text.split(' ');
    return { type, id, content: text, size: Number(size) };
  }
  refusals = 0;
  refuse(): void {
    this.refusals++;
  }
  regulate(): void {}
  countFree(): void {
    this.free++;
  }
}

const forever = (): Promise<void> => new Promise(() => {});

/** Waits until all that can be done has been: on a busy machine each turn of the event loop may do little. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 100; turn++) await nextTurn();
}

/** An inbox with so many operations that are not admitted. */
async function crowded(count: number) {
  const operations = Array.from({ length: count }, () => Promise.withResolvers<void>());
  const handled: unknown[] = [];
  const inbox = new Inbox(
    new TestSocket((content) => operations[handled.push(content) - 1]?.promise ?? forever()),
    new HeldMemory(heldByMessages),
  );
  for (const index of operations.keys()) inbox.take(`subscribe ${index}`);
  await settled();
  const end = async (index: number): Promise<void> => {
    operations[index]?.resolve();
    await settled();
  };
  return { inbox, handled, end };
}

test('with more than 32 messages that wait reading pauses, and goes on when an operation is admitted or refused', async () => {
  const { inbox, end } = await crowded(many + 1);
  expect(inbox.pauses).toBe(true);
  expect(inbox.makeRoom('7', 'subscription')).toBe(true);
  expect(inbox.pauses).toBe(false);
  inbox.take('subscribe next');
  expect(inbox.pauses).toBe(true);
  await end(3);
  expect(inbox.pauses).toBe(false);
  await end(7);
  inbox.take('subscribe last');
  expect(inbox.pauses, 'one that had been admitted makes no more room when it ends').toBe(true);
});

test('what comes while many operations are not admitted is not even read', async () => {
  const { inbox, handled, end } = await crowded(many);
  inbox.take('ping');
  await settled();
  expect(handled).toHaveLength(many);
  await end(0);
  expect(handled.slice(many)).toEqual(['ping']);
});

test('messages of a socket are handled in order, and by turns with those of other accounts', async () => {
  const handled: unknown[] = [];
  const handler = async (message: unknown): Promise<void> => void handled.push(message);
  const busy = new Inbox(new TestSocket(handler, 'busy'), new HeldMemory(heldByMessages));
  for (let index = 0; index < 50; index++) busy.take(`ping ${index}`);
  new Inbox(new TestSocket(handler, 'quiet'), new HeldMemory(heldByMessages)).take('hello');
  await settled();
  expect(handled.indexOf('hello')).toBeLessThanOrEqual(2);
  expect(handled.filter((each) => each !== 'hello')).toEqual(Array.from({ length: 50 }, (_, index) => `ping ${index}`));
});

test('messages cost nothing unless they ask for an operation, or end one', async () => {
  const socket = new TestSocket(forever);
  const inbox = new Inbox(socket, new HeldMemory(heldByMessages));
  const free = async (...texts: string[]): Promise<number> => {
    socket.free = 0;
    for (const text of texts) inbox.take(text);
    await settled();
    return socket.free;
  };
  expect(await free('subscribe 1', 'subscribe 2', 'complete 1')).toBe(0);
  expect(await free('ping', 'pong', 'other', 'complete 3', 'complete 1')).toBe(5);
});

test('of an account, no more text waits than a bound, nor than half of what is left: the next finds room, too', () => {
  const waiting = new HeldMemory(heldByMessages);
  const mebibyte = 1024 * 1024;
  const takenBy = (name: string): number => {
    let taken = 0;
    while (waiting.add({ name }, mebibyte)) taken++;
    return taken;
  };
  expect(takenBy('one')).toBe(16);
  expect(['two', 'three', 'four', 'five', 'six'].map(takenBy)).toEqual([16, 16, 8, 4, 2]);
  waiting.remove({ name: 'one' }, 2 * mebibyte);
  expect(['five', 'one'].map(takenBy)).toEqual([0, 0]); // they have as much as is left
  expect(takenBy('six')).toBe(1);
});

test('an inbox that is cleared leaves nothing behind in what is counted', async () => {
  const waiting = new HeldMemory(heldByMessages);
  const inbox = new Inbox(new TestSocket(async () => {}), waiting);
  const half = 'x'.repeat(8 * 1024 * 1024);
  expect([half, half, half].map((text) => inbox.take(text))).toEqual([true, true, false]);
  inbox.clear();
  expect(waiting.add({ name: 'account' }, 16 * 1024 * 1024)).toBe(true);
});

test('what was parsed of an operation counts until it has ended, and of a subscription until it is admitted', async () => {
  const mebibyte = 1024 * 1024;
  const [query, subscription] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const lasting = [query.promise, subscription.promise];
  const begun: unknown[] = [];
  const socket = new TestSocket(async (content) => lasting[begun.push(content) - 1]);
  const held = new HeldMemory(heldByMessages);
  const inbox = new Inbox(socket, held);
  const roomFor = (mebibytes: number): boolean => {
    const hasRoom = held.add({ name: 'account' }, mebibytes * mebibyte);
    if (hasRoom) held.remove({ name: 'account' }, mebibytes * mebibyte);
    return hasRoom;
  };
  inbox.take(`subscribe query ${7 * mebibyte}`);
  inbox.take(`subscribe subscription ${7 * mebibyte}`);
  await settled();
  inbox.take(`subscribe large ${3 * mebibyte}`);
  await settled();
  expect([socket.refusals, begun.length]).toEqual([1, 2]);
  inbox.take('subscribe ordinary 2000');
  await settled();
  expect([socket.refusals, begun.slice(2)]).toEqual([1, ['subscribe ordinary 2000']]);
  inbox.makeRoom('query', 'answer');
  expect([roomFor(2), roomFor(3)]).toEqual([true, false]);
  inbox.makeRoom('subscription', 'subscription');
  expect([roomFor(9), roomFor(10)]).toEqual([true, false]);
  query.resolve();
  subscription.resolve();
  await settled();
  expect([roomFor(16), roomFor(17)]).toEqual([true, false]);
});
