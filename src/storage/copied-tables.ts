import { getTableColumns, getTableName } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import type { SQLiteTable } from 'drizzle-orm/sqlite-core';
import * as postgres from './postgres/tables.ts';
import * as sqlite from './sqlite/tables.ts';

// What a copy of a database consists of. A row is copied in the form of PostgreSQL's tables, which have the ids of what it
// belongs to, where SQLite has short keys. Facts about the database itself, in `meta` and `rate_clock`, are copied apart.

/** The tables of both storages. Each comes after those that its rows refer to. */
const both = {
  accounts: { postgres: postgres.accounts, sqlite: sqlite.accounts },
  accountOrigins: { postgres: postgres.accountOrigins, sqlite: sqlite.accountOrigins },
  accountTotals: { postgres: postgres.accountTotals, sqlite: sqlite.accountTotals },
  apiKeys: { postgres: postgres.apiKeys, sqlite: sqlite.apiKeys },
  signIns: { postgres: postgres.signIns, sqlite: sqlite.signIns },
  conversations: { postgres: postgres.conversations, sqlite: sqlite.conversations },
  erasing: { postgres: postgres.erasing, sqlite: sqlite.erasing },
  conversationTags: { postgres: postgres.conversationTags, sqlite: sqlite.conversationTags },
  messages: { postgres: postgres.messages, sqlite: sqlite.messages },
  readPositions: { postgres: postgres.readPositions, sqlite: sqlite.readPositions },
  unreadConversations: { postgres: postgres.unreadConversations, sqlite: sqlite.unreadConversations },
  events: { postgres: postgres.events, sqlite: sqlite.events },
  leads: { postgres: postgres.leads, sqlite: sqlite.leads },
  searchTexts: { postgres: postgres.searchTexts, sqlite: sqlite.searchTexts },
  analyticsCounters: { postgres: postgres.analyticsCounters, sqlite: sqlite.analyticsCounters },
  analyticsHistograms: { postgres: postgres.analyticsHistograms, sqlite: sqlite.analyticsHistograms },
  rateWindows: { postgres: postgres.rateWindows, sqlite: sqlite.rateWindows },
  webhooks: { postgres: postgres.webhooks, sqlite: sqlite.webhooks },
  deliveries: { postgres: postgres.deliveries, sqlite: sqlite.deliveries },
  deliveryLeases: { postgres: postgres.deliveryLeases, sqlite: sqlite.deliveryLeases },
  attempts: { postgres: postgres.attempts, sqlite: sqlite.attempts },
  trustedDocuments: { postgres: postgres.trustedDocuments, sqlite: sqlite.trustedDocuments },
  idempotencyRecords: { postgres: postgres.idempotencyRecords, sqlite: sqlite.idempotencyRecords },
} as const;

export type CopiedName = keyof typeof both;

/** Columns that PostgreSQL's storage makes of others. */
const made: Partial<Record<CopiedName, readonly string[]>> = {
  accounts: ['key'],
  apiKeys: ['endsAt'],
  conversations: ['visitorId', 'visitorEmail', 'assigneeId'],
  leads: ['comparableEmail'],
  searchTexts: ['terms'],
};

/** A value as it is copied: bytes are hexadecimal, truth values 0 or 1, JSON is text. */
export type Value = string | number | null;
/** The values of a row, in the order of the table's columns. */
export type Row = readonly Value[];

export interface CopiedTable {
  readonly name: CopiedName;
  /** Its name in the databases. */
  readonly sqlName: string;
  /** By the names that the program has for them. */
  readonly columns: readonly string[];
  readonly postgres: PgTable;
  readonly sqlite: SQLiteTable;
}

export const copiedTables: readonly CopiedTable[] = Object.entries(both).map(([key, tables]) => {
  const name = key as CopiedName;
  // A histogram is one row in SQLite, and a row for each bucket in PostgreSQL.
  const table = name === 'analyticsHistograms' ? tables.sqlite : tables.postgres;
  const columns = Object.keys(getTableColumns(table)).filter((column) => made[name]?.includes(column) !== true);
  return { name, sqlName: getTableName(table), columns, ...tables };
});

/** The values of a row by the names of their columns. */
export function valuesOf({ columns }: CopiedTable, row: Row): Record<string, Value> {
  return Object.fromEntries(columns.map((column, index) => [column, row[index] ?? null]));
}
