import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { pause, retryDelayMs } from './busy-retry.ts';
import { asDomainError, isBusy, unavailable } from './errors.ts';
import { type Connection, openWriter } from './open.ts';
import { withOpenLock } from './open-lock.ts';

export interface Compacted {
  /** Bytes of the file and its write-ahead log. */
  readonly before: number;
  readonly after: number;
}

export interface CompactOptions {
  /** How long to wait for others to stop writing, and then for others to stop reading what was there before. */
  readonly busyTimeoutMs?: number;
  /** How many bytes can be written to a folder's disk. */
  readonly roomIn?: (folder: string) => number;
}

/**
 * Writes a database anew, without the space and the pieces of rows that deleting leaves in it, and empties its
 * write-ahead log. Others can read meanwhile, and wait to write. It blocks the event loop.
 *
 * SQLite makes a copy in a temporary file and writes it back by way of the log. Who commits next would fold that
 * whole log into the file: a server is not to be held up by it, so it is done here, before anybody can commit.
 * @throws UNAVAILABLE when the disk has not the room or others leave it no time, and says so
 */
export async function compact(
  path: string,
  { busyTimeoutMs = 10_000, roomIn = availableBytes }: CompactOptions = {},
): Promise<Compacted> {
  const before = sizeOf(path);
  const [writing, folding] = withOpenLock(path, busyTimeoutMs, () => [openWriter(path), openWriter(path)] as const);
  try {
    writing.pragma(`busy_timeout = ${busyTimeoutMs}`);
    writing.pragma('wal_autocheckpoint = 0');
    writing.pragma('temp_store = FILE'); // the file may be larger than the memory
    writing.pragma('cache_size = -2048');
    requireRoom(writing, roomIn(dirname(path)));
    // As long as somebody reads what was there before, nobody can fold in what comes after.
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
  // Once as a copy, once in the log, which adds to each page where it belongs.
  const needed = (pages - free) * (2 * pageSize + 32);
  if (needed > available) {
    throw unavailable(`It needs ${megabytes(needed)} on the disk of the file, which has ${megabytes(available)} left.`);
  }
}

/** Waits until nobody reads what was there before. Only for moments at a time: whoever writes would wait with it. */
async function emptyLogOrThrow(connection: Connection, deadlineMs: number): Promise<void> {
  connection.pragma('busy_timeout = 20');
  for (let attempt = 0; ; attempt++) {
    const [result] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
    if (result?.busy === 0) return;
    if (performance.now() > deadlineMs) break;
    await pause(retryDelayMs(attempt));
  }
  throw unavailable(
    'The file was written anew, but another process still reads what was there before, and keeps the write-ahead log from being emptied; try again when it has ended.',
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

export function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
