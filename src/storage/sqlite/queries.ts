import { getTableColumns, type InferSelectModel, type SQL, sql, type Table } from 'drizzle-orm';
import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3';
import type { Connection } from './open.ts';

/** Drizzle over one connection. Statements are prepared once: drizzle builds its SQL on every call. */
export type Queries = BetterSQLite3Database & { readonly $client: Connection };

/** A list of bound values for `json_each`, so that a statement serves any number of them. */
export function jsonList(values: readonly unknown[]): string {
  return JSON.stringify(values);
}

/** The columns of a table as expressions, to select from a FROM in which drizzle does not see the table. */
export function columnsOf<T extends Table>(table: T) {
  const columns = Object.entries(getTableColumns(table)).map(([name, column]) => [
    name,
    sql`${column}`.mapWith(column),
  ]);
  return Object.fromEntries(columns) as { [Name in keyof InferSelectModel<T>]: SQL<InferSelectModel<T>[Name]> };
}

/**
 * Whether the conversation that a row tells of is being erased: then nothing of the row is to be seen.
 * @param table its name, with which the columns have to be told apart from those of the inner query
 */
export function isBeingErased(table: 'events' | 'leads' | 'kept_results'): SQL<boolean> {
  const row = sql.identifier(table);
  // Most of the time nothing is, which SQLite finds out once and not for every row.
  return sql`(EXISTS (SELECT 1 FROM erasing) AND EXISTS (SELECT 1 FROM erasing
    WHERE erasing.account_id = ${row}.account_id AND erasing.conversation_id = ${row}.conversation_id))`;
}
