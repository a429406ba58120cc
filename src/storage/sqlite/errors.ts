import Database from 'better-sqlite3';
import { backOff, unavailable } from '../errors.ts';

// What SQLite's errors mean, and retries of what found the database locked. SQLite would wait for another process's lock
// by blocking the event loop, so retries wait for timers instead.

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

/**
 * Wraps a group of queries for readers: a query that finds the database locked is retried until the busy timeout has
 * passed, and SQLite's errors become the domain's.
 */
export function patient<Group extends object>(group: Group, busyTimeoutMs: number): Group {
  const entries = Object.entries(group) as [string, (...args: never[]) => unknown][];
  return Object.fromEntries(
    entries.map(([name, method]) => [
      name,
      (...args: never[]): unknown => {
        const handle = (error: unknown): unknown => {
          if (isBusy(error)) return retry(() => method(...args), performance.now() + busyTimeoutMs);
          throw asDomainError(error);
        };
        try {
          const result = method(...args);
          return result instanceof Promise ? result.catch(handle) : result;
        } catch (error) {
          return handle(error);
        }
      },
    ]),
  ) as Group;
}

async function retry(read: () => unknown, deadlineMs: number): Promise<unknown> {
  for (let attempt = 0; ; attempt++) {
    await backOff(attempt);
    try {
      return await read();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadlineMs) throw asDomainError(error);
    }
  }
}
