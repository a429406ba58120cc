import { and, asc, eq, gt, gte, lt, sql } from 'drizzle-orm';
import type { RateWindowReads, RateWindowWrites } from '../../domain/storage-port.ts';
import type { Queries } from './queries.ts';
import { rateClock, rateWindows } from './tables.ts';

const columns = { minute: rateWindows.minute, count: rateWindows.count };
/** The key of the only row of `rate_clock`. */
const onlyKey = 1;
const ofAccount = eq(rateWindows.accountId, sql.placeholder('accountId'));

export function rateWindowReads(db: Queries): RateWindowReads {
  const since = db
    .select(columns)
    .from(rateWindows)
    .where(and(ofAccount, gte(rateWindows.minute, sql.placeholder('minute')), gt(rateWindows.count, 0)))
    .orderBy(asc(rateWindows.minute))
    .prepare();
  const { atMs, wallMs, uptimeMs, boot } = rateClock;
  const clock = db.select({ atMs, wallMs, uptimeMs, boot }).from(rateClock).where(eq(rateClock.key, onlyKey)).prepare();
  return { clock: () => clock.get(), since: (accountId, minute) => since.all({ accountId, minute }) };
}

export function rateWindowWrites(db: Queries): RateWindowWrites {
  const add = db
    .insert(rateWindows)
    .values({
      accountId: sql.placeholder('accountId'),
      minute: sql.placeholder('minute'),
      count: sql.placeholder('count'),
    })
    .onConflictDoUpdate({
      target: [rateWindows.accountId, rateWindows.minute],
      set: { count: sql`${rateWindows.count} + excluded.count` },
    })
    .returning(columns)
    .prepare();
  const prune = db
    .delete(rateWindows)
    .where(and(ofAccount, lt(rateWindows.minute, sql.placeholder('minute'))))
    .prepare();
  const setClock = db
    .insert(rateClock)
    .values({
      key: onlyKey,
      atMs: sql.placeholder('atMs'),
      wallMs: sql.placeholder('wallMs'),
      uptimeMs: sql.placeholder('uptimeMs'),
      boot: sql.placeholder('boot'),
    })
    .onConflictDoUpdate({
      target: rateClock.key,
      set: {
        atMs: sql`excluded.at`,
        wallMs: sql`excluded.wall`,
        uptimeMs: sql`excluded.uptime`,
        boot: sql`excluded.boot`,
      },
    })
    .prepare();
  return {
    setClock: (reading) => {
      setClock.run({ ...reading });
    },
    add: (accountId, minute, count) => add.get({ accountId, minute, count }),
    prune: (accountId, minute) => {
      prune.run({ accountId, minute });
    },
  };
}
