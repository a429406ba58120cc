import { expect, test } from 'vitest';
import { ResponseBudget } from '../../src/webhooks/attempt-recorder.ts';
import { hourMs } from '../support/clock.ts';

const long = 'x'.repeat(16 * 1024);

test('of an account’s responses 8 MiB are kept in full within an hour, then the beginning of each', () => {
  const budget = new ResponseBudget();
  const cut = (accountId: string, nowMs: number) => budget.cut(accountId, long, nowMs)?.length;
  const kept = Array.from({ length: 600 }, (_, index) => cut('one', index));
  expect(kept).toEqual([...Array(512).fill(16 * 1024), ...Array(88).fill(256)]);
  expect(cut('other', 600), 'another account has its own').toBe(16 * 1024);
  expect(budget.cut('one', 'thank you', 600)).toBe('thank you');
  expect(budget.cut('one', null, 600)).toBeNull();
  expect(cut('one', hourMs), 'the next hour').toBe(16 * 1024);
});

test('a response is not cut within a character', () => {
  const budget = new ResponseBudget();
  const emoji = `x${'🙂'.repeat(4 * 1024 * 1024)}`;
  expect(budget.cut('one', emoji, 0)).toBe(`x${'🙂'.repeat(127)}\ufffd`);
});
