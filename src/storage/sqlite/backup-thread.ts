import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { unfinishedCopy } from '../unfinished-copy.ts';
import type { Prepared, Task, TaskReport } from './backup.ts';
import { FileFault } from './files.ts';
import { type Connection, migrate, migrationState, openTimeoutMs, withOpenLock } from './open.ts';
import { renewIndex } from './search-index.ts';

// A thread for those tasks of a backup and a restoration that keep SQLite busy for a time that grows with the database.
// The program can meanwhile report progress and be interrupted.

/** Copies a snapshot of a database, whatever is written meanwhile. */
function copy(from: string, to: string): undefined {
  const source = withOpenLock(from, openTimeoutMs, () => openInUse(from));
  try {
    const numberOf = (name: string): number => source.pragma(name, { simple: true }) as number;
    report({ bytes: (numberOf('page_count') - numberOf('freelist_count')) * numberOf('page_size') });
    // Every row is rewritten, so that no remnants of erased rows are copied; so is the search index, below.
    naming(from, () => source.prepare('VACUUM INTO ?').run(to));
  } finally {
    source.close();
  }
  const copied = new Database(to, { fileMustExist: true });
  copied.pragma('secure_delete = ON');
  renewIndex(copied);
  copied.close();
}

/** Opens a database that others may be using. Not read-only, because SQLite may have to recover it after a crash. */
function openInUse(path: string): Connection {
  const connection = new Database(path, { fileMustExist: true, timeout: openTimeoutMs });
  try {
    requireOurs(connection, path);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

function check(path: string): undefined {
  const connection = new Database(path, { readonly: true, fileMustExist: true });
  try {
    requireSound(connection, path);
  } finally {
    connection.close();
  }
}

/**
 * Turns the copy of a backup into a database that can replace another one: checks it, migrates it, gives its event log
 * a new epoch, so that cursors of the other one are refused, and ends all sessions of the console.
 * @param backup the name by which the operator knows it
 */
function prepare(path: string, backup: string): Prepared {
  const connection = new Database(path, { fileMustExist: true, timeout: openTimeoutMs });
  try {
    requireOurs(connection, backup);
    const { done, newest } = migrationState(connection);
    if (done > newest) {
      throw new FileFault(`${backup} was made by a newer version of this program: restore it with that one.`);
    }
    requireSound(connection, backup);
    connection.pragma('journal_mode = DELETE'); // everything in one file, whatever made the backup
    connection.pragma('foreign_keys = ON');
    connection.pragma('secure_delete = ON'); // no erasure would find what a migration leaves of rows that it rewrites
    const migrations = migrate(connection);
    const epoch = connection.prepare<[], string>(`SELECT value FROM meta WHERE name = 'epoch'`).pluck().get() ?? '';
    connection.prepare(`UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'`).run();
    connection.exec('DELETE FROM sign_ins'); // somebody may have signed out since, from a machine that was stolen, say
    return { migrations, epoch };
  } finally {
    connection.close();
  }
}

function requireOurs(connection: Connection, name: string): void {
  const tables = naming(name, () =>
    connection
      .prepare(`SELECT count(*) FROM sqlite_schema WHERE name IN ('__drizzle_migrations', 'meta', 'accounts')`)
      .pluck()
      .get(),
  );
  if (tables !== 3) throw new FileFault(`${name} is not a database of this program.`);
  const { done, isUnreleased } = migrationState(connection);
  if (done === unfinishedCopy) {
    throw new FileFault(`${name} holds an unfinished copy: the same \`copy\` again continues it.`);
  }
  if (isUnreleased) {
    throw new FileFault(`${name} was made by a version before 1.0.0, and can be used with that one only.`);
  }
}

/** Adds the name of the file to SQLite's errors about damage. */
function naming<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const isDamage = error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code);
    throw isDamage ? new FileFault(`${name} is damaged: ${error.message}.`) : error;
  }
}

function requireSound(connection: Connection, name: string): void {
  const fault = faultOf(connection);
  if (fault !== undefined) throw new FileFault(`${name} is damaged: ${fault}.`);
}

function faultOf(connection: Connection): string | undefined {
  try {
    const found = connection.prepare<[], string>('PRAGMA integrity_check(1)').pluck().get();
    if (found !== 'ok') return found;
    const [dangling] = connection.pragma('foreign_key_check') as { table: string; parent: string }[];
    return dangling && `a row of ${dangling.table} points at none of ${dangling.parent}`;
  } catch (error) {
    return messageOf(error);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function perform(task: Task): Prepared | undefined {
  switch (task.work) {
    case 'copy':
      return copy(task.from, task.to);
    case 'check':
      return check(task.path);
    case 'prepare':
      return prepare(task.path, task.backup);
  }
}

function report(message: TaskReport): void {
  parentPort?.postMessage(message);
}

try {
  report({ result: perform(workerData as Task) });
} catch (error) {
  // An error loses its class and its code when it is sent to another thread.
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  report(error instanceof FileFault ? { fault: error.message } : { failure: { message: messageOf(error), code } });
}
