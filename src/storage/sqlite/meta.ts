import type { Statements } from './statements.ts';
import type { meta } from './tables.ts';

type Name = 'epoch' | 'token_key' | Counter;
type Counter = 'revocations' | 'erasures';

/** Prepares reading an entry of `meta`. */
export function metaValue(db: Statements, name: Name): () => string | undefined {
  const statement = db.prepare<Pick<typeof meta.$inferSelect, 'value'>>('SELECT value FROM meta WHERE name = :name');
  return () => statement.get({ name })?.value;
}

/** Prepares reading the key that signs tokens. */
export function metaTokenKey(db: Statements): () => Uint8Array {
  const tokenKey = metaValue(db, 'token_key');
  return () => {
    const hex = tokenKey();
    if (hex === undefined) throw new Error('The database has no key to sign tokens with');
    return Buffer.from(hex, 'hex');
  };
}

/** Prepares reading a counter of `meta`. */
export function metaCounter(db: Statements, name: Counter): () => number {
  const value = metaValue(db, name);
  return () => Number(value() ?? 0);
}

/** Prepares adding 1 to a counter of `meta`. */
export function metaIncrement(db: Statements, name: Counter): () => void {
  const statement = db.prepare('UPDATE meta SET value = value + 1 WHERE name = :name');
  return () => void statement.run({ name });
}
