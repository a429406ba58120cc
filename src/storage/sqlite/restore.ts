import {
  chmodSync,
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import Database from 'better-sqlite3';
import type { Clock } from '../../domain/ports.ts';
import { minuteMs, minuteOf, minutesBefore } from '../../domain/rate-window.ts';
import type { ClockReading } from '../../domain/steady-clock.ts';
import { inBackupThread } from './backup.ts';
import { isBusy } from './errors.ts';
import {
  createPrivate,
  FileFault,
  giveToOwnerOf,
  isSameFile,
  keepAs,
  modeAfter,
  publish,
  realFile,
  removeWithSideFiles,
  replace,
  requireWritable,
  sideFileOf,
  sideFiles,
  sync,
  unfinishedName,
} from './files.ts';
import { putClock, readClock } from './limits.ts';
import { type Connection, keepOthersOut, type MigrationReport, openTimeoutMs, takeOpenLock } from './open.ts';

interface RestoreOptions {
  readonly clock: Clock;
  /** Whether to go on when the present database cannot be read, and so it is unknown whether it is in use. */
  readonly force?: boolean;
  /** Called at the start of each step. */
  readonly onProgress?: (part: 'copying' | 'checking') => void;
  /** Called with the temporary name of the copy, which is to be removed if the program is interrupted. */
  readonly onUnfinished?: (path: string) => void;
}

export interface Restored {
  /** Where the previous database is now; null when there was none. */
  readonly previous: string | null;
  /** Whether spent requests and revocations of keys were taken over from it. */
  readonly carriedOver: boolean;
  readonly migrations: MigrationReport;
}

/**
 * Replaces a database, which nobody may have open, by a backup. Until the last step, which waits for nothing, the
 * database stays as it is; then it is moved aside. The backup itself is only read.
 * @throws FileFault
 */
export async function restore(database: string, backup: string, options: RestoreOptions): Promise<Restored> {
  const databasePath = realFile(database);
  const { clock, force = false, onProgress = () => {}, onUnfinished = () => {} } = options;
  requireBackup(databasePath, backup);
  requireWritable(databasePath);
  const openLock = takeOpenLock(databasePath, openTimeoutMs);
  const copy = unfinishedName(databasePath);
  let present: Present | undefined;
  try {
    present = holdPresent(databasePath, force);
    onUnfinished(copy);
    onProgress('copying');
    createPrivate(copy); // the system's own copying would give it the backup's mode at first
    const highWaterMark = 1024 * 1024;
    await pipeline(
      createReadStream(backup, { highWaterMark }),
      createWriteStream(copy, { flags: 'r+', highWaterMark }),
    );
    chmodSync(copy, modeAfter(databasePath));
    giveToOwnerOf(present === undefined ? dirname(databasePath) : databasePath, copy);
    onProgress('checking');
    const prepared = await inBackupThread({ work: 'prepare', path: copy, backup });
    if (prepared === undefined) throw new Error('A backup was prepared without a report');
    const carriedOver =
      present?.connection !== undefined &&
      carryOverLimitsAndRevocations(present.connection, { path: copy, epoch: prepared.epoch }, clock);
    sync(copy);
    const previous = `${databasePath}.before-${fileTimestamp(clock.now())}`;
    swap(databasePath, { copy, previous, present });
    return { previous: present === undefined ? null : previous, carriedOver, migrations: prepared.migrations };
  } finally {
    present?.connection?.close();
    removeWithSideFiles(copy);
    openLock.close();
  }
}

function requireBackup(databasePath: string, backup: string): void {
  const stats = statSync(backup, { throwIfNoEntry: false });
  if (stats === undefined) throw new FileFault(`There is no file ${backup}.`);
  if (!stats.isFile()) throw new FileFault(`${backup} is not a file.`);
  if (isSameFile(databasePath, backup)) throw new FileFault(`${backup} is the database itself.`);
  const log = sideFileOf(backup, ['-wal', '-journal']);
  if (log !== undefined) {
    throw new FileFault(`${backup} is not a backup but a database in use: ${log} belongs to it.`);
  }
}

/** The database that is to be replaced. */
interface Present {
  /** Holds the lock of the database; undefined when that cannot be read. */
  readonly connection: Connection | undefined;
}

/**
 * Keeps others out of the database.
 * @throws FileFault
 */
function holdPresent(path: string, force: boolean): Present | undefined {
  if (!existsSync(path)) return undefined;
  // SQLite would delete a log beside it, taking it for that of an empty database.
  if (!beginsAsDatabase(path)) return unreadable(path, 'it is not a database', force);
  const connection = new Database(path, { fileMustExist: true, timeout: 0 });
  try {
    keepOthersOut(connection);
    return { connection };
  } catch (error) {
    connection.close();
    if (isBusy(error)) throw new FileFault(`${path} is in use: stop the server, and whatever else has it open.`);
    return unreadable(path, error instanceof Error ? error.message : String(error), force);
  }
}

/** @throws FileFault unless `force` is given, because it is unknown whether the database is in use */
function unreadable(path: string, reason: string, force: boolean): Present {
  if (force) return { connection: undefined };
  throw new FileFault(
    `${path} cannot be read (${reason}), so it cannot be determined whether it is in use. Stop whatever may use it and repeat this with --force; it will be moved aside.`,
  );
}

const magic = 'SQLite format 3\0';

function beginsAsDatabase(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const start = Buffer.alloc(magic.length);
    const length = readSync(file, start);
    return length === 0 || start.toString('latin1') === magic;
  } finally {
    closeSync(file);
  }
}

