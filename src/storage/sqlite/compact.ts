import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { backOff, unavailable } from '../errors.ts';
import { asDomainError, isBusy } from './errors.ts';
import { realFile } from './files.ts';
import { type Connection, openWriter, withOpenLock } from './open.ts';
import { pagesOfIndex, renewIndex } from './search-index.ts';

/** What the log adds to each page. */
const frameHeader = 24;

interface Compacted {
  /** Bytes of the file and its write-ahead log. */
  readonly before: number;
  readonly after: number;
}

interface CompactOptions {
  /** How long to wait for others to stop writing, and then for others to stop reading the old contents. */
  readonly busyTimeoutMs?: number;
  /** The bytes available on the disk of a folder. */
  readonly roomIn?: (folder: string) => number;
}

/**
 * Rewrites a database without the free space and the remnants of rows that deleting leaves in it, and empties its
 * write-ahead log. Others can read meanwhile; writers wait. It blocks the event loop.
 *
 * SQLite makes a copy in a temporary file and writes it back through the log. The next commit would then checkpoint
 * that whole log: so that it does not hold up a server, the log is checkpointed here, before anybody can commit.
 * @throws FileFault when another process restores a backup into it
 * @throws UNAVAILABLE when the disk lacks the space or others leave it no time; the message says which
 */
export async function compact(
  database: string,
  { busyTimeoutMs = 10_000, roomIn = availableBytes }: CompactOptions = {},
): Promise<Compacted> {
  const path = realFile(database);
  const before = sizeOf(path);
  const [writing, folding] = withOpenLock(path, busyTimeoutMs, () => [openWriter(path), openWriter(path)] as const);
  try {
    writing.pragma(`busy_timeout = ${busyTimeoutMs}`);
    writing.pragma('wal_autocheckpoint = 0');
    writing.pragma('temp_store = FILE'); // the file may not fit into memory
    writing.pragma('cache_size = -2048');
    requireRoom(writing, roomIn(dirname(path)));
    renewIndex(writing);
    // As long as this snapshot is open, no other connection can checkpoint what comes after it.
    folding.exec('BEGIN');
    folding.pragma('user_version');
    writing.exec('VACUUM');
    writing.exec('BEGIN IMMEDIATE');
    folding.exec('ROLLBACK');
    folding.pragma('wal_checkpoint(PASSIVE)');
    writing.exec('ROLLBACK');
    await emptyLogOrThrow(folding, performance.now() + busyTimeoutMs);
  } catch (error) {
    throw isBusy(error)
      ? unavailable('Others write to the database all the time; try again.', error)
      : asDomainError(error);
  } finally {
    writing.close();
    folding.close();
  }
  return { before, after: sizeOf(path) };
}

function requireRoom(connection: Connection, available: number): void {
  const [pages, free, pageSize] = ['page_count', 'freelist_count', 'page_size'].map(
    (name) => connection.pragma(name, { simple: true }) as number,
  ) as [number, number, number];
  // All once for the copy and once for the log. Of the index before that, the log has the new pages and the old ones, which
  // are overwritten, and the file grows by the new ones if the log is checkpointed meanwhile.
  const needed = (2 * (pages - free) + 3 * pagesOfIndex(connection)) * (pageSize + frameHeader);
  if (needed > available) {
    throw unavailable(`It needs ${megabytes(needed)} on the disk of the file, which has ${megabytes(available)} left.`);
  }
}

/** Waits until nobody reads the old contents. Only for moments at a time, because writers have to wait meanwhile. */
async function emptyLogOrThrow(connection: Connection, deadlineMs: number): Promise<void> {
  connection.pragma('busy_timeout = 20');
  for (let attempt = 0; ; attempt++) {
    const [result] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
    if (result?.busy === 0) return;
    if (performance.now() > deadlineMs) break;
    await backOff(attempt);
  }
  throw unavailable(
    'The file was rewritten, but another process still reads the old contents, which keeps the write-ahead log from being emptied; try again when it has finished.',
  );
}

function availableBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

function sizeOf(path: string): number {
  const files = [path, `${path}-wal`].map((file) => statSync(file, { throwIfNoEntry: false })?.size ?? 0);
  return files.reduce((sum, size) => sum + size);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
