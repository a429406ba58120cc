import { expect, test } from 'vitest';
import { lazily } from '../../src/runtime/lazily.ts';

test('what is made when it is needed is made once, however many ask at once, and anew only after it has failed', async () => {
  let tries = 0;
  const thing = lazily(async () => {
    if (++tries === 1) throw new Error('not now');
    return { tries };
  });
  expect(tries).toBe(0);
  const first = await Promise.allSettled([thing(), thing()]);
  expect(first.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  const [one, other] = await Promise.all([thing(), thing()]);
  expect([one, await thing()]).toEqual([{ tries: 2 }, { tries: 2 }]);
  expect(one).toBe(other);
});
