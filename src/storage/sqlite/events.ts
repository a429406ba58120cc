import { and, asc, eq, getTableColumns, gt, gte, lt, lte, sql } from 'drizzle-orm';
import { type EventFilter, erasedJson, type StoredEvent } from '../../domain/events.ts';
import type { EventReads, EventWrites } from '../../domain/storage-port.ts';
import { metaCounter, metaValue } from './meta.ts';
import { inList, isBeingErased, jsonList, listed, type Queries } from './queries.ts';
import { toMs, toTimestamp } from './rows.ts';
import { accounts, accountTotals, events } from './tables.ts';

type Row = typeof events.$inferSelect;

/** The columns for every read of an event, without its data if its conversation is being erased. */
export const eventColumns = {
  ...getTableColumns(events),
  data: sql<string>`CASE WHEN ${isBeingErased('events')} THEN ${erasedJson} ELSE ${events.data} END`,
};

export function toEvent(row: Row): StoredEvent {
  return {
    id: row.id,
    type: row.type,
    timestamp: toTimestamp(row.timestamp),
    conversationId: row.conversationId,
    sequence: row.sequence,
    dataJson: row.data,
  };
}

const ofAccount = eq(events.accountId, sql.placeholder('accountId'));

function prepareAfter(db: Queries, { types, conversationId }: EventFilter) {
  return db
    .select(eventColumns)
    .from(events)
    .where(
      and(
        ofAccount,
        gt(events.sequence, sql.placeholder('from')),
        lte(events.sequence, sql.placeholder('to')),
        // Otherwise SQLite expects a range of sequences to be narrow, and would walk the whole log.
        conversationId === undefined
          ? undefined
          : sql`unlikely(${eq(events.conversationId, sql.placeholder('conversationId'))})`,
        // The unary plus keeps SQLite from using any index but the one by sequence.
        types === undefined ? undefined : sql`+${events.type} IN ${listed('types')}`,
      ),
    )
    .orderBy(asc(events.sequence))
    .limit(sql.placeholder('limit'))
    .prepare();
}

export function eventReads(db: Queries): EventReads {
  const epoch = metaValue(db, 'epoch');
  const last = db
    .select({ sequence: accountTotals.eventSequence })
    .from(accountTotals)
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();
  const first = db
    .select({ sequence: events.sequence })
    .from(events)
    .where(ofAccount)
    .orderBy(asc(events.sequence))
    .limit(1)
    .prepare();
  const lastSequences = db
    .select({ accountId: accountTotals.accountId, sequence: accountTotals.eventSequence })
    .from(accountTotals)
    .where(inList(accountTotals.accountId, 'accountIds'))
    .prepare();
  const afters = new Map<string, ReturnType<typeof prepareAfter>>();
  let known: string | undefined;

  const lastOf = (accountId: string): number => last.get({ accountId })?.sequence ?? 0;
  const bounds = db.$client.transaction((accountId: string) => {
    const end = lastOf(accountId);
    return { first: first.get({ accountId })?.sequence ?? end + 1, last: end };
  });
  return {
    epoch: () => {
      known ??= epoch(); // it only changes while nobody has the database open
      if (known === undefined) throw new Error('The database has no epoch');
      return known;
    },
    erasures: metaCounter(db, 'erasures'),
    bounds: (accountId) => bounds(accountId),
    lastSequences: (accountIds) => {
      const rows = new Map(
        lastSequences.all({ accountIds: jsonList(accountIds) }).map((row) => [row.accountId, row.sequence]),
      );
      return accountIds.map((accountId) => rows.get(accountId) ?? 0);
    },
    after: (accountId, sequence, { filter, limit, span }) => {
      // The end is read first: what is appended in between is left to the next read.
      const to = Math.min(lastOf(accountId), sequence + span);
      const shape = `${filter.types === undefined} ${filter.conversationId === undefined}`;
      const statement = afters.get(shape) ?? prepareAfter(db, filter);
      afters.set(shape, statement);
      const found = statement
        .all({
          accountId,
          from: sequence,
          to,
          limit,
          conversationId: filter.conversationId,
          types: jsonList(filter.types ?? []),
        })
        .map(toEvent);
      // A full page ends at its last event; otherwise everything up to the end was scanned.
      const scannedTo = found.length === limit ? found.at(-1)?.sequence : Math.max(sequence, to);
      return { events: found, scannedTo: scannedTo ?? sequence };
    },
  };
}

