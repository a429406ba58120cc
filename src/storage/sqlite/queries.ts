import { type Column, getTableColumns, type InferSelectModel, inArray, type SQL, sql, type Table } from 'drizzle-orm';
import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3';
import type { Connection } from './open.ts';

/** Drizzle over one connection. Statements are prepared once: drizzle builds its SQL on every call. */
export type Queries = BetterSQLite3Database & { readonly $client: Connection };

/** A list to bind to `inList` or `json_each`: with it, one statement serves any number of values. */
export function jsonList(values: readonly unknown[]): string {
  return JSON.stringify(values);
}

/** The values of the list that is bound as `name`, see `jsonList`. */
export function listed(name: string): SQL {
  return sql`(SELECT value FROM json_each(${sql.placeholder(name)}))`;
}

/** Whether a column is in the list that is bound as `name`, see `jsonList`. */
export function inList(column: Column, name: string): SQL {
  return inArray(column, listed(name));
}

/**
 * Placeholders for columns, each by the name of its column. The values are bound as they are given: unlike those of a
 * bare placeholder they do not pass through the column's encoder, so JSON has to be written out and booleans be 0 or 1.
 */
export function bindings<Name extends string>(...names: readonly Name[]): Record<Name, SQL> {
  return Object.fromEntries(names.map((name) => [name, sql`${sql.placeholder(name)}`])) as Record<Name, SQL>;
}

/** The columns of a table as expressions, for a FROM that is raw SQL, in which drizzle does not recognise the table. */
export function columnsOf<T extends Table>(table: T) {
  const columns = Object.entries(getTableColumns(table)).map(([name, column]) => [
    name,
    sql`${column}`.mapWith(column),
  ]);
  return Object.fromEntries(columns) as { [Name in keyof InferSelectModel<T>]: SQL<InferSelectModel<T>[Name]> };
}

/**
 * Whether the conversation that a row belongs to is being erased: then the row must not be shown any more.
 * @param table the row's table, by whose name its columns differ from those of the inner query
 */
export function isBeingErased(table: 'events' | 'leads' | 'kept_results'): SQL<boolean> {
  const row = sql.identifier(table);
  // Most of the time none is: the first EXISTS finds that out once, instead of once per row.
  return sql`(EXISTS (SELECT 1 FROM erasing) AND EXISTS (SELECT 1 FROM erasing
    WHERE erasing.account_id = ${row}.account_id AND erasing.conversation_id = ${row}.conversation_id))`;
}
