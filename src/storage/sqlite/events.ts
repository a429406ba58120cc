import { eq, sql } from 'drizzle-orm';
import type { EventReads, EventWrites } from '../../domain/ports.ts';
import type { Queries } from './queries.ts';
import { toMs } from './rows.ts';
import { accountTotals, events, meta } from './tables.ts';

export function eventReads(db: Queries): EventReads {
  const epoch = db.select({ value: meta.value }).from(meta).where(eq(meta.name, 'epoch')).prepare();
  return {
    epoch: () => {
      const row = epoch.get();
      if (row === undefined) throw new Error('The database has no epoch');
      return row.value;
    },
  };
}

export function eventWrites(db: Queries): EventWrites {
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
      return row.last;
    },
  };
}
