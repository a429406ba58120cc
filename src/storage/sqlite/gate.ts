import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { isBusy } from './errors.ts';
import { giveToOwnerOf } from './files.ts';

/** What the file is named that is locked for a database, after it. */
export const gateSuffix = '-lock';

/**
 * Does something while nobody else opens the database, or puts another file in its place.
 *
 * Who opens a file and waits for its lock would get the lock of a file that was moved away meanwhile, and then use it
 * together with the log of the one that has come in its place. So the lock to wait for is that of a file of its own,
 * which is never moved. It is SQLite's, so that it ends with the process, however that ends.
 * @param patienceMs how long to wait, by blocking, for others that do the same
 * @throws Error when it takes them longer
 */
export function throughGate<T>(path: string, patienceMs: number, work: () => T): T {
  const gate = openGate(path, patienceMs);
  try {
    return work();
  } finally {
    gate.close();
  }
}

/** Takes the gate of a database, to be closed by its owner. */
export function openGate(path: string, patienceMs: number): { close(): void } {
  mkdirSync(dirname(path), { recursive: true });
  const name = path + gateSuffix;
  const isNew = !existsSync(name);
  const gate = new Database(name, { timeout: patienceMs });
  try {
    if (isNew) giveToOwnerOf(existsSync(path) ? path : dirname(path), name);
    gate.exec('BEGIN EXCLUSIVE'); // writes nothing: the file stays empty
    return gate;
  } catch (error) {
    gate.close();
    throw isBusy(error)
      ? new Error('another process is opening it, or restores a backup into it; try again later', { cause: error })
      : error;
  }
}
