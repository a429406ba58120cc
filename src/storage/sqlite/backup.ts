import { closeSync, existsSync, openSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  FileFault,
  isSameFile,
  publish,
  removeWithSideFiles,
  replace,
  requireAccess,
  sideFiles,
  sync,
  unfinishedName,
} from './files.ts';
import { inThread } from './in-thread.ts';
import { openLockSuffix } from './open-lock.ts';

/** How far it is: which part it is at, and how much of that is done, from 0 to 1, where that is known. */
export type OnProgress = (part: 'copying' | 'checking', share?: number) => void;

export interface BackupOptions {
  /** Whether a file that is there already may be replaced. */
  readonly force?: boolean;
  readonly onProgress?: OnProgress;
  /** Told of the name that the copy has until it is finished: to be removed if the program has to end before. */
  readonly onUnfinished?: (path: string) => void;
}

/** How often the size of the copy is looked at. */
const lookMs = 100;

/**
 * Copies a database, which may be in use, into one file: checked, complete, and readable by its owner only. Until then
 * the file is not there, or is as it was.
 *
 * It is a copy of one moment, which is kept in the write-ahead log while the copying goes on: the log grows by what is
 * written meanwhile.
 * @throws FileFault
 */
export async function backUp(
  databasePath: string,
  file: string,
  { force = false, onProgress = () => {}, onUnfinished = () => {} }: BackupOptions = {},
): Promise<{ bytes: number }> {
  if (!existsSync(databasePath)) throw new FileFault(`There is no database ${databasePath}.`);
  requireTarget(databasePath, file, force);
  const copy = unfinishedName(file);
  closeSync(openSync(copy, 'wx', 0o600));
  onUnfinished(copy);
  try {
    await watchingGrowth(copy, onProgress, (onBytes) =>
      inThread({ work: 'copy', from: databasePath, to: copy }, onBytes),
    ).catch((error: unknown) => {
      if (!(error instanceof Error) || error instanceof FileFault) throw error;
      throw new FileFault(`${databasePath} could not be copied to ${file}: ${error.message}.`, { cause: error });
    });
    onProgress('checking');
    await inThread({ work: 'check', path: copy });
    sync(copy);
    const { size } = statSync(copy);
    if (force) replace(copy, file);
    else publish(copy, file);
    return { bytes: size };
  } finally {
    removeWithSideFiles(copy);
  }
}

function requireTarget(databasePath: string, file: string, force: boolean): void {
  if (isSameFile(databasePath, file)) throw new FileFault(`${file} is the database itself.`);
  if (!existsSync(dirname(file))) throw new FileFault(`There is no folder ${dirname(file)}.`);
  requireAccess(dirname(file));
  // Where its log lies now or will lie, a backup would be taken for it, and what was acknowledged be lost.
  const [database, target] = [realpathSync(databasePath), join(realpathSync(dirname(file)), basename(file))];
  if ([...sideFiles, openLockSuffix].some((suffix) => target === database + suffix)) {
    throw new FileFault(`${file} belongs to the database.`);
  }
  const there = statSync(file, { throwIfNoEntry: false });
  if (there === undefined) return;
  if (!there.isFile()) throw new FileFault(`${file} is no file.`);
  if (!force) throw new FileFault(`${file} exists already; --force replaces it.`);
}

/** The copying says nothing of how far it is, but what it writes can be looked at. */
async function watchingGrowth<T>(
  path: string,
  onProgress: OnProgress,
  work: (onBytes: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  let expected = 0;
  const look = (): void => {
    const { size = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {};
    onProgress('copying', expected === 0 ? 0 : Math.min(1, size / expected));
  };
  const looking = setInterval(look, lookMs);
  try {
    const result = await work((bytes) => {
      expected = bytes;
      look();
    });
    look();
    return result;
  } finally {
    clearInterval(looking);
  }
}
