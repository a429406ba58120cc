import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { indexTexts } from '../../src/domain/search.ts';
import { SearchWords } from '../../src/domain/search-words.ts';
import { openSqliteStorage, type SqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { sampleConversation, sampleMessage, storedAccount, storedConversation } from '../support/samples.ts';

// Whoever writes many different words makes long lists in the index. Nobody waits while they are gone through.

const perText = 5_461;

const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
let storage: SqliteStorage;
let accountId: string;
let statements: string[] = [];

/** A Korean syllable after a letter, for each number. */
const word = (index: number): string => `x${String.fromCodePoint(0xac00 + index)}`;

beforeAll(async () => {
  storage = openSqliteStorage(join(folder, 'test.db'), { onStatement: (sql) => void statements.push(sql) });
  accountId = (await storedAccount(storage)).id;
  const contents = Array.from({ length: 60 }, (_, index) =>
    index % 15 === 0
      ? Array.from({ length: perText }, (_, at) => word(index * 100 + at)).join(' ')
      : `text ${index} with some${index} words`,
  );
  await storedConversation(storage, accountId, contents);
  await indexTexts(storage);
});
afterAll(async () => {
  await storage.close();
  rmSync(folder, { recursive: true });
});

/** The sequences of what is found, and how often the index was asked for a list of all words with a beginning. */
async function find(query: string): Promise<{ found: number[]; lists: number }> {
  statements = [];
  const asked = { words: new SearchWords(query), filter: {} };
  const { items } = await storage.read.search.page(accountId, { ...asked, limit: 100 });
  expect(await storage.read.search.count(accountId, asked, 100)).toBe(items.length);
  const lists = statements.filter((sql) => /MATCH .*" \*/.test(sql)).length;
  return { found: items.map(({ sequence }) => sequence), lists };
}

test('of words that are too many for one list, those are found that begin as asked for', async () => {
  expect(await find('x')).toEqual({ found: [46, 31, 16, 1], lists: 0 });
  expect(await find(word(2_000))).toEqual({ found: [16, 1], lists: 0 });
  expect(await find(`${word(2_000)} x`)).toEqual({ found: [16, 1], lists: 0 });
  expect(await find('text x')).toEqual({ found: [], lists: 0 });
});

test('words that are few enough are found by a list of them', async () => {
  const { found, lists } = await find('some');
  expect(found).toHaveLength(56);
  expect(lists).toBeGreaterThan(0);
  expect((await find('with some')).found).toEqual(found);
  expect(await find('some5')).toEqual({ found: [60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 6], lists: 2 });
  expect(await find('some58')).toEqual({ found: [59], lists: 0 });
});

test('a word is found by its beginning whether it is a word of another text or not', async () => {
  expect((await find('tex')).found).toHaveLength(56);
  expect((await find('text')).found).toHaveLength(56);
  expect((await find('texts')).found).toEqual([]);
});

test('of long texts that wait for being indexed, few more are read than one transaction indexes', async () => {
  const own = await storedAccount(storage);
  const conversation = sampleConversation({ messageCount: 12 });
  await storage.write(async (tx) => {
    await tx.conversations.insert(own.id, conversation);
    for (let sequence = 1; sequence <= 12; sequence++) {
      const content = Array.from({ length: 3_200 }, (_, index) => (sequence * 5_000 + index).toString(36)).join(' ');
      await tx.messages.insert(own.id, sampleMessage(conversation.id, sequence, { content }));
    }
  });
  statements = [];
  await indexTexts(storage);
  const limits = statements.flatMap((sql) => /search_texts_waiting .*LIMIT \(SELECT (\d+)/s.exec(sql)?.[1] ?? []);
  expect(limits.length).toBeGreaterThanOrEqual(12);
  expect(limits.reduce((sum, limit) => sum + Number(limit), 0)).toBeLessThan(200);
});