interface Swap {
  readonly copy: string;
  readonly previous: string;
  readonly present: Present | undefined;
}

/** Moves the copy into the place of the database. It is synchronous: a signal is handled before or after it. */
function swap(path: string, { copy, previous, present }: Swap): void {
  const isWhole = present?.connection !== undefined && leaveWalMode(present.connection);
  if (present !== undefined) keepAs(path, previous);
  // A log that is left behind would be taken for that of the new database.
  for (const suffix of sideFiles) {
    if (isWhole || suffix === '-shm') rmSync(path + suffix, { force: true });
    else if (existsSync(path + suffix)) renameSync(path + suffix, previous + suffix);
  }
  if (present === undefined) publish(copy, path);
  else replace(copy, path);
}

/**
 * Checkpoints a database whose lock is held and removes its log, so that it is one file.
 * @returns whether that succeeded
 */
function leaveWalMode(connection: Connection): boolean {
  try {
    return connection.pragma('journal_mode = DELETE', { simple: true }) === 'delete';
  } catch {
    return false;
  }
}

/** A time as part of a file name. */
function fileTimestamp(epochMs: number): string {
  return new Date(epochMs).toISOString().replace(/[-:.]/g, '');
}

/** Clocks that differ by less are one, read at two moments: what both have counted in a minute is the same. */
const sameClockMs = 1_000;

interface Spent {
  readonly accountId: string;
  readonly minute: number;
  readonly count: number;
}

interface Revocation {
  readonly id: string;
  readonly revokedAt: number;
}

/** The keys of an account. */
interface KnownKeys {
  readonly accountId: string;
  readonly lastId: string;
  readonly ids: string;
}

/**
 * Copies from a database into the backup that replaces it what a restoration must not undo: the requests that accounts
 * have spent within the last hour, and the revocations of keys.
 * @returns false when the database cannot be read
 */
