import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { LoadShedder } from '../../src/access/load-shedder.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { Scheduler } from '../../src/runtime/scheduler.ts';

// What is let in while there is time for it, and what is refused. Time passes as the work here says;
// test/reliability/overload.test.ts tries the same with a whole server, whose work takes real time.

beforeAll(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterAll(() => void vi.useRealTimers());

const noWrites = { waitingWrites: 0, writeWaitMs: 0 };

/** Who asks, and for what. */
interface Asking {
  readonly accountId?: string;
  readonly isRead?: boolean;
}

/** A load shedder before work that holds the loop for so long each. */
function workplace(eachMs: number, { waitingWrites, writeWaitMs } = noWrites) {
  const told: number[] = [];
  const loadShedder = new LoadShedder({
    scheduler: new Scheduler(),
    storage: { waitingWrites, writeWaitMs: () => writeWaitMs },
    onRefusal: (refused) => told.push(refused),
  });
  const done: number[] = [];
  let number = 0;
  const place = {
    loadShedder,
    told,
    /** In the order in which they were let in. */
    done,
    /** So many at once, each coming when the one before has got as far as it gets. */
    async askAll(count: number, asking: Asking = {}): Promise<Promise<'done' | DomainError>[]> {
      const asked: Promise<'done' | DomainError>[] = [];
      for (; asked.length < count; await microtasks()) asked.push(place.ask(asking));
      return asked;
    },
    async ask({ accountId = 'account', isRead = false }: Asking = {}): Promise<'done' | DomainError> {
      const own = number++;
      try {
        await loadShedder.enter(accountId, isRead ? 'read' : 'write');
      } catch (error) {
        return error as DomainError;
      }
      hold(eachMs);
      done.push(own);
      return 'done';
    },
  };
  return place;
}

/** Resolves when no microtask is left. */
function microtasks(): Promise<void> {
  return new Promise((resolve) => queueMicrotask(() => process.nextTick(resolve)));
}

/** Holds the loop, so that nothing else happens meanwhile. */
function hold(ms: number): void {
  vi.advanceTimersByTime(ms);
}

const isRefused = (answer: unknown): boolean => answer instanceof DomainError;

test('256 who wait for their answers are never refused, however long each takes', async () => {
  const { askAll, loadShedder } = workplace(2);
  const answers = await Promise.all(await askAll(256));
  expect(answers.filter(isRefused)).toEqual([]);
  expect(loadShedder.refused).toBe(0);
});

test('what comes at once is let in in the order of its coming, and the loop turns in between', async () => {
  const { askAll, done } = workplace(1);
  let turns = 0;
  let over = false;
  const turning = (async () => {
    for (; !over; turns++) await nextTurn();
  })();
  await Promise.all(await askAll(200));
  over = true;
  await turning;
  expect(done).toEqual(Array.from({ length: 200 }, (_, index) => index));
  expect(turns).toBeGreaterThan(20);
});

test('who only reads does not wait for all who write, nor they for all who read', async () => {
  const { askAll, done } = workplace(1);
  const writing = await askAll(50);
  const reading = await askAll(20, { isRead: true });
  await Promise.all([...writing, ...reading]);
  const isRead = done.map((number) => number >= 50);
  const lastRead = isRead.lastIndexOf(true);
  expect(isRead.slice(0, lastRead).filter((read) => !read).length).toBeLessThan(30);
  expect(isRead.slice(isRead.indexOf(true), lastRead).some((read) => !read)).toBe(true);
});

test('when there is more than a second’s work, who comes is refused at once with Retry-After, and who has waited is let in', async () => {
  const { ask, askAll, done, loadShedder, told } = workplace(4);
  const waiting: Promise<unknown>[] = [];
  const startedMs = performance.now();
  let refusal: unknown;
  while (refusal === undefined) {
    const spentMs = performance.now() - startedMs;
    expect(spentMs, 'it refuses in the end').toBeLessThan(10_000);
    // More come than are let in, so that some 400 wait: 1.6 s of work.
    waiting.push(...(await askAll(Math.max(0, 400 + done.length - waiting.length))));
    await nextTurn();
    const late = ask();
    const answer = await Promise.race([late, nextTurn()]);
    if (isRefused(answer)) refusal = answer;
    else waiting.push(late);
  }
  expect(performance.now() - startedMs, 'but not before it has been so for a while').toBeGreaterThan(450);
  expect(refusal).toMatchObject({ code: 'UNAVAILABLE', facts: { retryAfterSeconds: 1 } });
  const answers = await Promise.all(waiting);
  expect(answers.filter((answer) => answer === 'done').length).toBeGreaterThan(256);
  expect(await ask()).toBe('done');
  expect(loadShedder.refused).toBe(1 + answers.filter(isRefused).length);
  expect(told).toEqual([1]); // at first; the others in ten seconds
});

test('many quick ones at once are let in, also right after a stall', async () => {
  const { askAll } = workplace(0);
  for (let round = 0; round < 2; round++) {
    const asked = await askAll(1_000);
    hold(300); // as by a garbage collection
    const more = await askAll(1_000);
    expect((await Promise.all([...asked, ...more])).filter(isRefused)).toEqual([]);
  }
});

test('writes that wait for a lock of another process are no backlog, and those that take long are', async () => {
  const locked = workplace(0, { waitingWrites: 5_000, writeWaitMs: 500 });
  expect(await locked.ask()).toBe('done');
  const slow = workplace(0, { waitingWrites: 300, writeWaitMs: 1_100 });
  expect(await slow.ask()).toBe('done');
  hold(600);
  expect(isRefused(await slow.ask())).toBe(true);
  const few = workplace(0, { waitingWrites: 100, writeWaitMs: 1_100 });
  expect(await few.ask()).toBe('done');
  hold(600);
  expect(await few.ask()).toBe('done');
});

test('a credential that was refused is refused for a moment without being looked up, and others are not', async () => {
  const slow = workplace(0, { waitingWrites: 300, writeWaitMs: 1_100 });
  expect(await slow.ask()).toBe('done');
  hold(600);
  slow.loadShedder.refuseAgain('Bearer one');
  expect(() => slow.loadShedder.enter('account', 'write', 'Bearer one')).toThrow(DomainError);
  expect(() => slow.loadShedder.refuseAgain('Bearer one')).toThrow(DomainError);
  slow.loadShedder.refuseAgain('Bearer other');
  slow.loadShedder.refuseAgain(undefined);
  hold(110);
  slow.loadShedder.refuseAgain('Bearer one');
});

test('only the account that sends too much is refused, and another hardly waits', async () => {
  const { ask, askAll, done, loadShedder } = workplace(2);
  const waiting: Promise<unknown>[] = [];
  const waits: number[] = [];
  for (const endMs = performance.now() + 3_000; performance.now() < endMs; ) {
    waiting.push(...(await askAll(Math.max(0, 1_000 + done.length - waiting.length), { accountId: 'hostile' })));
    const askedMs = performance.now();
    expect(await ask({ accountId: 'neighbour' })).toBe('done');
    waits.push(performance.now() - askedMs);
  }
  expect(waits.length).toBeGreaterThan(20);
  expect(loadShedder.refused).toBeGreaterThan(0);
  expect((await Promise.all(waiting)).filter(isRefused)).toHaveLength(loadShedder.refused);
  expect(Math.max(...waits)).toBeLessThan(500);
});
