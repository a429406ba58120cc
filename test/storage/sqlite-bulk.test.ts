import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { BulkWriter } from '../../src/storage/sqlite/bulk.ts';
import {
  type BulkRows,
  conversationRow,
  eventRow,
  leadRow,
  messageRow,
  type Row,
  Rows,
} from '../../src/storage/sqlite/bulk-rows.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { temporaryFolder } from '../support/files.ts';
import {
  sampleConversation,
  sampleEvent,
  sampleLead,
  sampleMessage,
  start,
  storedAccount,
  storedEvent,
} from '../support/samples.ts';

// What comes of rows in bulk is held against the operations in test/cli/history.test.ts. Here is what is the file's.

async function open({ busyTimeoutMs = 5_000 } = {}) {
  const path = join(temporaryFolder(), 'test.db');
  const storage = openSqliteStorage(path);
  const writer = new BulkWriter(path, { busyTimeoutMs });
  onTestFinished(async () => {
    await writer.close();
    await storage.close();
  });
  const { id } = await storedAccount(storage);
  return { path, storage, writer, accountId: id };
}

function rowsOf(...rows: Row[]): Rows {
  const list = new Rows();
  for (const row of rows) list.add(row);
  return list;
}

function sampleRows(accountId: string) {
  const conversation = sampleConversation({
    status: 'closed',
    visitor: { id: null, name: 'Ada', email: null },
    metadata: { plan: 'gold', cart: 45.1 },
    messageCount: 1,
    closedAt: start,
  });
  const message = sampleMessage(conversation.id, 1);
  const lead = sampleLead({ conversationId: conversation.id });
  const event = sampleEvent(conversation);
  const rows: BulkRows = {
    accountId,
    totals: { active: 0, pending: 0, closed: 1, leads: 1 },
    conversations: rowsOf(conversationRow(accountId, conversation, 0, true)),
    messages: rowsOf(messageRow(0, message)),
    leads: rowsOf(leadRow(accountId, lead)),
    events: rowsOf(eventRow(accountId, event, 0)),
    happenings: new Map(),
  };
  return { rows, conversation, message, lead, event };
}

test('rows are read back as what they were made from', async () => {
  const { storage, writer, accountId } = await open();
  const { rows, conversation, message, lead, event } = sampleRows(accountId);
  await writer.write(rows);
  expect(await storage.read.conversations.findWithMessages(accountId, conversation.id)).toEqual({
    conversation,
    messages: [message],
  });
  expect(await storage.read.leads.find(accountId, lead.id)).toEqual(lead);
  const { events } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 10, span: 10 });
  expect(events).toEqual([storedEvent(event, 1)]);
  const marked = await storage.write(async (tx) => tx.conversations.markConverted(accountId, conversation.id));
  expect(marked, 'its lead is known').toBe(false);
});

test('either all rows of a batch are added or none', async () => {
  const { storage, writer, accountId } = await open();
  const { rows } = sampleRows(accountId);
  await writer.write(rows);
  const { rows: more } = sampleRows(accountId);
  const twice = { ...more, leads: rows.leads };
  await expect(writer.write(twice)).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_UNIQUE' });
  expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  expect(await storage.read.leads.count(accountId)).toBe(1);
  await writer.write(more);
  expect(await storage.read.events.bounds(accountId)).toEqual({ first: 1, last: 2 });
});

test('a lock of another process is waited for, until a timeout leads to UNAVAILABLE', async () => {
  const { path, storage, writer, accountId } = await open({ busyTimeoutMs: 100 });
  const { rows } = sampleRows(accountId);
  const other = new Database(path);
  onTestFinished(() => void other.close());
  other.exec('BEGIN IMMEDIATE');
  await expect(writer.write(rows)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  const write = writer.write(rows);
  await sleep(20);
  other.exec('COMMIT');
  await write;
  expect(await storage.read.conversations.count(accountId, {})).toBe(1);
});

test('a file that a newer version has migrated meanwhile is no longer written', async () => {
  const { path, storage, writer, accountId } = await open();
  await writer.write(sampleRows(accountId).rows);
  const newer = new Database(path);
  newer.exec(`BEGIN IMMEDIATE;
    ALTER TABLE leads ADD COLUMN colour TEXT;
    INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of the future', 9e12);
    COMMIT`);
  newer.close();
  await expect(writer.write(sampleRows(accountId).rows)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  expect(await storage.read.leads.count(accountId)).toBe(1);
});
