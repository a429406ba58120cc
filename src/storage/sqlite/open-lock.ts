import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { isBusy } from './errors.ts';
import { createPrivate, giveToOwnerOf } from './files.ts';

/** Appended to the name of a database to give the name of its lock file. */
export const openLockSuffix = '-lock';

/**
 * Runs `work` while no other process opens the database or puts another file in its place.
 *
 * A process that waited for a lock on the database file itself could get the lock of a file that had meanwhile been
 * moved away, and would then use that file together with the write-ahead log of its replacement. So the lock is on a
 * separate file, which is never moved. It is a SQLite lock, which the system releases however the process ends.
 * @param timeoutMs how long to wait, blocking, for another process that holds the lock
 * @throws Error when the lock is still held after that
 */
export function withOpenLock<T>(path: string, timeoutMs: number, work: () => T): T {
  const lock = takeOpenLock(path, timeoutMs);
  try {
    return work();
  } finally {
    lock.close();
  }
}

/**
 * Takes the lock of a database; the caller releases it by closing it. For its parameters and errors see `withOpenLock`.
 */
export function takeOpenLock(path: string, timeoutMs: number): { close(): void } {
  const name = path + openLockSuffix;
  const isNew = createPrivate(name);
  const lock = new Database(name, { timeout: timeoutMs });
  try {
    if (isNew) giveToOwnerOf(existsSync(path) ? path : dirname(path), name);
    lock.exec('BEGIN EXCLUSIVE'); // writes nothing: the file stays empty
    return lock;
  } catch (error) {
    lock.close();
    throw isBusy(error)
      ? new Error('another process is opening it or restoring a backup into it; try again later', { cause: error })
      : error;
  }
}
