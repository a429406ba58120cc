import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import { migrationsFolder } from '../../layout.ts';
import { unavailable } from '../errors.ts';
import { foldedEmail } from '../rows/values.ts';
import { unknownMigration } from '../unfinished-copy.ts';
import { isBusy } from './errors.ts';
import { createPrivate, FileFault, giveToOwnerOf, requireAccess } from './files.ts';

// Opening a database: its connections, the lock that keeps others from opening or replacing it meanwhile, and its
// migrations.

export type Connection = Database.Database;

export interface ConnectionOptions {
  /**
   * Called with every statement before it runs, with its bound values filled in. For tests and diagnosis: it is slow.
   */
  readonly onStatement?: ((sql: string) => void) | undefined;
}

/** The driver declares a logger that takes anything. */
type Verbose = Database.Options['verbose'];

/** How long to wait for other processes while opening. Nothing is being served yet, so blocking is harmless. */
export const openTimeoutMs = 5_000;
/** Page cache of each connection, in KiB. */
const cacheKiB = 4 * 1024;

/**
 * The connection that writes. `synchronous=FULL`: a commit is on the disk when it returns.
 *
 * Once it is in use its busy timeout is 0, see `stopBlocking`: SQLite would wait by blocking the whole event loop, so
 * the writer waits by a timer instead.
 */
export function openWriter(path: string, { onStatement }: ConnectionOptions = {}): Connection {
  createPrivate(path);
  const connection = new Database(path, { timeout: openTimeoutMs, verbose: onStatement as Verbose });
  connection.pragma('journal_mode = WAL');
  connection.pragma('synchronous = FULL');
  connection.pragma('foreign_keys = ON');
  connection.pragma('secure_delete = ON'); // deleted rows are overwritten, not only released
  connection.pragma(`cache_size = -${cacheKiB}`);
  connection.pragma('temp_store = MEMORY');
  return connection;
}

/** From here on the connection never waits inside SQLite, but fails at once when the database is locked. */
export function stopBlocking(connection: Connection): void {
  connection.pragma('busy_timeout = 0');
}

/** A separate connection for reading: on the writer's, readers would see what is not committed. */
export function openReader(path: string, { onStatement }: ConnectionOptions = {}): Connection {
  const connection = new Database(path, {
    readonly: true,
    fileMustExist: true,
    timeout: openTimeoutMs,
    verbose: onStatement as Verbose,
  });
  connection.pragma(`cache_size = -${cacheKiB}`);
  connection.pragma('temp_store = MEMORY');
  stopBlocking(connection);
  return connection;
}

/** Appended to the name of a database to give the name of its lock file. */
export const openLockSuffix = '-lock';

/**
 * Runs `work` while no other process opens the database or puts another file in its place.
 *
 * A process that waited for a lock on the database file itself could get the lock of a file that had meanwhile been
 * moved away, and would then use that file together with the write-ahead log of its replacement. So the lock is on a
 * separate file, which is never moved. It is a SQLite lock, which the system releases however the process ends.
 * @param timeoutMs how long to wait, blocking, for another process that holds the lock
 * @throws FileFault when the lock is still held after that
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
  requireAccess(name); // SQLite would not say which file it is
  const lock = new Database(name, { timeout: timeoutMs });
  try {
    if (isNew) giveToOwnerOf(existsSync(path) ? path : dirname(path), name);
    lock.pragma('journal_mode = MEMORY'); // in a file, it would need room on a disk that may be full
    lock.exec('BEGIN EXCLUSIVE'); // writes nothing: the file stays empty
    return lock;
  } catch (error) {
    lock.close();
    throw isBusy(error)
      ? new FileFault(
          'another process is opening the database, copying it or restoring a backup into it; try again later',
          { cause: error },
        )
      : error;
  }
}

/**
 * Takes the exclusive lock and keeps it: nobody gets it while the database is open anywhere, since every connection to a
 * database with a write-ahead log holds a shared lock, even when idle, until it is closed or its process ends.
 * @throws SQLITE_BUSY when others have the database open
 */
