import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import type { EventType } from '../../src/domain/event-types.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { timestamp } from '../../src/domain/time.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import {
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleMessage,
  sampleWebhook,
  startMs,
  storedAccount,
} from '../support/samples.ts';
import { wholeConversation } from '../support/whole-conversation.ts';
import { storageContract } from './contract.ts';

interface EventRow {
  readonly sequence: number;
  readonly id: string;
  readonly type: EventType;
  readonly conversation_id: string;
  readonly visitor_hash: string | null;
  readonly timestamp: number;
  readonly data: string;
}

storageContract('SQLite', async () => {
  const path = await putMigrated(join(temporaryFolder(), 'contract.db'));
  let storage = openSqliteStorage(path);
  onTestFinished(() => storage.close());
  return {
    storage,
    async reopen() {
      await storage.close();
      storage = openSqliteStorage(path);
      return storage;
    },
    async beside() {
      // What SQLite tells one connection of another is the same within a process and across.
      const other = openSqliteStorage(path);
      onTestFinished(() => other.close());
      return other;
    },
    async log(accountId) {
      const connection = new Database(path, { readonly: true });
      const rows = connection
        .prepare<[string], EventRow>('SELECT * FROM events WHERE account_id = ? ORDER BY sequence')
        .all(accountId);
      connection.close();
      return rows.map((row) => ({
        sequence: row.sequence,
        id: row.id,
        type: row.type,
        timestamp: timestamp(row.timestamp),
        conversationId: row.conversation_id,
        hasVisitor: row.visitor_hash !== null,
        data: JSON.parse(row.data),
      }));
    },
  };
});

const firstPage = { filter: {}, sort: '-createdAt', limit: 5, offset: 0 } as const;

/** What every kind of read shows of a conversation. */
async function seen({ read }: Storage, accountId: string, id: string) {
  const [one] = await read.conversations.findMany(accountId, [id]);
  const whole = await wholeConversation(read, accountId, id);
  const [messages] = await read.messages.ranges(accountId, [{ conversationId: id, from: 1, to: 10 }]);
  const { items } = await read.conversations.page(accountId, firstPage);
  return {
    subjects: [one?.subject, whole?.conversation.subject, ...items.map(({ subject }) => subject)],
    messages: [whole?.messages.length, messages?.length],
    total: await read.conversations.count(accountId, {}),
  };
}

test('reads show every change of this and of another process, and never one that was rolled back', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const [here, beside] = [openSqliteStorage(path), openSqliteStorage(path)];
  onTestFinished(() => here.close());
  onTestFinished(() => beside.close());
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
  expect(await wholeConversation(here.read, other.id, first.id)).toBeUndefined();
  const range = { conversationId: first.id, from: 1, to: 10 };
  expect(await here.read.messages.ranges(other.id, [range])).toEqual([[]]);
});

test('a removed webhook is deleted after the last of its deliveries is pruned, and leaves nothing behind', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const storage = openSqliteStorage(path);
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const webhooks = [sampleWebhook(), sampleWebhook(), sampleWebhook()];
  await storage.write(async (tx) => {
    for (const [index, webhook] of webhooks.entries()) {
      await tx.webhooks.insert(accountId, webhook);
      for (let count = 0; count < 4; count++) {
        const delivery = sampleDelivery(webhook.id);
        await tx.deliveries.insert(accountId, delivery);
        await tx.deliveries.insertAttempt(delivery.id, 1, sampleAttempt());
      }
      if (index > 0) await tx.webhooks.remove(accountId, webhook.id);
    }
  });
  const connection = new Database(path, { readonly: true });
  onTestFinished(() => void connection.close());
  const rows = () =>
    ['webhooks', 'deliveries', 'attempts'].map((table) => connection.prepare(`SELECT * FROM ${table}`).all().length);
  const seen = [rows()];
  for (let removed = 3; removed === 3; ) {
    removed = await storage.write(async (tx) => tx.deliveries.prune(startMs, 3));
    seen.push(rows());
  }
  expect(seen).toEqual([
    [3, 12, 12],
    [3, 9, 9],
    [2, 7, 7],
    [2, 4, 4],
    [1, 4, 4],
  ]);
});

test('removed webhooks without deliveries are deleted a few at a time, too', async () => {
  const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'));
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  await storage.write(async (tx) => {
    for (const webhook of [sampleWebhook(), sampleWebhook(), sampleWebhook()]) {
      await tx.webhooks.insert(accountId, webhook);
      await tx.webhooks.remove(accountId, webhook.id);
    }
  });
  const prune = () => storage.write(async (tx) => tx.deliveries.prune(startMs, 2));
  expect([await prune(), await prune(), await prune()]).toEqual([2, 1, 0]);
});