/** @param onAppend called with the account whose log has grown; the transaction may still be rolled back */
export function eventWrites(db: Queries, onAppend: (accountId: string) => void): EventWrites {
  const advance = db
    .update(accountTotals)
    .set({ eventSequence: sql`${accountTotals.eventSequence} + ${sql.placeholder('count')}` })
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .returning({ last: accountTotals.eventSequence })
    .prepare();
  const insert = db
    .insert(events)
    .values({
      accountId: sql.placeholder('accountId'),
      sequence: sql.placeholder('sequence'),
      id: sql.placeholder('id'),
      type: sql.placeholder('type'),
      conversationId: sql.placeholder('conversationId'),
      timestamp: sql.placeholder('timestamp'),
      data: sql.placeholder('data'),
    })
    .prepare();
  const accountWithOldest = db
    .select({ accountId: events.accountId })
    .from(events)
    .where(lt(events.timestamp, sql.placeholder('before')))
    .orderBy(asc(events.timestamp))
    .limit(1)
    .prepare();
  const accountWithOldFront = db
    .select({ id: accounts.id })
    .from(accounts)
    .where(
      and(
        gte(accounts.id, sql.placeholder('from')),
        sql`(SELECT events.timestamp FROM events WHERE events.account_id = accounts.id ORDER BY events.sequence LIMIT 1)
          < ${sql.placeholder('before')}`,
      ),
    )
    .orderBy(asc(accounts.id))
    .limit(1)
    .prepare();
  const oldest = db
    .select({ sequence: events.sequence, timestamp: events.timestamp })
    .from(events)
    .where(ofAccount)
    .orderBy(asc(events.sequence))
    .limit(sql.placeholder('limit'))
    .prepare();
  const removeUpTo = db
    .delete(events)
    .where(and(ofAccount, lte(events.sequence, sql.placeholder('sequence'))))
    .prepare();
  /** Removes from the front only: where the clock went back, removing by time would leave a gap in the log. */
  const removeFront = (accountId: string, before: number, limit: number): number => {
    const rows = oldest.all({ accountId, limit });
    const young = rows.findIndex(({ timestamp }) => timestamp >= before);
    const last = rows[(young === -1 ? rows.length : young) - 1];
    return last === undefined ? 0 : removeUpTo.run({ accountId, sequence: last.sequence }).changes;
  };
  /** The account found last: its events take many steps to remove, and the accounts before it had nothing to remove. */
  let from = '';
  /** Finds an account whose first event is old, checking one account after another, all of them if need be. */
  const findOldFront = (before: number): string | undefined => {
    const behind = accountWithOldFront.get({ from, before });
    const found = behind === undefined && from !== '' ? accountWithOldFront.get({ from: '', before }) : behind;
    from = found?.id ?? '';
    return found?.id;
  };
  return {
    append: (accountId, added) => {
      const row = advance.get({ accountId, count: added.length });
      if (row === undefined) throw new Error(`The account ${accountId} has no counters`);
      const first = row.last - added.length + 1;
      for (const [index, event] of added.entries()) {
        insert.run({
          ...event,
          accountId,
          sequence: first + index,
          timestamp: toMs(event.timestamp),
          data: JSON.stringify(event.data),
        });
      }
      if (added.length > 0) onAppend(accountId);
      return row.last;
    },
    prune: (before, limit) => {
      let removed = 0;
      while (removed < limit) {
        const found = accountWithOldest.get({ before });
        if (found === undefined) break;
        let count = removeFront(found.accountId, before, limit - removed);
        if (count === 0) {
          // The oldest event lies behind a younger one, as may any number of others, which are not to be walked over.
          const accountId = findOldFront(before);
          if (accountId === undefined) break;
          count = removeFront(accountId, before, limit - removed);
        }
        removed += count;
      }
      return removed;
    },
  };
}
