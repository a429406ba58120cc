import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { StoredConversation } from '../../src/domain/conversation-record.ts';
import { finishErasures } from '../../src/domain/conversations.ts';
import { lastMessageOf, type Message } from '../../src/domain/message-record.ts';
import { indexTexts } from '../../src/domain/search.ts';
import { SearchWords, termsOf } from '../../src/domain/search-words.ts';
import { timestamp } from '../../src/domain/time.ts';
import { compact } from '../../src/storage/sqlite/compact.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { effort } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import {
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleHash,
  sampleLead,
  sampleMessage,
  sampleWebhook,
  startMs,
  storedAccount,
  storedConversation,
} from '../support/samples.ts';
import { until } from '../support/wait.ts';
import { wholeConversation } from '../support/whole-conversation.ts';

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

test('the row of a conversation that is being erased holds nothing that a client wrote', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const storage = openSqliteStorage(path);
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const text = 'marker';
  const started = sampleConversation({
    subject: text,
    visitor: { id: text, name: text, email: `é-${text}` },
    externalId: text,
    assignee: { id: text, name: text },
    tags: [text],
    metadata: { [text]: text },
    messageCount: 300,
  });
  const messages = Array.from({ length: 300 }, (_, index) =>
    sampleMessage(started.id, index + 1, { content: text, author: { id: text, name: text } }),
  );
  const conversation = { ...started, lastMessage: lastMessageOf(messages.at(-1) as Message) };
  await storage.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    for (const message of messages) await tx.messages.insert(accountId, message);
  });
  const reader = new Database(path, { readonly: true });
  onTestFinished(() => void reader.close());
  const row = reader.prepare<[string], Record<string, unknown>>('SELECT * FROM conversations WHERE id = ?');
  const texts = () => Object.entries(row.get(conversation.id) ?? {}).filter(([, value]) => typeof value === 'string');
  const ofClients = texts().filter(([name]) => !['id', 'account_id', 'status'].includes(name));
  for (const [name, value] of ofClients) expect(value, name).toContain(text); // a new column belongs into this test
  await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
  const left = { id: conversation.id, status: 'active', tags: '[]', metadata: '{}' };
  expect(Object.fromEntries(texts())).toEqual(left);
});

test('no row of an erased conversation remains in the file, and remnants of moved rows are gone after compaction', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const storage = openSqliteStorage(path);
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const random = numbers();
  const marker = 'marker-of-what-was-erased';
  const erased: StoredConversation[] = [];
  const all = Array.from({ length: effort(20, 60) }, (_, index) => {
    const conversation = sampleConversation();
    if (index % 2 === 0) erased.push(conversation);
    return { conversation, text: index % 2 === 0 ? marker : 'what everybody may still see', count: 0 };
  });
  await storage.write(async (tx) => {
    for (const { conversation } of all) await tx.conversations.insert(accountId, conversation);
    for (let index = 0; index < 50 * all.length; index++) {
      const one = all[Math.floor(random() * all.length)] as (typeof all)[0];
      const content = one.text.repeat(1 + Math.floor(random() ** 3 * 100));
      await tx.messages.insert(accountId, sampleMessage(one.conversation.id, ++one.count, { content }));
    }
  });
  for (const conversation of erased) {
    await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
    await finishErasures(storage);
  }
  await until(() => statSync(`${path}-wal`).size === 0); // a thread does it, right after
  // All that is found of them lies where no row is, in the free space of a page in use.
  const left = pagesWith(marker, path);
  expect(left.filter(({ at, gap: [from, to] }) => at < from || at + marker.length > to)).toEqual([]);

  const { before, after } = await compact(path);
  expect(after).toBeLessThan(before);
  expect(statSync(`${path}-wal`).size).toBe(0);
  expect(pagesWith(marker, path)).toEqual([]);
  for (const { conversation, count } of all) {
    const found = await wholeConversation(storage.read, accountId, conversation.id);
    expect(found?.messages.length).toBe(erased.includes(conversation) ? undefined : count);
  }
});

describe('no word of an erased conversation remains in the index but as the key of a page, and not even there after compaction', () => {
  test.each([
    ['of new texts', false],
    ['as a compaction has left it', true],
  ])('%s', async (_, wasCompacted) => {
    const path = join(temporaryFolder(), 'test.db');
    const storage = openSqliteStorage(path);
    onTestFinished(() => storage.close());
    const { id: accountId } = await storedAccount(storage);
    const random = numbers();
    // No id holds the erased words by chance: an id has no u.
    const [erased, kept] = [sampleConversation({ subject: 'zuulsubject' }), sampleConversation()];
    const messages = effort(300, 900);
    await storage.write(async (tx) => {
      for (const conversation of [erased, kept]) await tx.conversations.insert(accountId, conversation);
      for (let sequence = 1; sequence <= messages; sequence++) {
        const ends = Array.from({ length: 20 }, () => Math.floor(random() ** 2 * 5_000));
        const contentOf = (word: string) => ends.map((end) => `${word}${end}`).join(' ');
        await tx.messages.insert(accountId, sampleMessage(erased.id, sequence, { content: contentOf('zuul') }));
        await tx.messages.insert(accountId, sampleMessage(kept.id, sequence, { content: contentOf('zword') }));
      }
    });
    await indexTexts(storage);
    if (wasCompacted) await compact(path);
    await storage.write(async (tx) => tx.conversations.erase(accountId, erased));
    await finishErasures(storage);
    await until(() => statSync(`${path}-wal`).size === 0);
    const reader = new Database(path, { readonly: true });
    onTestFinished(() => void reader.close());
    const inIndex = (table: string, column: string) =>
      reader.prepare(`SELECT count(*) FROM ${table} WHERE instr(${column}, CAST('zuul' AS BLOB))`).pluck().get();
    expect(inIndex('search_words_data', 'block')).toBe(0);
    expect(inIndex('search_words_idx', 'term')).toBeGreaterThan(0);
    expect(reader.prepare(`SELECT count(*) FROM search_texts`).pluck().get()).toBe(messages + 1);

    await compact(path);
    expect(inIndex('search_words_idx', 'term')).toBe(0);
    expect(pagesWith('zuul', path)).toEqual([]);
    const page = { words: new SearchWords('zword1'), filter: {}, limit: 5 };
    expect((await storage.read.search.page(accountId, page)).items).toHaveLength(5);
  });
});

