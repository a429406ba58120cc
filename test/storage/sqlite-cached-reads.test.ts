import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { textWeight, VersionedCache } from '../../src/runtime/versioned-cache.ts';
import { openSqliteStorage, type SqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { temporaryFolder } from '../support/files.ts';
import { sampleConversation, sampleMessage, storedAccount } from '../support/samples.ts';

// What was read is kept, and must never be what is seen of a change that is committed, here or in another process.

const firstPage = { filter: {}, sort: '-createdAt', limit: 5, offset: 0 } as const;

function open(path: string, onStatement?: (sql: string) => void): SqliteStorage {
  const storage = openSqliteStorage(path, { onStatement });
  onTestFinished(() => storage.close());
  return storage;
}

/** Everything that is kept of a conversation, as a reader sees it. */
async function seen({ read }: SqliteStorage, accountId: string, id: string) {
  const [one] = await read.conversations.findMany(accountId, [id]);
  const whole = await read.conversations.findWithMessages(accountId, id);
  const [messages] = await read.messages.ranges(accountId, [{ conversationId: id, from: 1, to: 10 }]);
  const { items } = await read.conversations.page(accountId, firstPage);
  return {
    subjects: [one?.subject, whole?.conversation.subject, ...items.map(({ subject }) => subject)],
    messages: [whole?.messages.length, messages?.length],
    total: await read.conversations.count(accountId, {}),
  };
}

test('cached reads show every change of this and of another process, and never one that was rolled back', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const [here, beside] = [open(path), open(path)];
  const { id: accountId } = await storedAccount(here);
  const first = sampleConversation({ subject: 'first', messageCount: 1 });
  await here.write(async (tx) => {
    await tx.conversations.insert(accountId, first);
    await tx.messages.insert(accountId, sampleMessage(first.id, 1));
  });
  const before = { subjects: ['first', 'first', 'first'], messages: [1, 1], total: 1 };
  for (let again = 0; again < 3; again++) expect(await seen(here, accountId, first.id)).toEqual(before);

  let latest = first;
  for (const writer of [here, beside]) {
    const next = { ...latest, subject: 'undone', version: latest.version + 1 };
    const undone = writer.write(async (tx) => {
      await tx.conversations.update(accountId, latest, next);
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect((await seen(here, accountId, first.id)).subjects).not.toContain('undone');

    // The same version again, with something else in it.
    const changed = { ...next, subject: `changed ${next.version}`, messageCount: latest.messageCount + 1 };
    await writer.write(async (tx) => {
      await tx.conversations.update(accountId, latest, changed);
      await tx.messages.insert(accountId, sampleMessage(first.id, changed.messageCount));
    });
    latest = changed;
    for (const reader of [here, beside, here, here]) {
      expect(await seen(reader, accountId, first.id)).toEqual({
        subjects: [changed.subject, changed.subject, changed.subject],
        messages: [changed.messageCount, changed.messageCount],
        total: 1,
      });
    }
  }

  await beside.write(async (tx) => tx.conversations.insert(accountId, sampleConversation({ subject: 'second' })));
  expect((await seen(here, accountId, first.id)).total).toBe(2);
  const other = await storedAccount(beside);
  expect(await here.read.conversations.findMany(other.id, [first.id])).toEqual([undefined]);
  expect(await here.read.conversations.findWithMessages(other.id, first.id)).toBeUndefined();
  const range = { conversationId: first.id, from: 1, to: 10 };
  expect(await here.read.messages.ranges(other.id, [range])).toEqual([[]]);
});

test('a value is cached on its second read, in no older version, and the least recently used is evicted at the limit', () => {
  const recent = new VersionedCache<string>(10_000);
  const keep = (id: string, version: number, value: string, weight = 3_000): void => {
    recent.keep(id, version, value, weight);
    expect(recent.get(id, version)).toBeUndefined(); // what nobody comes back to is not kept
    recent.keep(id, version, value, weight);
  };
  for (const id of ['a', 'b', 'c']) keep(id, 1, id);
  expect(recent.get('a', 1)).toBe('a'); // so that `b` was used longest ago
  keep('d', 1, 'd');
  expect(['a', 'b', 'c', 'd'].map((id) => recent.get(id, 1))).toEqual(['a', undefined, 'c', 'd']);
  keep('a', 2, 'A');
  expect([recent.get('a', 1), recent.get('a', 2), recent.get('a', 3)]).toEqual([undefined, 'A', undefined]);
  keep('e', 1, 'too heavy', 11_000);
  expect(recent.get('e', 1)).toBeUndefined();
});

test('values that are read only once count towards the limit, too, however many they are', () => {
  const recent = new VersionedCache<string>(10_000);
  const noteWeight = 100; // a place in the map, an object and the id take more
  for (let again = 0; again < 2; again++) recent.keep('kept', 1, 'kept', 1_000);
  const once = Array.from({ length: 200 }, (_, index) => `once ${index}`);
  for (const id of once) recent.keep(id, 1, id, 1);
  expect(recent.get('kept', 1)).toBeUndefined();
  // What is still known to have been made is kept when it is made again.
  const known = once.reverse().filter((id) => {
    recent.keep(id, 1, id, 1);
    return recent.get(id, 1) !== undefined;
  });
  expect(known.length).toBeGreaterThan(1);
  expect(known.length * noteWeight).toBeLessThanOrEqual(10_000);
});

test('a text takes one byte per character, or two per character if any of them needs two', () => {
  expect(['', 'Gruß', 'Grüße 🙂', 'мир'].map(textWeight)).toEqual([0, 4, 16, 6]);
});

test('cached values stay within the memory limit, however much of them is metadata', async () => {
  let isRead = false;
  const storage = open(join(temporaryFolder(), 'test.db'), (sql) => {
    isRead ||= sql.includes('"metadata"');
  });
  const { id: accountId } = await storedAccount(storage);
  const metadata = { note: 'x'.repeat(8_000) };
  const conversations = Array.from({ length: 450 }, () => sampleConversation({ metadata, messageCount: 3 }));
  await storage.write(async (tx) => {
    for (const conversation of conversations) {
      await tx.conversations.insert(accountId, conversation);
      for (const sequence of [1, 2, 3]) {
        await tx.messages.insert(accountId, sampleMessage(conversation.id, sequence, { metadata }));
      }
    }
  });
  const { read } = storage;
  const reads = [
    { mebibytes: 3, metadataEach: 1, ask: (id: string) => read.conversations.findMany(accountId, [id]) },
    { mebibytes: 9, metadataEach: 4, ask: (id: string) => read.conversations.findWithMessages(accountId, id) },
    {
      mebibytes: 3,
      metadataEach: 3,
      ask: (id: string) => read.messages.ranges(accountId, [{ conversationId: id, from: 1, to: 3 }]),
    },
  ];
  for (const { mebibytes, metadataEach, ask } of reads) {
    for (const { id } of conversations) for (let again = 0; again < 2; again++) await ask(id);
    let kept = 0;
    // Those first that were asked for last: whatever is read anew may take the place of another.
    for (const { id } of conversations.toReversed()) {
      isRead = false;
      await ask(id);
      if (!isRead) kept++;
    }
    const bytes = kept * metadataEach * metadata.note.length;
    expect(bytes).toBeGreaterThan((mebibytes - 1) * 1024 * 1024);
    expect(bytes).toBeLessThanOrEqual(mebibytes * 1024 * 1024);
  }
});

test('pages that are cached until the next commit stay within the memory limit, too', async () => {
  let isRead = false;
  const storage = open(join(temporaryFolder(), 'test.db'), (sql) => {
    isRead ||= sql.includes('from "conversations"');
  });
  const { id: accountId } = await storedAccount(storage);
  const metadata = { note: 'x'.repeat(8_000) };
  await storage.write(async (tx) => {
    for (let count = 0; count < 100; count++)
      await tx.conversations.insert(accountId, sampleConversation({ metadata }));
  });
  const ask = (createdAfter: number) =>
    storage.read.conversations.page(accountId, { ...firstPage, filter: { createdAfter }, limit: 100 });
  const filters = Array.from({ length: 10 }, (_, index) => index);
  for (const createdAfter of filters) expect((await ask(createdAfter)).items).toHaveLength(100);
  let kept = 0;
  for (const createdAfter of filters.reverse()) {
    isRead = false;
    await ask(createdAfter);
    if (!isRead) kept++;
  }
  expect(kept).toBeGreaterThan(0);
  expect(kept * 100 * metadata.note.length).toBeLessThanOrEqual(3 * 1024 * 1024);
});

test('unknown ids are not cached, so no number of them evicts anything', async () => {
  let reads = 0;
  const storage = open(join(temporaryFolder(), 'test.db'), (sql) => {
    if (sql.includes('from "conversations"')) reads++;
  });
  const { id: accountId } = await storedAccount(storage);
  const conversation = sampleConversation();
  await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
  const ask = (id: string) => storage.read.conversations.findMany(accountId, [id]);
  for (let again = 0; again < 3; again++) await ask(conversation.id);
  for (let index = 0; index < 5_000; index++) expect(await ask(`unknown ${index}`)).toEqual([undefined]);
  reads = 0;
  expect(await ask(conversation.id)).toEqual([conversation]);
  expect(reads).toBe(0);
});

test('one check for commits serves all reads until the event loop goes on, or while reads are held', async () => {
  let asked = 0;
  const path = join(temporaryFolder(), 'test.db');
  const beside = open(path);
  const { id: accountId } = await storedAccount(beside);
  const { read, holdReads } = open(path, (sql) => {
    if (sql === 'PRAGMA data_version') asked++;
  });
  /** Two requests, of which each reads three things; then somebody else writes. */
  async function readTwice(end = () => {}): Promise<{ totals: number[]; asked: number }> {
    const before = asked;
    const totals: number[] = [];
    for (let request = 0; request < 2; request++) {
      await read.accounts.find(accountId);
      totals.push(await read.conversations.count(accountId, {}));
      await read.conversations.page(accountId, firstPage);
      await new Promise<void>((resolve) => process.nextTick(resolve)); // as far as a request gets without waiting
    }
    end();
    const result = { totals, asked: asked - before };
    await nextTurn();
    await beside.write(async (tx) => tx.conversations.insert(accountId, sampleConversation({})));
    return result;
  }
  expect(await readTwice()).toEqual({ totals: [0, 0], asked: 2 });
  expect(await readTwice(holdReads())).toEqual({ totals: [1, 1], asked: 1 });
  expect(await readTwice()).toEqual({ totals: [2, 2], asked: 2 });
});

test('commits of this process are visible at once, even while reads are held', async () => {
  const storage = open(join(temporaryFolder(), 'test.db'));
  const { id: accountId } = await storedAccount(storage);
  const release = storage.holdReads();
  expect(await storage.read.conversations.count(accountId, {})).toBe(0);
  await storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation({})));
  expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  release();
});
