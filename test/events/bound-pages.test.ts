import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { listEvents } from '../../src/domain/events.ts';
import { scheduler } from '../../src/runtime/scheduler.ts';
import type { Client, Json } from '../support/client.ts';
import { sampleConversation, sampleEvent, sampleMessage } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// Pages of the event log for those who are bound, of whose own events there are very many, nearly all of other types than
// they ask for. A page looks at so many of them, and its cursor leads on.

const perPage = 10_000;
const many = 3 * perPage;

let server: TestServer;
let account: TestAccount;
let conversationId: string;
/** The pages of the visitor, and of the same conversation. */
const clients = {} as Record<'visitor' | 'conversation', Client>;
const statements: string[] = [];

const visitor = { id: 'ada', name: null, email: null };

beforeAll(async () => {
  server = await startTestServer({ onStatement: (sql) => void statements.push(sql) });
  account = await server.account();
  conversationId = (await account.rest('POST', '/conversations', { body: { visitor } })).body.id;
  const tokenOf = async (bound: object): Promise<string> =>
    (await account.rest('POST', '/tokens', { body: { scopes, ...bound } })).body.token;
  clients.visitor = server.clientFor(await tokenOf({ visitor }));
  clients.conversation = server.clientFor(await tokenOf({ conversationId }));
  await append('conversation.closed', many);
  await append('conversation.reopened', 1);
});
afterAll(() => server.close());

/** Appends events of the visitor and its conversation, without making what they tell of. */
async function append(type: 'conversation.closed' | 'conversation.reopened', count: number): Promise<void> {
  const facts = { type, conversationId, visitorId: visitor.id };
  for (let left = count; left > 0; left -= 5_000) {
    const events = Array.from({ length: Math.min(left, 5_000) }, () => sampleEvent(sampleConversation(), facts));
    await server.storage.write(async (tx) => tx.events.append(account.account.id, events));
  }
}

interface Page {
  readonly types: readonly string[];
  readonly hasMore: boolean;
  readonly next: string;
}

type Ask = (client: Client, types: string, after?: string) => Promise<Page>;

const byRest: Ask = async (client, types, after) => {
  const query = new URLSearchParams({ types, ...(after !== undefined && { after }) });
  const { data, pagination } = (await client.rest('GET', `/events?${query}`)).body;
  return { types: data.map(({ type }: Json) => type), hasMore: pagination.hasMore, next: pagination.nextCursor };
};

const inCapitals = (type: string): string => type.toUpperCase().replace('.', '_');

const byGraphQL: Ask = async (client, types, after) => {
  const query = `query ($types: [EventType!], $after: String) { events(types: $types, after: $after) {
    nodes { type } pageInfo { hasNextPage endCursor } } }`;
  const { nodes, pageInfo } = (await client.graphql(query, { types: [inCapitals(types)], after })).data.events;
  const shown = nodes.map(({ type }: Json) => type.toLowerCase().replace('_', '.'));
  return { types: shown, hasMore: pageInfo.hasNextPage, next: pageInfo.endCursor };
};

describe.each([
  ['REST', byRest],
  ['GraphQL', byGraphQL],
] as const)('by %s', (_, ask) => {
  describe.each(['visitor', 'conversation'] as const)('who is bound to a %s', (bound) => {
    test('is given, page by page, the one event of many that it asks for', async () => {
      const pages: Page[] = [];
      for (let after: string | undefined, hasMore = true; hasMore; ) {
        const page = await ask(clients[bound], 'conversation.reopened', after);
        pages.push(page);
        ({ next: after, hasMore } = page);
      }
      expect(pages.map(({ types }) => types)).toEqual([...Array(many / perPage).fill([]), ['conversation.reopened']]);
    });

    test('is told at once that there is nothing of types that it never sees, from any place', async () => {
      statements.length = 0;
      const first = await ask(clients[bound], 'lead.captured');
      expect(first).toMatchObject({ types: [], hasMore: false });
      expect(await ask(clients[bound], 'lead.captured', first.next)).toMatchObject({ types: [], hasMore: false });
      expect(statements.filter((sql) => /\bFROM events\b.*\btype IN\b/s.test(sql))).toEqual([]);
      // It has been led to the end of the log.
      expect(await ask(clients[bound], 'conversation.reopened', first.next)).toMatchObject({ types: [] });
    });
  });
});

test('whether anything comes before a page is looked for only if that is asked', async () => {
  const readsOf = async (fields: string): Promise<number> => {
    const { data } = await clients.visitor.graphql('{ events(first: 1) { pageInfo { endCursor } } }');
    const { endCursor } = data.events.pageInfo;
    statements.length = 0;
    const { errors } = await clients.visitor.graphql(`{ events(after: "${endCursor}") { ${fields} } }`);
    expect(errors).toBeUndefined();
    return statements.filter((sql) => /\bFROM events\b.*\btype IN\b/s.test(sql)).length;
  };
  expect(await readsOf('nodes { id }')).toBe(1);
  expect(await readsOf('pageInfo { hasNextPage }')).toBe(1);
  expect(await readsOf('pageInfo { hasPreviousPage }')).toBe(2);
});

test('a query for many pages that find nothing lets others in between', async () => {
  const other = await server.account();
  const page = 'events(types: [CONVERSATION_REOPENED]) { nodes { id } pageInfo { hasPreviousPage } }';
  const pages = Array.from({ length: 20 }, (_, index) => `p${index}: ${page}`).join(' ');
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  const before = process.threadCpuUsage();
  let isDone = false;
  const asked = clients.visitor.graphql(`{ ${pages} }`).finally(() => {
    isDone = true;
  });
  let answered = 0;
  while (!isDone) {
    expect((await other.rest('GET', '/account')).status).toBe(200);
    answered++;
  }
  const { user, system } = process.threadCpuUsage(before); // what the machine does besides does not count
  clearImmediate(next);
  expect((await asked).errors).toBeUndefined();
  expect(answered).toBeGreaterThan(5);
  expect(turns, 'a turn takes a few milliseconds').toBeGreaterThan((user + system) / 1_000 / 20);
});

test('of a hundred long events, what somebody bound may see is made in steps, between which others have theirs', async () => {
  const own = await server.account();
  const { id } = (await own.rest('POST', '/conversations')).body;
  const conversation = { ...sampleConversation(), id };
  const content = '\u000b'.repeat(16_384); // which JSON writes with six characters each
  const events = Array.from({ length: 100 }, (_, index) => {
    const message = sampleMessage(id, index + 1, { content });
    const type = 'message.received';
    return { ...sampleEvent(conversation, { type, conversationId: id }), data: { conversation, message } };
  });
  await server.storage.write(async (tx) => tx.events.append(own.account.id, events));
  const caller: Caller = {
    account: own.account,
    keyId: 'test',
    credential: 'token',
    scopes: new Set(scopes),
    conversationId: id,
  };
  let isDone = false;
  const listed = listEvents
    .execute(server.app.ports, caller, { limit: 100, types: ['message.received'] })
    .finally(() => {
      isDone = true;
    });
  let steps = 0;
  for (; !isDone; steps++) await scheduler.step('another account');
  expect((await listed).items).toHaveLength(100);
  expect(steps).toBeGreaterThan(8);
});
