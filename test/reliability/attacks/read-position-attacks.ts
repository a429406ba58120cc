import { aliases, type Customer, graphqlBytes, momentMs, mutationBytes, send, sendInTurn, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import { oneConversation } from './preparations.ts';
import type { Attack } from './table.ts';

// Attacks by read positions: many that move, and pages that ask for those of very many readers.

/** A hundred conversations, each with positions of fifty readers, or a few of each. */
async function manyReaders(customer: Customer, isLong: boolean): Promise<Record<string, string>> {
  const [conversations, readers] = isLong ? [100, 50] : [10, 10];
  const message = '{content: "Hello", sender: VISITOR}';
  await customer.repeat(conversations, () => `createConversation(input: {message: ${message}}) { eventCursor }`);
  const { data } = await customer.rest('GET', `/v1/conversations?limit=${conversations}`);
  await customer.repeat(conversations * readers, (index) => {
    const { id } = data[Math.floor(index / readers)];
    return `markRead(input: {conversationId: "${id}", reader: "r${index % readers}", sequence: 0}) { eventCursor }`;
  });
  return {};
}

function unreadCounts(readers: number): string {
  return times(readers, (index) => `u${index}: unreadCount(reader: "r${index}")`).join(' ');
}

/** Counts for as many readers as a page may have if each counts as fifty values, and for as many as if it counts as one. */
const unreadPages = [
  `{ conversations(first: 100, unreadBy: "r0") { nodes { ${unreadCounts(19)} } } }`,
  `{ conversations(first: 10, unreadBy: "r0") { nodes { ${unreadCounts(190)} } } }`,
  `{ ${times(4, (index) => `p${index}: conversations(first: 100, unreadBy: "r${index}") { nodes { ...u } }`).join(' ')} }
   fragment u on Conversation { ${unreadCounts(200)} }`,
  `{ conversations(first: 100) { nodes { ${aliases(6, 'readPositions { reader sequence readAt }')} } } }`,
  `{ ${times(90, (index) => `p${index}: conversations(first: 1, unreadBy: "r${index}") { nodes { id } }`).join(' ')} }`,
];

export const readPositionAttacks: Attack[] = [
  {
    name: 'read positions of ever new readers, a hundred a request',
    limits: 'raised',
    isShort: true,
    databaseMiB: 24,
    prepare: oneConversation,
    attack: (target) =>
      send(target, { connections: 8, forMs: target.isLong ? 5_000 : momentMs }, (index) => {
        const { conversation: conversationId } = target.fixture;
        const inputs = times(100, (each) => ({ conversationId, reader: `r${index}-${each}`, sequence: each }));
        return mutationBytes(target, 'markRead', inputs);
      }),
  },
  {
    name: 'pages with the unread counts of very many readers',
    limits: 'raised',
    prepare: manyReaders,
    attack: (target) =>
      sendInTurn(target, [
        ...unreadPages.map((query) => graphqlBytes(target, query)),
        requestBytes('GET', '/v1/conversations?limit=100&unreadBy=r7', target),
      ]),
  },
];
