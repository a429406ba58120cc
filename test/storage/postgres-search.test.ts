import postgres from 'postgres';
import { expect, test } from 'vitest';
import { SearchWords } from '../../src/domain/search-words.ts';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { postgresServer } from '../support/postgres.ts';
import { sampleConversation, storedAccount, storedConversation } from '../support/samples.ts';

const { database } = postgresServer();

const texts = 20_000;

/**
 * A database in which all texts of an account have the word `common`, every five-thousandth has `rare`, and there are as
 * many other words as PostgreSQL wants before it believes what it knows of words.
 */
async function filled(): Promise<{ url: string; accountId: string }> {
  const url = await database();
  const storage = await openPostgresStorage(url, { clock: systemClock });
  const { id: accountId } = await storedAccount(storage);
  const { id } = await storedConversation(storage, accountId, []);
  await storage.close();
  const client = postgres(url, { max: 1, fetch_types: false });
  await client`INSERT INTO search_texts (account_id, number, conversation_id, sequence, created_at, terms)
    SELECT id, number, ${id}, number, number, array_to_tsvector(ARRAY[key || ':common', key || ':w' || number % 500]
        || CASE WHEN number % 5000 = 0 THEN ARRAY[key || ':rare'] ELSE ARRAY[]::text[] END)
      FROM accounts, generate_series(100, ${texts + 99}::integer) AS number WHERE id = ${accountId}`;
  await client.unsafe('VACUUM ANALYZE');
  await client.end();
  return { url, accountId };
}

/** How many rows have been read of the texts, by all connections that have ended. */
async function textsRead(url: string): Promise<number> {
  const client = postgres(url, { max: 1, fetch_types: false });
  const [row] = await client<{ read: string }[]>`SELECT seq_tup_read + idx_tup_fetch AS read
    FROM pg_stat_user_tables WHERE relname = 'search_texts'`;
  await client.end();
  return Number(row?.read);
}

test('a search reads about as many texts as it shows, whether all have its words or few', async () => {
  const { url, accountId } = await filled();
  for (const [query, found] of [
    ['common', 20],
    ['rare', 4],
    ['absent', 0],
    ['common rare', 4],
  ] as const) {
    const before = await textsRead(url);
    const storage = await openPostgresStorage(url, { clock: systemClock });
    const asked = { words: new SearchWords(query), filter: {}, after: undefined, limit: 20 };
    const { items } = await storage.read.search.page(accountId, asked);
    await storage.close(); // its connections tell what they have read when they end
    expect(items, query).toHaveLength(found);
    expect((await textsRead(url)) - before, query).toBeLessThan(200);
  }
});

test('whatever characters a filter has, they are its value and no SQL', async () => {
  const storage = await openPostgresStorage(await database(), { clock: systemClock });
  const { id: accountId } = await storedAccount(storage);
  const values = [
    "'",
    "''; SELECT 1; --",
    '\\',
    "\\'",
    '$1',
    '$$',
    '\\u0041',
    "E'",
    'é 漢字 😀',
    '"{},',
    '%',
    ':after',
  ];
  for (const value of values) {
    const conversation = sampleConversation({ assignee: { id: value, name: null }, tags: [value], subject: 'word' });
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
    for (const filter of [{ assigneeId: value }, { tags: [value] }]) {
      const asked = { words: new SearchWords('word'), filter, limit: 9 };
      const { items } = await storage.read.search.page(accountId, asked);
      expect(
        items.map(({ conversationId }) => conversationId),
        value,
      ).toEqual([conversation.id]);
    }
  }
  const odd = { words: new SearchWords('word'), filter: { assigneeId: '\ud800' }, limit: 9 };
  expect((await storage.read.search.page(accountId, odd)).items).toEqual([]);
  await storage.close();
});

test('of texts that have to be looked at, nothing else is read', async () => {
  const statements: string[] = [];
  const onStatement = (sql: string) => void statements.push(sql);
  const storage = await openPostgresStorage(await database(), { clock: systemClock, onStatement });
  const { id: accountId } = await storedAccount(storage);
  await storedConversation(storage, accountId, ['日本語の注文', '日本語の返品']);
  statements.length = 0;
  const asked = { words: new SearchWords('日本語'), filter: {} };
  expect(await storage.read.search.count(accountId, asked, 9)).toBe(2);
  expect((await storage.read.search.page(accountId, { ...asked, limit: 1, countTo: 9 })).hasMore).toBe(true);
  expect(statements.filter((sql) => sql.includes('messages.content'))).toHaveLength(2);
  expect(statements.filter((sql) => sql.includes('metadata'))).toEqual([]);
  await storage.close();
});
