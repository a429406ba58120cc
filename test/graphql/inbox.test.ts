import { expect, test } from 'vitest';
import { Inbox } from '../../src/graphql/inbox.ts';

// What a socket has sent and is not admitted yet counts towards no limit of operations, so reading is what is bounded.

const many = 100;

function crowded(): { inbox: Inbox; end: (index: number) => Promise<void> } {
  const inbox = new Inbox(() => {});
  const operations = Array.from({ length: many }, () => Promise.withResolvers<void>());
  for (const [index, { promise }] of operations.entries()) {
    expect(inbox.pauses, 'with fewer it does not').toBe(false);
    inbox.take({ type: 'subscribe', id: String(index), content: '' }, () => promise);
  }
  const end = async (index: number): Promise<void> => {
    operations[index]?.resolve();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { inbox, end };
}

test('with many operations that are not admitted reading pauses, and goes on when one is admitted', () => {
  const { inbox } = crowded();
  expect(inbox.pauses).toBe(true);
  expect(inbox.makeRoom('7', 'subscription')).toBe(true);
  expect(inbox.pauses).toBe(false);
});

test('reading goes on, too, when one is refused; and when one ends that was admitted, no more than that', async () => {
  const { inbox, end } = crowded();
  await end(3);
  expect(inbox.pauses).toBe(false);
  inbox.take({ type: 'subscribe', id: 'next', content: '' }, () => new Promise(() => {}));
  expect(inbox.pauses).toBe(true);
  inbox.makeRoom('7', 'answer');
  await end(7);
  inbox.take({ type: 'subscribe', id: 'last', content: '' }, () => new Promise(() => {}));
  expect(inbox.pauses).toBe(true);
});
