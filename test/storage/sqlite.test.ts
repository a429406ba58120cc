import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import type { EventType } from '../../src/domain/event-types.ts';
import { timestamp } from '../../src/domain/time.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { temporaryFolder } from '../support/files.ts';
import {
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleMessage,
  sampleWebhook,
  startMs,
  storedAccount,
} from '../support/samples.ts';
import { storageContract } from './contract.ts';

interface EventRow {
  readonly sequence: number;
  readonly id: string;
  readonly type: EventType;
  readonly conversation_id: string;
  readonly timestamp: number;
  readonly data: string;
}

storageContract('SQLite', async () => {
  const path = join(temporaryFolder(), 'contract.db');
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
        data: JSON.parse(row.data),
      }));
    },
  };
});

test('a conversation is read in one snapshot, even if another process writes between two statements', async () => {
  const path = join(temporaryFolder(), 'test.db');
  let meanwhile = (_sql: string): void => {};
  const storage = openSqliteStorage(path, { onStatement: (sql) => meanwhile(sql) });
  onTestFinished(() => storage.close());
  const { id: accountId } = await storedAccount(storage);
  const conversation = sampleConversation({ messageCount: 1 });
  const message = sampleMessage(conversation.id, 1);
  await storage.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    await tx.messages.insert(accountId, message);
  });
  const connection = new Database(path);
  onTestFinished(() => void connection.close());
  let written = false;
  meanwhile = (sql) => {
    if (written || !sql.includes('from "messages"')) return;
    written = true;
    connection.exec(
      `UPDATE messages SET content = 'changed'; UPDATE conversations SET subject = 'changed', version = 2`,
    );
  };
  const found = await storage.read.conversations.findWithMessages(accountId, conversation.id);
  expect(written).toBe(true);
  expect(found).toEqual({ conversation, messages: [message] });
  await nextTurn();
  const again = await storage.read.conversations.findWithMessages(accountId, conversation.id);
  expect(again).toMatchObject({ conversation: { subject: 'changed' }, messages: [{ content: 'changed' }] });
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
        await tx.deliveries.insert(delivery);
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
    [2, 6, 6],
    [1, 4, 4],
  ]);
});
