import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3';
import type { Connection } from './open.ts';

/** Drizzle over one connection. Statements are prepared once: drizzle builds its SQL on every call. */
export type Queries = BetterSQLite3Database & { readonly $client: Connection };

/** A list of bound values for `json_each`, so that a statement serves any number of them. */
export function jsonList(values: readonly unknown[]): string {
  return JSON.stringify(values);
}
