import { expect, test } from 'vitest';
import { FewAtOnce } from '../../src/runtime/few-at-once.ts';

test('at most so many of an account are under way, in their order, and another account does not wait for them', async () => {
  const work = new FewAtOnce(2);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (accountId: string, name: string): Promise<string> =>
    work.run(accountId, async () => {
      begun.push(name);
      await new Promise<void>((end) => ends.set(name, end));
      if (name === 'b') throw new Error('failed');
      return name;
    });
  const all = Promise.allSettled(['a', 'b', 'c', 'd'].map((name) => start('one', name)));
  const other = start('two', 'x');
  await Promise.resolve();
  expect(begun).toEqual(['a', 'b', 'x']);
  ends.get('b')?.();
  while (begun.length < 4) await new Promise(setImmediate);
  expect(begun).toEqual(['a', 'b', 'x', 'c']);
  for (const name of ['a', 'c']) ends.get(name)?.();
  while (begun.length < 5) await new Promise(setImmediate);
  for (const name of ['d', 'x']) ends.get(name)?.();
  expect((await all).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  expect(await other).toBe('x');
});