test('no transaction erases more than a few rows, so that other writes run in between', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const file = { left: () => 0 };
  /** How many rows were left at each commit of an erasure. */
  const left: number[] = [];
  let watching = false;
  const storage = openSqliteStorage(path, {
    onStatement: (sql) => void (watching && sql === 'COMMIT' && left.push(file.left())),
  });
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const [conversation, other, webhook] = [sampleConversation(), sampleConversation(), sampleWebhook()];
  const size = effort(300, 1_000);
  await storage.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    await tx.conversations.insert(accountId, other);
    await tx.webhooks.insert(accountId, webhook);
    for (let index = 0; index < size; index++) {
      await tx.messages.insert(accountId, sampleMessage(conversation.id, index + 1));
      await tx.leads.insert(accountId, sampleLead({ conversationId: conversation.id }));
      const kept = { fingerprint: sampleHash(), result: '1', conversationId: conversation.id, createdAtMs: startMs };
      await tx.idempotencyRecords.put(accountId, `key ${index}`, kept);
      const event = sampleEvent(conversation, { timestamp: timestamp(startMs + index) });
      const eventSequence = await tx.events.append(accountId, [event]);
      const sent = sampleDelivery(webhook.id, { eventId: event.id, eventSequence }, startMs + index);
      await tx.deliveries.insert(accountId, sent);
      for (const number of [1, 2]) await tx.deliveries.insertAttempt(sent.id, number, sampleAttempt());
    }
  });
  const reader = new Database(path, { readonly: true });
  onTestFinished(() => void reader.close());
  const count = reader
    .prepare(`SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM leads)
      + (SELECT count(*) FROM kept_results WHERE result IS NOT NULL)
      + (SELECT count(*) FROM events WHERE data <> '{"erased":true}')
      + (SELECT count(*) FROM attempts WHERE response_body IS NOT NULL)`)
    .pluck();
  file.left = () => count.get() as number;
  watching = true;
  let written = 0;
  let isDone = false;
  const erasing = (async () => {
    await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
    await finishErasures(storage);
    isDone = true;
  })();
  while (!isDone) {
    await storage.write(async (tx) => tx.conversations.markConverted(accountId, other.id));
    written++;
  }
  await erasing;
  left.push(file.left());
  expect([left[0], left.at(-1)]).toEqual([6 * size, 0]);
  expect(Math.max(...left.map((rows, index) => (left[index - 1] ?? rows) - rows))).toBeLessThanOrEqual(150);
  expect(written).toBeGreaterThan((6 * size) / 150);
});

test('the write-ahead log is emptied of what other processes have erased, even in many steps', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const storage = openSqliteStorage(path);
  onTestFinished(() => storage.close());
  onTestFinished(storage.watch(() => {})); // as a server does all the time
  const other = openSqliteStorage(path);
  const { id: accountId } = await storedAccount(other);
  const conversation = sampleConversation();
  await other.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    for (let sequence = 1; sequence <= 300; sequence++) {
      await tx.messages.insert(accountId, sampleMessage(conversation.id, sequence));
    }
  });
  const reader = new Database(path, { readonly: true });
  onTestFinished(() => void reader.close());
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM messages').get();
  await other.write(async (tx) => tx.conversations.erase(accountId, conversation));
  expect(await storage.read.conversations.erasing()).toHaveLength(1);
  await finishErasures(other);
  await other.close();
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
  reader.exec('COMMIT');
  await until(() => statSync(`${path}-wal`).size === 0);
});

test('the words of one text leave the index as fast as those of many, however long it takes to cut it into words', async () => {
  const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'));
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const words = Array.from({ length: 1_280 }, (_, index) => `word${index}`);
  const hard = 'ﷺ'.repeat(7_000); // which Unicode takes apart into eighteen characters each
  const many = Array.from({ length: 20 }, (_, index) => words.slice(64 * index, 64 * (index + 1)).join(' '));
  /** The processor time that some work takes: others may keep the machine busy. In microseconds. */
  const timeOf = async (work: () => unknown): Promise<number> => {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  /** The least of three. */
  const erasing = async (contents: readonly string[]): Promise<number> => {
    const times: number[] = [];
    for (let run = 0; run < 3; run++) {
      const conversation = await storedConversation(storage, accountId, contents);
      await indexTexts(storage);
      const erase = () => storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
      times.push(await timeOf(() => erase().then(() => finishErasures(storage))));
    }
    return Math.min(...times);
  };
  const ofMany = await erasing(many);
  const one = `${hard} ${words.join(' ')}`;
  const cutting = await timeOf(() => termsOf(one));
  // It is removed in twenty steps.
  expect(await erasing([one])).toBeLessThan(3 * ofMany + 5 * cutting);
});
