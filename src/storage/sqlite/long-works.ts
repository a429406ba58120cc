import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { FileFault } from './files.ts';
import { type Connection, type MigrationReport, migrate, stateOf } from './open.ts';
import { withOpenLock } from './open-lock.ts';

// A thread for what keeps SQLite busy for as long as a database is large: the program can meanwhile tell how far it is,
// and be interrupted.

/** What to do, and with which files. */
export type Task =
  | { readonly work: 'copy'; readonly from: string; readonly to: string }
  | { readonly work: 'check'; readonly path: string }
  | { readonly work: 'prepare'; readonly path: string; readonly backup: string };

/** What is said of it: how large something will be at most, and in the end what came of it. */
export type Message =
  | { readonly bytes: number }
  | { readonly result: MigrationReport | undefined }
  | { readonly fault: string }
  | { readonly failure: { readonly message: string; readonly code: string | undefined } };

/** How long to wait for others: waiting keeps nobody from anything here. */
const timeoutMs = 5_000;

/** Copies a database as it is at one moment, whatever is written meanwhile. */
function copy(from: string, to: string): undefined {
  const source = withOpenLock(from, timeoutMs, () => openInUse(from));
  try {
    const numberOf = (name: string): number => source.pragma(name, { simple: true }) as number;
    say({ bytes: (numberOf('page_count') - numberOf('freelist_count')) * numberOf('page_size') });
    // Every row is written anew, so that nothing of what was erased before comes along.
    naming(from, () => source.prepare('VACUUM INTO ?').run(to));
  } finally {
    source.close();
  }
}

/** Opens a database that others may have open, or may open from now on. It is not held back from writing, which would keep it from tidying up after a crash. */
function openInUse(path: string): Connection {
  const connection = new Database(path, { fileMustExist: true, timeout: timeoutMs });
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
 * Makes the copy of a backup into what can take the place of a database: checked, brought up to date, and with a new
 * name for its log, so that the cursors of another are not taken for its own.
 * @param backup what the operator knows it as
 */
function prepare(path: string, backup: string): MigrationReport {
  const connection = new Database(path, { fileMustExist: true, timeout: timeoutMs });
  try {
    requireOurs(connection, backup);
    const { done, newest } = stateOf(connection);
    if (done > newest) {
      throw new FileFault(`${backup} was made by a newer version of this program: restore it with that one.`);
    }
    requireSound(connection, backup);
    connection.pragma('journal_mode = DELETE'); // all of it in one file, whatever made the backup
    connection.pragma('foreign_keys = ON');
    const report = migrate(connection);
    connection.prepare(`UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'`).run();
    return report;
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
  if (tables !== 3) throw new FileFault(`${name} is no database of this program.`);
}

/** Says which file it is that SQLite finds damaged. */
function naming<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const isDamage = error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code);
    throw isDamage ? new FileFault(`${name} is damaged: ${error.message}.`) : error;
  }
}

function requireSound(connection: Connection, name: string): void {
  const [fault] = faultsOf(connection);
  if (fault !== undefined) throw new FileFault(`${name} is damaged: ${fault}.`);
}

function faultsOf(connection: Connection): readonly string[] {
  try {
    const found = connection.prepare('PRAGMA integrity_check(1)').pluck().all() as string[];
    if (found[0] !== 'ok') return found;
    const dangling = connection.pragma('foreign_key_check') as { table: string; parent: string }[];
    return dangling.map(({ table, parent }) => `a row of ${table} points at none of ${parent}`);
  } catch (error) {
    return [messageOf(error)];
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function perform(task: Task): MigrationReport | undefined {
  switch (task.work) {
    case 'copy':
      return copy(task.from, task.to);
    case 'check':
      return check(task.path);
    case 'prepare':
      return prepare(task.path, task.backup);
  }
}

function say(message: Message): void {
  parentPort?.postMessage(message);
}

try {
  say({ result: perform(workerData as Task) });
} catch (error) {
  // An error loses its class and its code on the way.
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  say(error instanceof FileFault ? { fault: error.message } : { failure: { message: messageOf(error), code } });
}
