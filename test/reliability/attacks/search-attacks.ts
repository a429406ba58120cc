import { aliases, type Customer, graphqlBytes, send, sendInTurn, sleep, type Target, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import type { Outcomes } from './outcomes.ts';
import type { Attack } from './table.ts';

// Attacks by what is looked through: searches, and lists and logs of which little or nothing matches.

/** The first becomes eighteen characters where width and accents do not count, the second four. */
const expanding = ['\ufdfa', '\u3300'];

/** Long messages, most of them with thousands of different words that begin with the same letter. */
async function longMessages(customer: Customer, isLong: boolean): Promise<Record<string, string>> {
  const texts = times(isLong ? 10 : 1, (index) => {
    const words = times(2_500, (word) => `e${(word * 7_919 + index * 104_729).toString(36)}`);
    return `parcel ${index % 2 === 0 ? 'evening' : 'morning'} ${words.join(' ')}`.slice(0, 16_384);
  });
  const oddTexts = expanding.map((character) => character.repeat(isLong ? 16_384 : 2_000));
  await Promise.all([...texts, ...oddTexts].map((text) => customer.conversation(isLong ? 100 : 10, text)));
  if (isLong) await indexed(customer);
  return {};
}

/** Resolves when a search no longer has to look at each text because it waits to be indexed, or after a while. */
async function indexed(customer: Customer): Promise<void> {
  for (let look = 0; look < 100; look++) {
    const startedMs = performance.now();
    await customer.rest('GET', '/v1/search?q=xylophone');
    if (performance.now() - startedMs < 20) return;
    await sleep(300);
  }
}

const searches: Readonly<Record<string, readonly string[]>> = {
  'a word that every message has': ['parcel'],
  'words that no message has, or none has together': ['xylophone', 'parcel xylophone', 'evening morning'],
  'a letter that thousands of words begin with': ['e', 'parcel e', 'evening m'],
  'characters that become eighteen': [...expanding, ...expanding.map((character) => character.repeat(3)), 'ص'],
};

function search(target: Target, queries: readonly string[]): Promise<Outcomes> {
  const five = aliases(5, 'search(q: $q, first: 100) { totalCount nodes { excerpt { text match } } }');
  const requests = queries.flatMap((q) => [
    requestBytes('GET', `/v1/search?limit=100&q=${encodeURIComponent(q)}`, target),
    graphqlBytes(target, `query ($q: String!) { ${five} }`, { q }),
  ]);
  return sendInTurn(target, requests, 3); // some take seconds, and who sends more of them waits for half a minute
}

/** Ten thousand conversations, of which each has one of two tags, and half as many leads; and their events. */
async function manyToFilter(customer: Customer, isLong: boolean): Promise<Record<string, string>> {
  await customer.repeat(isLong ? 10_000 : 100, (index) => {
    const tag = index % 2 === 0 ? 'even' : 'odd';
    const visitor = `{id: "visitor-${index}", email: "visitor-${index}@example.com"}`;
    return `createConversation(input: {tags: ["${tag}"], visitor: ${visitor}}) { eventCursor }`;
  });
  await customer.repeat(
    isLong ? 5_000 : 50,
    (index) => `captureLead(input: {email: "lead-${index}@example.com"}) { eventCursor }`,
  );
  return {};
}

const longAgo = '2020-01-01T00:00:00Z';

/** Lists of which nothing matches, though much matches each filter or has to be counted. */
const lists = [
  'conversations?tags=even,odd',
  'conversations?tags=even,odd&sort=lastActivityAt',
  `conversations?tags=even,odd&updatedAfter=${longAgo}&unassigned=true&sort=-lastActivityAt`,
  `conversations?createdAfter=${longAgo}&createdBefore=${longAgo}`,
  'conversations?unassigned=false&tags=even&sort=createdAt',
  'conversations?status=closed,pending&tags=odd&unassigned=true',
  'conversations?visitorEmail=nobody@example.com&tags=even',
  'conversations?unreadBy=nobody&tags=even',
  'conversations?tags=even&offset=1000000',
  'leads?email=nobody@example.com',
  `leads?createdBefore=${longAgo}`,
];

/** The same in GraphQL: as many as may be counted, as many as may be looked through, and as a document may have. */
const filteredFields = [
  aliases(2, 'conversations(first: 1, tags: ["even", "odd"], sort: LAST_ACTIVITY_AT_ASC) { totalCount nodes { id } }'),
  aliases(5, 'conversations(first: 100, tags: ["even", "odd"], sort: LAST_ACTIVITY_AT_ASC) { nodes { id } }'),
  aliases(90, 'conversations(first: 1, tags: ["even", "odd"]) { nodes { id } }'),
  aliases(90, 'conversations(first: 1, tags: ["even"], assigneeId: "nobody") { nodes { id } }'),
  aliases(90, `conversations(first: 1, tags: ["even"], createdBefore: "${longAgo}") { nodes { id } }`),
  aliases(90, 'leads(first: 1, email: "nobody@example.com") { nodes { id } }'),
];

function list(target: Target): Promise<Outcomes> {
  return sendInTurn(target, [
    ...lists.map((path) => requestBytes('GET', `/v1/${path}&limit=100`, target)),
    ...filteredFields.map((fields) => graphqlBytes(target, `{ ${fields} }`)),
  ]);
}

function readLog(target: Target): Promise<Outcomes> {
  return sendInTurn(target, [
    requestBytes('GET', '/v1/events?limit=100&types=conversation.deleted', target),
    graphqlBytes(target, `{ ${aliases(90, 'events(first: 1, types: [CONVERSATION_DELETED]) { nodes { id } }')} }`),
  ]);
}

export const searchAttacks: Attack[] = [
  ...Object.entries(searches).map(
    ([what, queries], index): Attack => ({
      name: `searches for ${what}`,
      limits: 'raised',
      ...(index === 0 && { isShort: true }),
      prepare: longMessages,
      attack: (target) => search(target, queries),
    }),
  ),
  {
    name: 'messages of characters that become eighteen',
    limits: 'raised',
    databaseMiB: 50,
    attack: (target) => {
      const message = { content: '\ufdfa'.repeat(16_384), sender: 'visitor' };
      return send(target, { connections: 16, requests: 200 }, () =>
        requestBytes('POST', '/v1/conversations', { ...target, body: { message } }),
      );
    },
  },
  {
    name: 'lists that match nothing of ten thousand',
    limits: 'raised',
    prepare: manyToFilter,
    attack: list,
  },
  {
    name: 'pages of the log that match nothing of ten thousand events',
    limits: 'raised',
    prepare: manyToFilter,
    attack: readLog,
  },
];
