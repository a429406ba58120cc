import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import type { StoredConversation } from '../../src/domain/conversation.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { temporaryFolder } from '../support/files.ts';
import { sampleConversation, sampleMessage, storedAccount } from './samples.ts';

// Where rows of many conversations lie between each other, SQLite moves them from page to page as they
// grow in number. What it overwrites is what was deleted; what it has moved away from, it does not.

/** A sequence of numbers below 1 that is the same each time. */
function numbers(): () => number {
  let state = 1;
  return () => {
    state = (state * 48_271) % 0x7fffffff;
    return state / 0x7fffffff;
  };
}

interface Page {
  readonly number: number;
  /** Where the text is found. */
  readonly at: number;
  /** Where the free space between the pointers to its cells and the first of them begins and ends. */
  readonly gap: readonly [from: number, to: number];
}

/** The pages of a file that hold a text, read as the file format says (sqlite.org/fileformat2.html, section 1.6). */
function pagesWith(text: string, path: string): Page[] {
  const bytes = readFileSync(path);
  const size = 4096;
  const pages: Page[] = [];
  for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) {
    const start = Math.floor(at / size) * size;
    const header = start + (start === 0 ? 100 : 0);
    const isInterior = bytes[header] === 2 || bytes[header] === 5;
    const pointers = header + (isInterior ? 12 : 8) - start + 2 * bytes.readUInt16BE(header + 3);
    pages.push({ number: start / size + 1, at: at - start, gap: [pointers, bytes.readUInt16BE(header + 5)] });
  }
  return pages;
}

test('of conversations that were erased among others no row is left anywhere; what SQLite has moved goes with VACUUM', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const storage = openSqliteStorage(path);
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const random = numbers();
  const marker = 'marker-of-what-was-erased';
  const erased: StoredConversation[] = [];
  const all = Array.from({ length: 60 }, (_, index) => {
    const conversation = sampleConversation();
    if (index % 2 === 0) erased.push(conversation);
    return { conversation, text: index % 2 === 0 ? marker : 'what everybody may still see', count: 0 };
  });
  await storage.write(async (tx) => {
    for (const { conversation } of all) await tx.conversations.insert(accountId, conversation);
    for (let index = 0; index < 3_000; index++) {
      const one = all[Math.floor(random() * all.length)] as (typeof all)[0];
      const content = one.text.repeat(1 + Math.floor(random() ** 3 * 100));
      await tx.messages.insert(accountId, sampleMessage(one.conversation.id, ++one.count, { content }));
    }
  });
  for (const conversation of erased) {
    await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
  }
  expect(readFileSync(`${path}-wal`)).toHaveLength(0);
  // All that is found of them lies where no row is, in the free space of a page in use.
  const left = pagesWith(marker, path);
  expect(left.filter(({ at, gap: [from, to] }) => at < from || at + marker.length > to)).toEqual([]);

  const operator = new Database(path);
  operator.pragma('secure_delete = ON');
  operator.exec('VACUUM');
  operator.pragma('wal_checkpoint(TRUNCATE)');
  operator.close();
  expect(pagesWith(marker, path)).toEqual([]);
  for (const { conversation, count } of all) {
    const found = await storage.read.conversations.findWithMessages(accountId, conversation.id);
    expect(found?.messages.length).toBe(erased.includes(conversation) ? undefined : count);
  }
});
