import { and, asc, eq, gt, gte, lt, sql } from 'drizzle-orm';
import type { RateWindowReads, RateWindowWrites } from '../../domain/ports.ts';
import type { Queries } from './queries.ts';
import { rateWindows } from './tables.ts';

const columns = { minute: rateWindows.minute, count: rateWindows.count, added: rateWindows.added };
const ofAccount = eq(rateWindows.accountId, sql.placeholder('accountId'));

export function rateWindowReads(db: Queries): RateWindowReads {
  const since = db
    .select(columns)
    .from(rateWindows)
    .where(and(ofAccount, gte(rateWindows.minute, sql.placeholder('minute')), gt(rateWindows.count, 0)))
    .orderBy(asc(rateWindows.minute))
    .prepare();
  return { since: (accountId, minute) => since.all({ accountId, minute }) };
}

export function rateWindowWrites(db: Queries): RateWindowWrites {
  const add = db
    .insert(rateWindows)
    .values({
      accountId: sql.placeholder('accountId'),
      minute: sql.placeholder('minute'),
      count: sql.placeholder('count'),
      added: sql`max(0, ${sql.placeholder('count')})`,
    })
    .onConflictDoUpdate({
      target: [rateWindows.accountId, rateWindows.minute],
      set: {
        count: sql`${rateWindows.count} + excluded.count`,
        added: sql`${rateWindows.added} + excluded.added`,
      },
    })
    .returning(columns)
    .prepare();
  const prune = db
    .delete(rateWindows)
    .where(and(ofAccount, lt(rateWindows.minute, sql.placeholder('minute'))))
    .prepare();
  return {
    add: (accountId, minute, count) => add.get({ accountId, minute, count }),
    prune: (accountId, minute) => {
      prune.run({ accountId, minute });
    },
  };
}
