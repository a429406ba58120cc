import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import {
  createPrivate,
  FileFault,
  isSameFile,
  publish,
  realFile,
  removeWithSideFiles,
  replace,
  requireAccess,
  requireWritable,
  sideFileOf,
  sideFiles,
  sync,
  unfinishedName,
} from './files.ts';
import { type MigrationReport, openLockSuffix } from './open.ts';

/** Reports the current step and, where it is known, how much of that step is done, from 0 to 1. */
type OnProgress = (part: 'copying' | 'checking', share?: number) => void;

interface BackupOptions {
  /** Whether an existing file may be replaced. */
  readonly force?: boolean;
  readonly onProgress?: OnProgress;
  /** Called with the temporary name of the copy, which is to be removed if the program is interrupted. */
  readonly onUnfinished?: (path: string) => void;
}

/** How often the size of the copy is polled. */
const pollMs = 100;
const program = threadModule('storage/sqlite/backup-thread');

/**
 * Copies a database, which may be in use, into one file that is complete, checked, and readable by its owner only.
 * Until it is, the file does not exist, or is unchanged if it did.
 *
 * The copy is a snapshot. As long as it is being made the write-ahead log cannot be reset, so the log grows by whatever
 * is written meanwhile.
 * @throws FileFault
 */
export async function backUp(
  database: string,
  target: string,
  { force = false, onProgress = () => {}, onUnfinished = () => {} }: BackupOptions = {},
): Promise<{ bytes: number }> {
  const [databasePath, file] = [realFile(database), realFile(target)];
  if (!existsSync(databasePath)) throw new FileFault(`There is no database ${databasePath}.`);
  requireWritable(databasePath); // it is recovered first if a server was killed
  requireTarget(databasePath, file, force);
  const copy = unfinishedName(file);
  createPrivate(copy);
  onUnfinished(copy);
  try {
    await watchingGrowth(copy, onProgress, (onBytes) =>
      inBackupThread({ work: 'copy', from: databasePath, to: copy }, onBytes),
    ).catch((error: unknown) => {
      if (!(error instanceof Error) || error instanceof FileFault) throw error;
      throw new FileFault(`${databasePath} could not be copied to ${file}: ${error.message}.`, { cause: error });
    });
    onProgress('checking');
    await inBackupThread({ work: 'check', path: copy });
    sync(copy);
    const { size } = statSync(copy);
    if (force) {
      if (!existsSync(file)) removeWithSideFiles(file);
      replace(copy, file);
    } else publish(copy, file);
    return { bytes: size };
  } finally {
    removeWithSideFiles(copy);
  }
}

function requireTarget(databasePath: string, file: string, force: boolean): void {
  if (isSameFile(databasePath, file)) throw new FileFault(`${file} is the database itself.`);
  if (!existsSync(dirname(file))) throw new FileFault(`There is no folder ${dirname(file)}.`);
  requireAccess(dirname(file));
  // A backup by the name of the database's log would be taken for that log, and acknowledged writes would be lost.
  if ([...sideFiles, openLockSuffix].some((suffix) => file === databasePath + suffix)) {
    throw new FileFault(`${file} belongs to the database.`);
  }
  const there = statSync(file, { throwIfNoEntry: false });
  const beside = sideFileOf(file);
  if (there === undefined) {
    if (beside === undefined || force) return;
    throw new FileFault(
      `${beside} is left over from another ${file}, and would damage the backup; --force removes it.`,
    );
  }
  if (!there.isFile()) throw new FileFault(`${file} is not a file.`);
  if (!force) throw new FileFault(`${file} exists already; --force replaces it.`);
  if (beside !== undefined) throw new FileFault(`${file} is a database in use: ${beside} belongs to it.`);
}

/** Copying reports no progress, so the size of the file that it writes is polled. */
async function watchingGrowth<T>(
  path: string,
  onProgress: OnProgress,
  work: (onBytes: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  let expected = 0;
  const report = (): void => {
    const { size = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {};
    onProgress('copying', expected === 0 ? 0 : Math.min(1, size / expected));
  };
  const timer = setInterval(report, pollMs);
  try {
    const result = await work((bytes) => {
      expected = bytes;
      report();
    });
    report();
    return result;
  } finally {
    clearInterval(timer);
  }
}

/** A task of the thread, and its files. */
export type Task =
  | { readonly work: 'copy'; readonly from: string; readonly to: string }
  | { readonly work: 'check'; readonly path: string }
  | { readonly work: 'prepare'; readonly path: string; readonly backup: string };

/** What becomes of a backup that is to replace a database. */
export interface Prepared {
  readonly migrations: MigrationReport;
  /** The epoch that it had. */
  readonly epoch: string;
}

/** What the thread reports: the size that a copy will have at most, and in the end the outcome of the task. */
export type TaskReport =
  | { readonly bytes: number }
  | { readonly result: Prepared | undefined }
  | { readonly fault: string }
  | { readonly failure: { readonly message: string; readonly code: string | undefined } };

/**
 * Performs a task of a backup or a restoration in a thread, which ends with it.
 * @param onBytes called with the size that a copy will have at most
 * @throws FileFault for what the operator can fix
 */
export function inBackupThread(task: Task, onBytes: (bytes: number) => void = () => {}): Promise<Prepared | undefined> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(program, { workerData: task });
    worker.on('message', (message: TaskReport) => {
      if ('bytes' in message) onBytes(message.bytes);
      else if ('fault' in message) reject(new FileFault(message.fault));
      else if ('failure' in message) reject(Object.assign(new Error(message.failure.message), message.failure));
      else resolve(message.result);
    });
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread ended without a result'))); // comes after all of its messages
  });
}
