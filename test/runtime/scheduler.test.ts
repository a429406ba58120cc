import { expect, test, vi } from 'vitest';
import { Scheduler } from '../../src/runtime/scheduler.ts';
import { until } from '../support/wait.ts';

/** Busy for so long, as a step of work is. */
function work(ms: number): void {
  for (const endMs = performance.now() + ms; performance.now() < endMs; );
}

test('accounts take their steps by turns, however many of one account came first', async () => {
  const scheduler = new Scheduler();
  const order: string[] = [];
  const step = async (accountId: string): Promise<void> => {
    await scheduler.step(accountId);
    order.push(accountId);
  };
  const steps = [...Array.from({ length: 100 }, () => step('many')), step('few'), step('few')];
  await Promise.all(steps);
  expect(order.slice(0, 5)).toEqual(['many', 'many', 'few', 'many', 'few']);
  expect(order).toHaveLength(102);
});

test('the event loop turns for new connections before it does other work, but not for ever', async () => {
  const turnsUntilRun = async (connections: number): Promise<number> => {
    const scheduler = new Scheduler();
    let left = connections;
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      if (isOver) return;
      turns++;
      if (left-- > 0) scheduler.accepted(); // one in each turn, as Node does
      setImmediate(turn);
    };
    setImmediate(turn);
    await scheduler.request('account', false);
    isOver = true;
    return turns;
  };
  expect(await turnsUntilRun(0)).toBeLessThan(3);
  // It does so for a few milliseconds at most, and a busy machine may take as long for one turn.
  await vi.waitUntil(async () => (await turnsUntilRun(5)) >= 5, { timeout: 10_000, interval: 1 });
  expect(await turnsUntilRun(Number.POSITIVE_INFINITY)).toBeLessThan(Number.POSITIVE_INFINITY);
});

test('the event loop turns between the steps of one account', async () => {
  const scheduler = new Scheduler();
  let stepsBefore = Number.POSITIVE_INFINITY;
  let steps = 0;
  setImmediate(() => {
    stepsBefore = steps;
  });
  await Promise.all(
    Array.from({ length: 50 }, async () => {
      await scheduler.step('account');
      work(1);
      steps++;
    }),
  );
  expect(stepsBefore).toBeLessThan(5);
});

test('after a long step the event loop turns several times before the next', async () => {
  const scheduler = new Scheduler();
  const turnsBefore: number[] = [];
  let loopTurns = 0;
  let isRunning = true;
  const count = (): void => {
    loopTurns++;
    if (isRunning) setImmediate(count);
  };
  setImmediate(count);
  const steps = Array.from({ length: 3 }, async () => {
    await scheduler.step('account');
    turnsBefore.push(loopTurns);
    work(200); // for as long it lets the loop turn, which may take a busy machine a while
  });
  await Promise.all(steps);
  isRunning = false;
  const [first = 0, second = 0, third = 0] = turnsBefore;
  expect(Math.min(second - first, third - second)).toBeGreaterThanOrEqual(4);
});

test('what arrives when the event loop has long been reading waits, fairly by network, until it has turned', async () => {
  const scheduler = new Scheduler();
  expect(scheduler.arrival('many')).toBeUndefined();
  work(10);
  const order: string[] = [];
  const arrive = async (network: string): Promise<void> => {
    await scheduler.arrival(network);
    order.push(network);
  };
  const arrivals = [arrive('many'), arrive('many'), arrive('few')];
  await Promise.resolve();
  expect(order).toEqual([]);
  await Promise.all(arrivals);
  expect(order).toEqual(['many', 'few', 'many']);
});

test('of each network a few of those that wait are begun before the event loop turns, however many there are', async () => {
  const scheduler = new Scheduler();
  expect(scheduler.arrival('many')).toBeUndefined();
  work(10);
  const begun: string[] = [];
  const arrive = async (network: string): Promise<void> => {
    await scheduler.arrival(network);
    begun.push(network);
  };
  const arrivals = ['many', 'some'].flatMap((network) => Array.from({ length: 40 }, () => arrive(network)));
  arrivals.push(arrive('few'));
  await until(() => begun.length > 0); // which looks once in each turn
  expect(begun.filter((network) => network === 'many').length).toBeLessThan(20);
  expect(begun).toContain('few');
  await Promise.all(arrivals);
  expect(begun).toHaveLength(81);
});

test('requests wait by account, reads and writes alternately, and no account waits for all of another', async () => {
  const scheduler = new Scheduler();
  expect(scheduler.arrival('network')).toBeUndefined();
  work(3); // nothing more runs at once
  const order: string[] = [];
  const ask = async (accountId: string, isRead: boolean): Promise<void> => {
    await scheduler.request(accountId, isRead);
    order.push(`${accountId} ${isRead ? 'reads' : 'writes'}`);
    work(3);
  };
  const asked = Array.from({ length: 20 }, () => ask('many', false));
  asked.push(ask('few', false), ask('few', true), ask('many', true));
  expect(scheduler.waitingRequests).toBe(23);
  await Promise.all(asked);
  expect(order.slice(0, 5)).toEqual(['few reads', 'many writes', 'many reads', 'few writes', 'many writes']);
});

test('requests that take little share a turn of their account, which ends all the same', async () => {
  /** How many requests of an account run before that of another, which came after all of them. */
  const runBefore = async (): Promise<number> => {
    const scheduler = new Scheduler();
    expect(scheduler.arrival('network')).toBeUndefined();
    work(3); // nothing more runs at once
    let ran = 0;
    const asked = Array.from({ length: 200 }, async () => {
      await scheduler.request('many', true);
      ran++;
      work(0.1);
    });
    await scheduler.request('few', true);
    const before = ran;
    await Promise.all(asked);
    return before;
  };
  const isPart = (before: number): boolean => before > 1 && before < 50;
  await vi.waitUntil(async () => isPart(await runBefore()), { timeout: 10_000, interval: 1 });
});

test('steps make progress beside requests that never end', async () => {
  const scheduler = new Scheduler();
  let isOver = false;
  const asking = async (): Promise<void> => {
    while (!isOver) {
      await scheduler.request('account', false);
      work(1);
    }
  };
  const requests = Array.from({ length: 200 }, asking);
  const before = process.threadCpuUsage();
  for (let step = 0; step < 20; step++) {
    await scheduler.step('other');
    work(1);
  }
  const { user, system } = process.threadCpuUsage(before); // what the machine does besides does not count
  expect((user + system) / 1_000).toBeLessThan(2_000);
  isOver = true;
  await Promise.all(requests);
});

test('a step that fails holds up no other', async () => {
  const scheduler = new Scheduler();
  const failing = scheduler.step('one').then(() => {
    throw new Error('failed');
  });
  await expect(failing).rejects.toThrow('failed');
  await scheduler.step('one');
});

test('a step is taken at once if nothing else takes one or waits, and others come after it', async () => {
  const scheduler = new Scheduler();
  const order: string[] = [];
  expect(scheduler.stepAtOnce()).toBe(true);
  const next = scheduler.step('account').then(() => order.push('next'));
  expect(scheduler.stepAtOnce()).toBe(false);
  await Promise.resolve();
  order.push('what the first step does once its promises are settled');
  await next;
  expect(order).toHaveLength(2);
  expect(order[1]).toBe('next');
  await until(() => scheduler.stepAtOnce()); // after a long step the loop turns a few times first
});
