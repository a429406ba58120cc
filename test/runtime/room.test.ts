import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Room } from '../../src/runtime/room.ts';

const limits = { size: 30, sizeOfAccount: 10, waitingOfAccount: 5 };

/** A room, who is in it, and how to leave it. */
function watched() {
  const room = new Room(limits);
  const inside = new Map<string, () => void>();
  const begun: string[] = [];
  const enter = (accountId: string, name: string, size: number): boolean => {
    const entered = room.enter(accountId, size);
    if (entered === undefined) return false;
    const begin = (leave: () => void): void => {
      begun.push(name);
      inside.set(name, leave);
    };
    if (entered instanceof Promise) void entered.then(begin);
    else begin(entered);
    return true;
  };
  const leave = async (name: string): Promise<void> => {
    inside.get(name)?.();
    inside.delete(name);
    await new Promise(setImmediate);
  };
  return { enter, leave, begun, inside };
}

test('an account holds no more than it may, in its order, and another does not wait for it', async () => {
  const { enter, leave, begun } = watched();
  for (const name of ['a', 'b', 'c', 'd']) enter('one', name, 5);
  enter('two', 'x', 10);
  expect(begun).toEqual(['a', 'b', 'x']);
  await leave('b');
  expect(begun).toEqual(['a', 'b', 'x', 'c']);
});

test('what is larger than an account may hold begins when the account holds nothing else', async () => {
  const { enter, leave, begun } = watched();
  for (const [name, size] of [
    ['small', 1],
    ['huge', 1_000],
    ['later', 1],
  ] as const) {
    enter('one', name, size);
  }
  expect(begun).toEqual(['small']);
  await leave('small');
  expect(begun).toEqual(['small', 'huge']);
  await leave('huge');
  expect(begun).toEqual(['small', 'huge', 'later']);
});

test('no more of an account wait than may', () => {
  const { enter } = watched();
  expect(Array.from({ length: 7 }, (_, at) => enter('one', `${at}`, 10))).toEqual([...Array(6).fill(true), false]);
  expect(enter('two', 'x', 10)).toBe(true);
});

test('when all is full, accounts are let in by turns', async () => {
  const { enter, leave, begun } = watched();
  for (const account of ['one', 'two', 'three']) enter(account, account, 10);
  for (const name of ['e', 'f', 'g']) enter('four', name, 10);
  enter('five', 'v', 10);
  await leave('one');
  await leave('e');
  expect(begun.slice(3)).toEqual(['e', 'v']);
});

test('everybody comes in sooner or later, and never too much at once', async () => {
  const entrance = fc.record({ account: fc.constantFrom('a', 'b', 'c', 'd', 'e'), size: fc.nat({ max: 14 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(entrance, { maxLength: 25 }), fc.infiniteStream(fc.nat()), async (entrances, choices) => {
      const { enter, leave, begun, inside } = watched();
      const sizes = new Map<string, { account: string; size: number }>();
      for (const [at, { account, size }] of entrances.entries()) {
        if (enter(account, `${at}`, size)) sizes.set(`${at}`, { account, size: Math.min(size, limits.sizeOfAccount) });
      }
      while (inside.size > 0) {
        const held = new Map<string, number>();
        for (const name of inside.keys()) {
          const { account = '', size = 0 } = sizes.get(name) ?? {};
          held.set(account, (held.get(account) ?? 0) + size);
        }
        expect(Math.max(...held.values())).toBeLessThanOrEqual(limits.sizeOfAccount);
        expect(held.values().reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(limits.size);
        const names = [...inside.keys()];
        await leave(names[(choices.next().value ?? 0) % names.length] ?? '');
      }
      expect(begun.length).toBe(sizes.size);
    }),
  );
});
