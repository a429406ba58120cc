import type { Config, PostgresAddress } from '../config.ts';
import type { Clock } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import type { SqliteOptions } from '../storage/sqlite/storage.ts';
import { OperatorError } from './operator-error.ts';

/** A storage, with what the program tells about it. */
export interface OpenedStorage extends Storage {
  readonly migrations: { readonly applied: number; readonly total: number };
  /** Whether every user of the machine could read it until it was opened now. */
  readonly wasPublic: boolean;
  /** Number of writes waiting for their transaction. */
  readonly waitingWrites: number;
}

interface OpenOptions extends SqliteOptions {
  readonly clock: Clock;
}

/** @throws OperatorError if the file or the database cannot be opened as one of this program */
export async function openStorage(
  { databasePath, postgres }: Pick<Config, 'databasePath' | 'postgres'>,
  options: OpenOptions,
): Promise<OpenedStorage> {
  // Loaded only here, so that `--help` and a mistyped option respond at once.
  if (postgres !== undefined) return await openPostgres(postgres, options);
  const { openSqliteStorage } = await import('../storage/sqlite/storage.ts');
  try {
    return openSqliteStorage(databasePath, options);
  } catch (error) {
    if (!(error instanceof Error) || isBug(error)) throw error;
    throw new OperatorError(`The database ${databasePath} cannot be opened: ${withoutStop(error)}.`, error);
  }
}

async function openPostgres(address: PostgresAddress, options: OpenOptions): Promise<OpenedStorage> {
  const { openPostgresStorage } = await import('../storage/postgres/storage.ts');
  const { url, directUrl } = address;
  try {
    return await openPostgresStorage(url, {
      ...options,
      // Whoever names another address for the database itself has a proxy, which would lose what is prepared.
      ...(directUrl !== undefined && { directUrl, prepares: false }),
    });
  } catch (error) {
    if (!(error instanceof Error) || isBug(error)) throw error;
    const { host, pathname } = new URL(url); // the rest is secret
    throw new OperatorError(`The database ${host}${pathname} cannot be opened: ${withoutStop(error)}.`, error);
  }
}

/** What an error says. That of several attempts to connect says nothing but what it holds. */
function withoutStop(error: Error): string {
  const [first = error] = error instanceof AggregateError ? (error.errors as Error[]) : [];
  return first.message.replace(/\.$/, '');
}

/** A programming error, such as SQL that the database rejects, which the operator cannot fix. */
function isBug(error: Error): boolean {
  const code = 'code' in error ? String(error.code) : undefined;
  return error instanceof TypeError || code === 'SQLITE_ERROR' || code === 'SQLITE_MISUSE' || code === '42601';
}

/** @throws OperatorError if the database is no file: for commands that SQLite alone needs */
export function requireFile({ databasePath, postgres }: Pick<Config, 'databasePath' | 'postgres'>): string {
  if (postgres === undefined) return databasePath;
  throw new OperatorError(
    'This command is for SQLite. A PostgreSQL database has tools of its own, such as pg_dump and pg_restore.',
  );
}
