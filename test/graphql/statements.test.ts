import { afterAll, beforeAll, expect, test } from 'vitest';
import { isSearchedThrough } from '../../src/graphql/searched-lists.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// The number of SQL statements of a query, however many items it returns.

let server: TestServer;
let client: TestAccount;
const statements: string[] = [];

beforeAll(async () => {
  server = await startTestServer({ onStatement: (sql) => statements.push(sql) });
  client = await server.account();
  for (let made = 0; made < 30; made++) {
    const { body } = await client.rest('POST', '/conversations', {
      body: { message: { content: `first of ${made}`, sender: 'visitor' } },
    });
    for (let sent = 0; sent < made % 4; sent++) {
      await client.rest('POST', `/conversations/${body.id}/messages`, {
        body: { content: `more ${sent}`, sender: 'agent' },
      });
    }
  }
  await client.graphql('{ __typename }'); // notes the key's use and reserves a block of the budget
});
afterAll(() => server.close());

async function readsOf(query: string, variables?: Record<string, unknown>): Promise<string[]> {
  statements.length = 0;
  const { errors } = await client.graphql(query, variables);
  expect(errors).toBeUndefined();
  return statements.filter((sql) => /\bfrom (conversations|messages|account_totals)\b|json_each/i.test(sql));
}

const page = `query ($first: Int!) {
  conversations(first: $first) { nodes { id messages(first: 3) { nodes { content } totalCount pageInfo { hasNextPage } } } }
}`;

test('a page of conversations with their messages takes two statements, however long it is', async () => {
  expect(await readsOf(page, { first: 2 })).toHaveLength(2);
  expect(await readsOf(page, { first: 30 })).toHaveLength(2);
});

test('first and last messages of the same page are read in one statement', async () => {
  const query =
    '{ conversations(first: 30) { nodes { oldest: messages(first: 1) { nodes { id } } latest: messages(last: 1) { nodes { id } } } } }';
  expect(await readsOf(query)).toHaveLength(2);
});

test('the conversations of messages take one more statement', async () => {
  const query = '{ conversations(first: 30) { nodes { messages(first: 5) { nodes { conversation { subject } } } } } }';
  expect(await readsOf(query)).toHaveLength(3);
});

test('conversations selected one by one by id are read in one statement', async () => {
  const { data } = await client.graphql('{ conversations(first: 10) { nodes { id } } }');
  const ids: string[] = data.conversations.nodes.map(({ id }: { id: string }) => id);
  const query = `{ ${ids.map((id, index) => `c${index}: conversation(id: "${id}") { subject }`).join(' ')} nodes(ids: ${JSON.stringify(ids)}) { id } }`;
  expect(await readsOf(query)).toHaveLength(1);
});

test('the account and API keys that are named many times are read once', async () => {
  const [key] = (await client.rest('GET', '/api-keys')).body.data;
  const readOnce = async (id: string): Promise<number> => (await readsOf(`{ node(id: "${id}") { id } }`)).length;
  for (const id of [client.account.id, key.id]) {
    const ids = JSON.stringify(Array(100).fill(id));
    expect(await readsOf(`{ a: nodes(ids: ${ids}) { id } b: nodes(ids: ${ids}) { id } }`)).toHaveLength(
      await readOnce(id),
    );
  }
});

test('what many readers have not read, and their positions, are read in one statement', async () => {
  const readers = Array.from({ length: 10 }, (_, index) => `r${index}: unreadCount(reader: "agent-${index}")`);
  const positions = 'readPositions { reader } some: readPositions(readers: ["agent-1"]) { reader }';
  expect(await readsOf(`{ conversations(first: 30) { nodes { ${readers.join(' ')} ${positions} } } }`)).toHaveLength(2);
});

/** A value of each filter that a list takes, by the field with the list. */
const filters: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  conversations: {
    status: 'ACTIVE',
    statuses: '[PENDING]',
    externalId: '"x"',
    visitorId: '"x"',
    visitorEmail: '"x"',
    assigneeId: '"x"',
    unassigned: 'true',
    unreadBy: '"x"',
    tags: '["x"]',
    createdAfter: '"2026-01-01T00:00:00Z"',
    createdBefore: '"2036-01-01T00:00:00Z"',
    updatedAfter: '"2026-01-01T00:00:00Z"',
  },
  leads: {
    conversationId: '"conv_01h455vb4pex5vsknk084sn02q"',
    email: '"x"',
    createdAfter: '"2026-01-01T00:00:00Z"',
    createdBefore: '"2036-01-01T00:00:00Z"',
  },
};

test.each(Object.keys(filters))('%s that do not count as searched through are read in one statement', async (field) => {
  const all = Object.keys(filters[field] ?? {});
  // Each set of up to three, in one order.
  const some = all.flatMap((one, i) =>
    all.slice(i).flatMap((two, j) => all.slice(i + j).map((three) => [...new Set([one, two, three])])),
  );
  let quick = 0;
  for (const given of some) {
    if (given.includes('status') && given.includes('statuses')) continue;
    for (const sort of field === 'leads' ? [''] : ['CREATED_AT_ASC', 'LAST_ACTIVITY_AT_DESC']) {
      if (isSearchedThrough(given, sort)) continue;
      quick++;
      const values = given.map((name) => `${name}: ${filters[field]?.[name]}`);
      const args = sort === '' ? values : [...values, `sort: ${sort}`];
      statements.length = 0;
      const { errors } = await client.graphql(`{ ${field}(${args.join(', ')}) { nodes { id } } }`);
      expect(errors).toBeUndefined();
      const read = statements.filter((sql) => sql.includes(field) || sql.includes('unread_conversations'));
      expect(read, args.join(', ')).toHaveLength(1);
    }
  }
  expect(quick).toBeGreaterThan(10);
});

test('whether something comes before a page is found out once', async () => {
  const asked = Array.from({ length: 50 }, (_, index) => `p${index}: pageInfo { hasPreviousPage }`).join(' ');
  const before = (await readsOf('{ conversations(tags: ["x"], offset: 1) { nodes { id } } }')).length;
  expect((await readsOf(`{ conversations(tags: ["x"], offset: 1) { ${asked} } }`)).length).toBeLessThanOrEqual(
    2 * before,
  );
});

test('a total is read only if it is selected', async () => {
  expect(await readsOf('{ conversations(first: 5) { nodes { id } } }')).toHaveLength(1);
  const leftOut = '... on ConversationConnection @include(if: false) { totalCount } totalCount @skip(if: true)';
  expect(await readsOf(`{ conversations(first: 5) { nodes { id } ${leftOut} } }`)).toHaveLength(1);
  const total = (await readsOf('{ conversations(first: 5) { nodes { id } totalCount } }')).at(-1);
  expect(total).toContain('account_totals');
});
