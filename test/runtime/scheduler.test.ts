import { expect, test } from 'vitest';
import { Scheduler } from '../../src/runtime/scheduler.ts';

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
    work(50);
  });
  await Promise.all(steps);
  isRunning = false;
  const [first = 0, second = 0, third = 0] = turnsBefore;
  expect(Math.min(second - first, third - second)).toBeGreaterThanOrEqual(4);
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
  await new Promise((resolve) => setImmediate(resolve));
  expect(scheduler.stepAtOnce()).toBe(true);
});
