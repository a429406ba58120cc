import { eq, sql } from 'drizzle-orm';
import type { Queries } from './queries.ts';
import { meta } from './tables.ts';

type Name = 'epoch' | 'token_key' | Counter;
type Counter = 'revocations' | 'erasures';

/** Prepares reading an entry of `meta`. */
export function metaValue(db: Queries, name: Name): () => string | undefined {
  const statement = db.select({ value: meta.value }).from(meta).where(eq(meta.name, name)).prepare();
  return () => statement.get()?.value;
}

/** Prepares reading a counter of `meta`. */
export function metaCounter(db: Queries, name: Counter): () => number {
  const value = metaValue(db, name);
  return () => Number(value() ?? 0);
}

/** Prepares adding 1 to a counter of `meta`. */
export function metaIncrement(db: Queries, name: Counter): () => void {
  const statement = db
    .update(meta)
    .set({ value: sql`${meta.value} + 1` })
    .where(eq(meta.name, name))
    .prepare();
  return () => void statement.run();
}
