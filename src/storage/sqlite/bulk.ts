import { and, eq, getTableColumns, getTableName, gt, isNotNull, notExists, sql, type Table } from 'drizzle-orm';
import { erasedJson } from '../../domain/events.ts';
import { analyticsAddition } from './analytics.ts';
import type { BulkRows } from './bulk-rows.ts';
import { openQueries } from './compiled.ts';
import { eventReads } from './events.ts';
import { leased } from './guard.ts';
import { type Connection, openWriter, stopBlocking } from './open.ts';
import type { Queries } from './queries.ts';
import { checkpoint } from './storage.ts';
import { accountTotals, conversations, events, leads, messages } from './tables.ts';
import { pause, Writer } from './writer.ts';

// The second half of writing in bulk: rows that were made elsewhere are added, and nothing is looked at but what has
// to be. It comes to what the operations would have written, several times as fast.

/** How long the write-ahead log may grow, 64 MiB: a page that is changed again and again is copied to the file once. */
const checkpointPages = 16 * 1024;
/** After somebody else has written, they are expected to write again for so long. */
const companyMs = 1_000;

/**
 * Adds rows to a file that has its tables, beside others that use it. What it has added is on the disk at the latest
 * when it is closed: with `synchronous=NORMAL` a power cut can undo the last of it, but leaves nothing half done.
 */
export class BulkWriter {
  readonly #connection: Connection;
  readonly #writer: Writer<{ add(rows: BulkRows): void }>;
  #version: unknown;
  #companyUntilMs = 0;

  /** @param busyTimeoutMs how long to wait for a lock that another process holds */
  constructor(path: string, { busyTimeoutMs }: { busyTimeoutMs: number }) {
    this.#connection = openWriter(path);
    this.#connection.pragma('synchronous = NORMAL');
    this.#connection.pragma(`wal_autocheckpoint = ${checkpointPages}`);
    stopBlocking(this.#connection);
    this.#version = this.#dataVersion();
    const transaction = leased({ add: addition(openQueries(this.#connection)) }, this.#connection);
    this.#writer = new Writer(this.#connection, transaction, { busyTimeoutMs });
  }

  /**
   * Adds all of the rows or none, and leaves as much time to others as that took them, if there are others.
   * @throws UNAVAILABLE
   */
  async write(rows: BulkRows): Promise<void> {
    const heldMs = await this.#writer.write(async (tx) => {
      const startedMs = performance.now();
      tx.add(rows);
      return performance.now() - startedMs;
    });
    const version = this.#dataVersion();
    if (version !== this.#version) this.#companyUntilMs = performance.now() + companyMs;
    this.#version = version;
    if (performance.now() < this.#companyUntilMs) await pause(heldMs);
  }

  async close(): Promise<void> {
    await this.#writer.close();
    checkpoint(this.#connection);
    this.#connection.close();
  }

  /** Changes when another connection has committed. */
  #dataVersion(): unknown {
    return this.#connection.pragma('data_version', { simple: true });
  }
}

function addition(db: Queries): (rows: BulkRows) => void {
  const addConversation = prepareInsert(db, conversations);
  const addMessage = prepareInsert(db, messages, 'conversationKey');
  const addLead = prepareInsert(db, leads);
  const addEvent = prepareInsert(db, events, 'sequence');
  const addHappenings = analyticsAddition(db);
  const count = db
    .update(accountTotals)
    .set({
      active: sql`${accountTotals.active} + ${sql.placeholder('active')}`,
      pending: sql`${accountTotals.pending} + ${sql.placeholder('pending')}`,
      closed: sql`${accountTotals.closed} + ${sql.placeholder('closed')}`,
      leads: sql`${accountTotals.leads} + ${sql.placeholder('leads')}`,
      eventSequence: sql`${accountTotals.eventSequence} + ${sql.placeholder('events')}`,
    })
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .returning({ sequence: accountTotals.eventSequence })
    .prepare();
  const forgetErased = db
    .update(events)
    .set({ data: erasedJson })
    .where(
      and(
        eq(events.accountId, sql.placeholder('accountId')),
        gt(events.sequence, sql.placeholder('after')),
        isNotNull(events.conversationId),
        notExists(
          db
            .select({ one: sql`1` })
            .from(conversations)
            .where(and(eq(conversations.accountId, events.accountId), eq(conversations.id, events.conversationId))),
        ),
      ),
    )
    .prepare();
  const { erasures } = eventReads(db);
  const erasuresBefore = erasures();
  return (rows) => {
    const { accountId, totals } = rows;
    const last = count.get({ ...totals, events: rows.events.length, accountId });
    if (last === undefined) throw new Error(`The account ${accountId} has no counters`);
    for (const { values, messages } of rows.conversations) {
      const { lastInsertRowid: key } = addConversation.run(...values);
      for (const message of messages) addMessage.run(key, ...message);
    }
    for (const values of rows.leads) addLead.run(...values);
    const after = last.sequence - rows.events.length;
    for (const [index, values] of rows.events.entries()) addEvent.run(after + index + 1, ...values);
    // A conversation may have been erased since it was added, before its events have come.
    if (erasures() !== erasuresBefore) forgetErased.run({ accountId, after });
    addHappenings(accountId, rows.happenings);
  };
}

/**
 * An insertion whose values are bound as they come: for so many rows, finding each by its name would cost too much.
 * @param first the column whose value comes first; the others have their table's order
 */
function prepareInsert(db: Queries, table: Table, first?: string) {
  const columns = Object.entries(getTableColumns(table));
  columns.sort(([one], [other]) => Number(other === first) - Number(one === first));
  const names = columns.map(([, { name }]) => name);
  return db.$client.prepare<unknown[]>(
    `INSERT INTO ${getTableName(table)} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
  );
}
