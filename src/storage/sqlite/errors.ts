import Database from 'better-sqlite3';
import { DomainError } from '../../domain/errors.ts';

/** Whether SQLite gave up at once because another connection holds the lock. */
export function isBusy(error: unknown): boolean {
  return (
    error instanceof Database.SqliteError &&
    (error.code.startsWith('SQLITE_BUSY') || error.code.startsWith('SQLITE_LOCKED'))
  );
}

/** Result codes that may be temporary: nothing is wrong with the request, and a later one may succeed. */
const temporary = [
  'SQLITE_BUSY',
  'SQLITE_LOCKED',
  'SQLITE_FULL',
  'SQLITE_IOERR',
  'SQLITE_READONLY',
  'SQLITE_CANTOPEN',
  'SQLITE_NOMEM',
  'SQLITE_PROTOCOL',
];

/** Maps what SQLite throws to the domain: UNAVAILABLE for what may be temporary, anything else as it is. */
export function asDomainError(error: unknown): unknown {
  if (error instanceof Database.SqliteError && temporary.some((code) => error.code.startsWith(code))) {
    return unavailable('The storage cannot be written or read at the moment.', error);
  }
  return error;
}

export function unavailable(detail: string, cause?: unknown): DomainError {
  return new DomainError('UNAVAILABLE', detail, { retryAfterSeconds: 1, cause });
}