function carryOverLimitsAndRevocations(
  present: Connection,
  { path, epoch }: { path: string; epoch: string },
  clock: Clock,
): boolean {
  let reading: ClockReading;
  let spent: Spent[];
  let revocations: Revocation[];
  let keys: KnownKeys[];
  try {
    reading = readClock(present, clock);
    spent = spentAt(present, reading.atMs);
    revocations = present.prepare<[], Revocation>(allRevocations).all();
    keys = present.prepare<string, KnownKeys>(knownKeys).all(epoch);
  } catch {
    return false; // it is damaged, or not a database of this program
  }
  const backup = new Database(path, { fileMustExist: true });
  try {
    const spend = backup.prepare<Spent>(
      `INSERT INTO rate_windows (account_id, minute, count) VALUES (:accountId, :minute, :count)
       ON CONFLICT DO UPDATE SET count = max(count, excluded.count)`,
    );
    const setClock = backup.prepare<ClockReading>(putClock);
    const revoke = backup.prepare<Revocation>(
      'UPDATE api_keys SET revoked_at = :revokedAt WHERE id = :id AND revoked_at IS NULL',
    );
    const revokeUnknown = backup.prepare<KnownKeys & { nowMs: number }>(
      `UPDATE api_keys SET revoked_at = :nowMs WHERE account_id = :accountId AND id < :lastId AND revoked_at IS NULL
         AND id NOT IN (SELECT value FROM json_each(:ids))`,
    );
    backup.transaction(() => {
      // The backup's own counts stay as well: the present database may be an empty one that replaced a lost one.
      const { atMs } = readClock(backup, clock);
      const known = spentAt(backup, atMs);
      const laterMs = reading.atMs - atMs;
      const laterMinutes = Math.abs(laterMs) < sameClockMs ? 0 : Math.ceil(laterMs / minuteMs);
      const last = minuteOf(reading.atMs);
      backup.exec('DELETE FROM rate_windows');
      for (const each of known) spend.run({ ...each, minute: Math.min(each.minute + laterMinutes, last) });
      for (const each of spent) spend.run(each);
      setClock.run(reading);
      for (const each of revocations) revoke.run(each);
      keepRevocations(backup, revocations);
      for (const each of keys) revokeUnknown.run({ ...each, nowMs: clock.now() });
    })();
    return true;
  } finally {
    backup.close();
  }
}

/** The revocations that a database knows of: of its keys, and those that were kept for restorations. */
const allRevocations = `SELECT id, revoked_at AS revokedAt FROM api_keys WHERE revoked_at IS NOT NULL
  UNION SELECT each.value ->> 'id', each.value ->> 'revokedAt' FROM meta, json_each(meta.value) AS each
    WHERE name = 'kept_revocations'`;

/** Keeps the revocations of keys that a backup does not have for the restoration of a later one, which may have them. */
function keepRevocations(backup: Connection, revocations: readonly Revocation[]): void {
  const all = [...backup.prepare<[], Revocation>(allRevocations).all(), ...revocations];
  const has = backup.prepare<string>('SELECT 1 FROM api_keys WHERE id = ?');
  const kept = new Map(all.map((each) => [each.id, each]));
  for (const id of kept.keys()) if (has.get(id) !== undefined) kept.delete(id);
  if (kept.size === 0) return;
  backup.prepare(`INSERT OR REPLACE INTO meta VALUES ('kept_revocations', ?)`).run(JSON.stringify([...kept.values()]));
}

/**
 * The keys that a database has, if it is what the database of a backup has become since. One that it no longer knows,
 * while it knows a later one of the account, had ended: of those only the last thousand are kept.
 */
const knownKeys = `SELECT account_id AS accountId, max(id) AS lastId, json_group_array(id) AS ids FROM api_keys
  WHERE (SELECT value FROM meta WHERE name = 'epoch') = ? GROUP BY account_id`;

/** The requests spent within the hour up to a time of the limiter's clock. */
function spentAt(connection: Connection, atMs: number): Spent[] {
  const last = minuteOf(atMs);
  return connection
    .prepare<{ first: number; last: number }, Spent>(
      // A copy can have moved a count into the minute after, see `beginning` in ../copy.ts.
      `SELECT account_id AS accountId, min(minute, :last) AS minute, sum(count) AS count FROM rate_windows
       WHERE minute >= :first AND count > 0 GROUP BY 1, 2`,
    )
    .all({ first: last - minutesBefore, last });
}
