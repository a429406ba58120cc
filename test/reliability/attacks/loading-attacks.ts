import { type Customer, graphqlBytes, send, times } from './attacker.ts';
import type { Attack } from './table.ts';

// Attacks by what a small answer makes the service read: long texts, long lists, very many words.

const longest = 'x'.repeat(16_384);

/** A hundred conversations, each with a hundred messages as long as allowed, or a tenth of them. */
async function longContents(customer: Customer, isLong: boolean): Promise<Record<string, string>> {
  await Promise.all(
    times(10, async () => {
      for (let index = 0; index < (isLong ? 10 : 1); index++) await customer.conversation(100, longest);
    }),
  );
  return {};
}

export const loadingAttacks: Attack[] = [
  {
    name: 'pages of long messages of which little is asked for',
    limits: 'raised',
    databaseMiB: 50,
    prepare: longContents,
    attack: (target) =>
      send(target, { connections: 33, forMs: target.isLong ? 8_000 : 1_200 }, () =>
        graphqlBytes(target, '{ conversations(first: 100) { nodes { messages(first: 100) { nodes { id } } } } }'),
      ),
  },
  {
    name: 'answers of eight megabytes of long messages, side by side',
    limits: 'raised',
    databaseMiB: 50,
    prepare: longContents,
    attack: (target) =>
      send(target, { connections: target.isLong ? 300 : 33, forMs: target.isLong ? 8_000 : 1_200 }, () =>
        graphqlBytes(target, '{ conversations(first: 4) { nodes { messages(first: 100) { nodes { content } } } } }'),
      ),
  },
];
