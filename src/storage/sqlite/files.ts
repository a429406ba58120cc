import { randomBytes } from 'node:crypto';
import {
  accessSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** Something about files that keeps a backup or a restoration from being made, in a sentence for the operator. */
export class FileFault extends Error {
  override readonly name = 'FileFault';
}

/** What SQLite puts beside a database while it is in use. */
export const sideFiles = ['-wal', '-shm', '-journal'] as const;

/** A name beside a path that nobody else has, for what is not finished. */
export function unfinishedName(path: string): string {
  return `${path}.unfinished-${randomBytes(6).toString('hex')}`;
}

export function removeWithSideFiles(path: string): void {
  for (const suffix of ['', ...sideFiles]) rmSync(path + suffix, { force: true });
}

/**
 * Makes sure that a database can be written, with what SQLite puts beside it; its folder is made if need be. SQLite
 * itself would open it for reading only, and say so at the first write.
 * @throws FileFault
 */
export function requireWritable(path: string): void {
  const folder = dirname(path);
  requireAccess(nearest(folder));
  mkdirSync(folder, { recursive: true });
  for (const suffix of ['', ...sideFiles]) requireAccess(path + suffix);
}

/** @throws FileFault when there is something of that name that cannot be written */
export function requireAccess(path: string): void {
  try {
    accessSync(path, constants.W_OK);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code !== 'ENOENT')
      throw new FileFault(`${path} cannot be written: ${reasons[code] ?? code}.`, { cause: error });
  }
}

/** A folder if it is there, else the first above it that is. */
function nearest(folder: string): string {
  return existsSync(folder) || folder === dirname(folder) ? folder : nearest(dirname(folder));
}

const reasons: Readonly<Record<string, string>> = {
  EROFS: 'its file system is read-only',
  EACCES: 'this user may not',
  EPERM: 'this user may not',
};

/** Whether two paths lead to the same file. */
export function isSameFile(path: string, other: string): boolean {
  const [one, two] = [path, other].map((each) => statSync(each, { throwIfNoEntry: false }));
  return one !== undefined && two !== undefined && one.ino === two.ino && one.dev === two.dev;
}

/**
 * Gives a file to the owner of another, who may be somebody else than the superuser that runs the program; as SQLite
 * does with its files beside a database.
 */
export function giveToOwnerOf(other: string, path: string): void {
  const { uid, gid } = statSync(other);
  if (process.getuid?.() === 0) chownSync(path, uid, gid);
}

/** Returns when the content of a file, or the names in a folder, are on the disk. */
export function sync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/**
 * Gives a finished file its name, which was free until then, and makes that last.
 * @throws FileFault when there is something of that name
 */
export function publish(finished: string, name: string): void {
  try {
    linkSync(finished, name); // unlike a renaming, it never replaces what somebody else has just put there
    rmSync(finished);
  } catch (error) {
    if (existsSync(name)) throw new FileFault(`${name} exists already.`);
    if (!hasNoLinks(error)) throw error;
    renameSync(finished, name);
  }
  sync(dirname(name));
}

/** Puts a finished file in the place of another, and makes that last. Whoever opens the name finds one of the two. */
export function replace(finished: string, name: string): void {
  renameSync(finished, name);
  sync(dirname(name));
}

/** Gives a file a second name, from where it can be had when its first one is given to another. */
export function keepAs(path: string, other: string): void {
  try {
    linkSync(path, other);
  } catch (error) {
    if (!hasNoLinks(error)) throw error;
    renameSync(path, other);
  }
}

/** Some file systems know no second names for a file. */
function hasNoLinks(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'EPERM' || code === 'ENOTSUP' || code === 'EOPNOTSUPP' || code === 'ENOSYS' || code === 'EMLINK';
}
