import { expect, test } from 'vitest';
import { FairQueue } from '../../src/runtime/fair-queue.ts';

function takeAll(queue: FairQueue<string>): string[] {
  const taken: string[] = [];
  for (let item = queue.take(); item !== undefined; item = queue.take()) taken.push(item);
  return taken;
}

function queueOf(...items: readonly [accountId: string, item: string][]): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const [accountId, item] of items) queue.push(accountId, item);
  return queue;
}

test('accounts take turns, and the items of one account keep their order', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['b', 'b1'], ['c', 'c1'], ['c', 'c2']);
  expect(queue.size).toBe(6);
  expect(takeAll(queue)).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
  expect(queue.size).toBe(0);
});

test('an account that comes later waits for one item of each other account', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['a', 'a3']);
  expect(queue.take()).toBe('a1');
  queue.push('b', 'b1');
  expect(takeAll(queue)).toEqual(['a2', 'b1', 'a3']);
});

test('so many of each account are taken, and what is left comes in its turn', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['b', 'b1'], ['c', 'c1'], ['c', 'c2'], ['c', 'c3']);
  expect([...queue.takeOfEach(2)]).toEqual(['a1', 'b1', 'c1', 'a2', 'c2']);
  expect([...queue.takeOfEach(5)]).toEqual(['a3', 'c3']);
  expect([...queue.takeOfEach(1)]).toEqual([]);
});

test('an account can have more items in its turn, and then waits for one of each other account', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['b', 'b1']);
  expect(queue.take()).toBe('a1');
  expect(queue.takeMore()).toBe('a2');
  expect(takeAll(queue)).toEqual(['b1', 'a3']);
  expect(queue.takeMore()).toBeUndefined();
  queue.push('b', 'b2');
  expect(queue.takeMore(), 'it is not the turn of b, but a has nothing').toBeUndefined();
  expect(queue.size).toBe(1);
});

test('of an account that has several items in a turn, so many more come before the next of another', () => {
  const items = Array.from({ length: 50 }, (_, index): [string, string] => ['a', `a${index}`]);
  const queue = queueOf(...items, ['b', 'b1']);
  expect(queue.before('c')).toBe(2);
  expect(queue.before('c', 10)).toBe(20);
  expect(queue.before('c', 100)).toBe(51);
});

test('an account whose item took as long as three is passed over for two turns, unless nobody else waits', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['b', 'b1'], ['b', 'b2'], ['b', 'b3'], ['b', 'b4']);
  expect(queue.take()).toBe('a1');
  queue.charge('a', 2);
  expect(takeAll(queue)).toEqual(['b1', 'b2', 'b3', 'a2', 'b4', 'a3']);
  queue.push('a', 'a4');
  expect(queue.take()).toBe('a4');
  queue.charge('a', 2);
  queue.push('a', 'a5');
  queue.push('b', 'b5');
  expect(takeAll(queue)).toEqual(['a5', 'b5']);
});

test('the wait of an account counts what it has itself, and as many of each other account', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['a', 'a3'], ['a', 'a4'], ['b', 'b1']);
  expect(queue.before('a')).toBe(5);
  expect(queue.before('b')).toBe(4);
  expect(queue.before('c')).toBe(2);
  expect(new FairQueue().before('a')).toBe(0);
});

test('items can be removed from the middle', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2'], ['b', 'b1'], ['c', 'c1']);
  expect(queue.removeWhere((item) => item === 'a1' || item === 'b1')).toEqual(['a1', 'b1']);
  expect(queue.size).toBe(2);
  expect(takeAll(queue)).toEqual(['a2', 'c1']);
});

test('nobody is passed over for turns from before the queue was emptied, also by removing what waited', () => {
  const queue = queueOf(['a', 'a1'], ['a', 'a2']);
  expect(queue.take()).toBe('a1');
  queue.charge('a', 2);
  expect(queue.removeWhere(() => true)).toEqual(['a2']);
  for (const item of ['a3', 'a4']) queue.push('a', item);
  for (const item of ['b1', 'b2']) queue.push('b', item);
  expect(takeAll(queue)).toEqual(['a3', 'b1', 'a4', 'b2']);
});
