import { and, asc, eq, getTableColumns, inArray, lt, sql } from 'drizzle-orm';
import type { KeptResultReads, KeptResultWrites } from '../../domain/storage-port.ts';
import { isBeingErased, type Queries } from './queries.ts';
import { keptResults } from './tables.ts';

export function keptResultReads(db: Queries): KeptResultReads {
  const find = db
    .select({
      ...getTableColumns(keptResults),
      result: sql<string | null>`CASE WHEN ${isBeingErased('kept_results')} THEN NULL ELSE ${keptResults.result} END`,
    })
    .from(keptResults)
    .where(
      and(
        eq(keptResults.accountId, sql.placeholder('accountId')),
        eq(keptResults.idempotencyKey, sql.placeholder('key')),
      ),
    )
    .prepare();
  return {
    find: (accountId, key) => {
      const row = find.get({ accountId, key });
      return (
        row && {
          fingerprint: row.fingerprint,
          result: row.result,
          conversationId: row.conversationId,
          createdAtMs: row.createdAt,
        }
      );
    },
  };
}

export function keptResultWrites(db: Queries): KeptResultWrites {
  const put = db
    .insert(keptResults)
    .values({
      accountId: sql.placeholder('accountId'),
      idempotencyKey: sql.placeholder('key'),
      fingerprint: sql.placeholder('fingerprint'),
      result: sql.placeholder('result'),
      conversationId: sql.placeholder('conversationId'),
      createdAt: sql.placeholder('createdAtMs'),
    })
    .onConflictDoUpdate({
      target: [keptResults.accountId, keptResults.idempotencyKey],
      set: {
        fingerprint: sql`excluded.fingerprint`,
        result: sql`excluded.result`,
        conversationId: sql`excluded.conversation_id`,
        createdAt: sql`excluded.created_at`,
      },
    })
    .prepare();
  const removeOldest = db
    .delete(keptResults)
    .where(
      inArray(
        sql`rowid`,
        db
          .select({ rowid: sql`rowid` })
          .from(keptResults)
          .where(lt(keptResults.createdAt, sql.placeholder('beforeMs')))
          .orderBy(asc(keptResults.createdAt))
          .limit(sql.placeholder('limit')),
      ),
    )
    .prepare();
  return {
    put: (accountId, key, kept) => {
      put.run({ ...kept, accountId, key });
    },
    prune: (beforeMs, limit) => removeOldest.run({ beforeMs, limit }).changes,
  };
}
