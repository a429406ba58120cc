import type { DatabaseAddress, PostgresAddress } from '../config.ts';
import type { Clock } from '../domain/ports.ts';
import type { PostgresStorage } from '../storage/postgres/storage.ts';
import type { SqliteOptions, SqliteStorage } from '../storage/sqlite/storage.ts';
import { OperatorError, withoutStop } from './operator-error.ts';

export type OpenedStorage = SqliteStorage | PostgresStorage;

interface OpenOptions extends SqliteOptions {
  readonly clock: Clock;
}

/** @throws OperatorError if the file or the database cannot be opened as one of this program */
export async function openStorage(address: DatabaseAddress, options: OpenOptions): Promise<OpenedStorage> {
  return await opening(address, async () => {
    // Loaded only here, so that `--help` and a mistyped option respond at once.
    if (address.postgres !== undefined) return await openPostgres(address.postgres, options);
    const { openSqliteStorage } = await import('../storage/sqlite/storage.ts');
    return openSqliteStorage(address.databasePath, options);
  });
}

async function openPostgres(address: PostgresAddress, options: OpenOptions): Promise<OpenedStorage> {
  const { openPostgresStorage } = await import('../storage/postgres/storage.ts');
  const { url, directUrl, prepares, poolSize } = address;
  return await openPostgresStorage(url, {
    ...{ ...options, directUrl, prepares },
    ...(poolSize !== undefined && { maxReaders: Math.ceil(poolSize / 2), maxSessions: Math.floor(poolSize / 2) }),
  });
}

/**
 * Opens a database.
 * @throws OperatorError if it cannot be opened
 */
export async function opening<T>(address: DatabaseAddress, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (!(error instanceof Error) || isBug(error)) throw error;
    throw new OperatorError(`The database ${nameOf(address)} cannot be opened: ${withoutStop(error)}.`, error);
  }
}

/** The name of a database, without what is secret in its address. */
export function nameOf({ databasePath, postgres }: DatabaseAddress): string {
  if (postgres === undefined) return databasePath;
  const { host, pathname } = new URL(postgres.url);
  return `${host}${pathname}`;
}

/** A programming error, such as SQL that the database rejects, which the operator cannot fix. */
export function isBug(error: Error): boolean {
  const code = 'code' in error ? String(error.code) : undefined;
  return error instanceof TypeError || code === 'SQLITE_ERROR' || code === 'SQLITE_MISUSE' || code === '42601';
}

/** @throws OperatorError if the database is no file: for commands that SQLite alone needs */
export function requireFile({ databasePath, postgres }: DatabaseAddress): string {
  if (postgres === undefined) return databasePath;
  throw new OperatorError(
    'This command is for SQLite. A PostgreSQL database has tools of its own, such as pg_dump and pg_restore.',
  );
}