export function keepOthersOut(connection: Connection): void {
  connection.pragma('locking_mode = EXCLUSIVE'); // locks taken from here on are kept
  connection.exec('BEGIN EXCLUSIVE; SELECT count(*) FROM sqlite_schema; COMMIT');
}

/** The migrations as JSON, which esbuild.config.ts inserts into the built program. The sources run without it. */
declare const builtMigrations: string | undefined;

/** Those that this program was built with: an upgrade in place can change the folder while this one is still running. */
const migrations: readonly MigrationMeta[] =
  typeof builtMigrations === 'undefined' ? readMigrationFiles({ migrationsFolder }) : JSON.parse(builtMigrations);

export interface MigrationReport {
  /** How many migrations this call applied. */
  readonly applied: number;
  /** How many there are. */
  readonly total: number;
}

interface MigrationState {
  /** The newest migration of a database, by the epoch milliseconds when it was made; 0 for none. */
  readonly done: number;
  /** That of this program. */
  readonly newest: number;
  /** Whether a version before the first release has made the database. What that one left is the first migration. */
  readonly isUnreleased: boolean;
}

export function migrationState(connection: Connection): MigrationState {
  const done =
    connection.prepare<[], number | null>('SELECT max(created_at) FROM __drizzle_migrations').pluck().get() ?? 0;
  const [first, last] = [migrations[0]?.folderMillis ?? 0, migrations.at(-1)?.folderMillis ?? 0];
  return { done, newest: last, isUnreleased: done > 0 && done < first };
}

/** What migrations call that SQL cannot do. */
export function addMigrationFunctions(connection: Connection): void {
  connection.function('folded_email', { deterministic: true, directOnly: true }, foldedEmail);
}

/**
 * Applies the missing migrations in one transaction. Other processes wait for it.
 * @throws Error when the file was migrated by a newer version of the program, or made by one before its first release
 */
export function migrate(connection: Connection): MigrationReport {
  addMigrationFunctions(connection);
  const store = connection.pragma('temp_store', { simple: true });
  connection.pragma('temp_store = FILE'); // what it takes grows with the database
  const apply = connection.transaction(() => {
    connection.exec(
      'CREATE TABLE IF NOT EXISTS __drizzle_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, hash text NOT NULL, created_at numeric)',
    );
    const { done, newest, isUnreleased } = migrationState(connection);
    if (done > newest) throw unknownMigration(done);
    if (isUnreleased) throw new Error('it was made by a version before 1.0.0, and can be used with that one only.');
    const pending = migrations.filter((migration) => migration.folderMillis > done);
    for (const migration of pending) {
      for (const statement of migration.sql) connection.exec(statement);
      connection
        .prepare('INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)')
        .run(migration.hash, migration.folderMillis);
    }
    return { applied: pending.length, total: migrations.length };
  });
  try {
    return apply.immediate();
  } finally {
    connection.pragma(`temp_store = ${store}`);
  }
}

/**
 * Guards a file against use after a newer version of the program has migrated it, as in a rolling upgrade: what an
 * older version writes lacks what the newer one relies on.
 *
 * Every migration changes the schema, so nothing has to be checked while SQLite's schema version stays the same.
 * @returns a check that throws UNAVAILABLE, to be called within a transaction so that no migration can come in between
 */
export function refuseSuperseded(connection: Connection): () => void {
  const schemaVersion = connection.prepare<[], number>('PRAGMA schema_version').pluck();
  // Not read here: a newer version could migrate the file between now and the first transaction.
  let known: number | undefined;
  return () => {
    const version = schemaVersion.get();
    if (version === known) return;
    const { done, newest } = migrationState(connection);
    if (done > newest) {
      throw unavailable('The database was migrated by a newer version of the service, which is to take over.');
    }
    known = version;
  };
}
