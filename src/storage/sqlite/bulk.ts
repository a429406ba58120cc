import { and, eq, getTableColumns, getTableName, gt, isNotNull, max, notExists, sql, type Table } from 'drizzle-orm';
import { erasedJson } from '../../domain/events.ts';
import { analyticsAddition } from './analytics.ts';
import type { BulkRows, RowList } from './bulk-rows.ts';
import { pause } from './busy-retry.ts';
import { openQueries } from './compiled-queries.ts';
import { eventReads } from './events.ts';
import { type Connection, openWriter, stopBlocking } from './open.ts';
import type { Queries } from './queries.ts';
import { refuseSuperseded } from './schema-guard.ts';
import { accountTotals, conversations, events, leads, messages } from './tables.ts';
import { scoped } from './transaction-scope.ts';
import { emptyLog } from './write-ahead-log.ts';
import { Writer } from './writer.ts';

// The second half of bulk loading: inserting rows that were made elsewhere, with as few checks as possible. The result
// is the same as if the operations had written it, several times as fast.

/** The write-ahead log is checkpointed at 64 MiB: a page that changes many times is copied to the file only once. */
const checkpointPages = 16 * 1024;
/** Room for the index pages over which rows are scattered. */
const cacheKiB = 16 * 1024;
/** After another process has committed, it is expected to do so again for this long. */
const contentionMs = 1_000;

/**
 * Adds rows to a migrated file, which other processes may be using. They are durable at the latest when it is closed:
 * with `synchronous=NORMAL` a power cut before that can undo the last transactions, but never half of one.
 */
export class BulkWriter {
  readonly #connection: Connection;
  readonly #writer: Writer<{ add(rows: BulkRows): void }>;
  #version: unknown;
  #contendedUntilMs = 0;

  /** @param busyTimeoutMs how long to wait for a lock that another process holds */
  constructor(path: string, { busyTimeoutMs }: { busyTimeoutMs: number }) {
    this.#connection = openWriter(path);
    this.#connection.pragma('synchronous = NORMAL');
    this.#connection.pragma('foreign_keys = OFF'); // rows are made together with those that they refer to
    this.#connection.pragma(`cache_size = -${cacheKiB}`);
    this.#connection.pragma(`wal_autocheckpoint = ${checkpointPages}`);
    stopBlocking(this.#connection);
    this.#version = this.#dataVersion();
    const transaction = scoped({ add: addition(openQueries(this.#connection)) }, this.#connection);
    this.#writer = new Writer(this.#connection, transaction, {
      busyTimeoutMs,
      onBegin: refuseSuperseded(this.#connection),
    });
  }

  /**
   * Adds all of the rows or none. If other processes are writing too, it then pauses for as long as adding them took.
   * @throws UNAVAILABLE, also when a newer version has migrated the file
   */
  async write(rows: BulkRows): Promise<void> {
    const heldMs = await this.#writer.write(async (tx) => {
      const startedMs = performance.now();
      tx.add(rows);
      return performance.now() - startedMs;
    });
    const version = this.#dataVersion();
    if (version !== this.#version) this.#contendedUntilMs = performance.now() + contentionMs;
    this.#version = version;
    if (performance.now() < this.#contendedUntilMs) await pause(heldMs);
  }

  async close(): Promise<void> {
    await this.#writer.close();
    emptyLog(this.#connection);
    this.#connection.close();
  }

  /** Changes when another connection commits. */
  #dataVersion(): unknown {
    return this.#connection.pragma('data_version', { simple: true });
  }
}

function addition(db: Queries): (rows: BulkRows) => void {
  const lastKey = db
    .select({ key: max(conversations.key) })
    .from(conversations)
    .prepare();
  const addConversations = prepareInsert(db, conversations, 'key');
  const addMessages = prepareInsert(db, messages, 'conversationKey');
  const addLeads = prepareInsert(db, leads);
  const addEvents = prepareInsert(db, events, 'sequence');
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
  const clearErased = db
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
    const last = count.get({ ...totals, events: rows.events.count, accountId });
    if (last === undefined) throw new Error(`The account ${accountId} has no counters`);
    const firstKey = (lastKey.get()?.key ?? 0) + 1;
    addConversations(rows.conversations, firstKey);
    addMessages(rows.messages, firstKey);
    addLeads(rows.leads);
    const after = last.sequence - rows.events.count;
    addEvents(rows.events, after + 1);
    // A conversation may have been erased after it was added, but before its events were.
    if (erasures() !== erasuresBefore) clearErased.run({ accountId, after });
    addHappenings(accountId, rows.happenings);
  };
}

/** How many rows one statement adds at most. To start and to end a statement costs as much as a row or two. */
const maxRows = 8;

/**
 * Returns a function that inserts rows. Values are bound by position: with so many, finding each by its name would cost
 * too much. With `OR FAIL` a statement keeps no journal for undoing itself alone: when one fails, the whole transaction
 * is rolled back.
 * @param counted the column whose values count from 0 in the rows; `from` is added to them
 */
function prepareInsert(db: Queries, table: Table, counted?: string): (rows: RowList, from?: number) => void {
  const columns = Object.entries(getTableColumns(table));
  const names = columns.map(([, { name }]) => name).join(', ');
  const row = `(${columns.map(([key]) => (key === counted ? '? + @from' : '?')).join(', ')})`;
  const insertions = Array.from({ length: maxRows }, (_, more) =>
    db.$client.prepare<unknown[]>(
      `INSERT OR FAIL INTO ${getTableName(table)} (${names}) VALUES ${row}${`, ${row}`.repeat(more)}`,
    ),
  );
  return ({ count, values }, from = 0) => {
    for (let done = 0; done < count; done += maxRows) {
      const next = Math.min(done + maxRows, count);
      const bound = values.slice(done * columns.length, next * columns.length);
      insertions[next - done - 1]?.run(bound, ...(counted === undefined ? [] : [{ from }]));
    }
  };
}
