import { randomBytes } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** A problem with files that prevents what a command is to do. The message is for the operator. */
export class FileFault extends Error {
  override readonly name = 'FileFault';
}

/** Suffixes of the files that SQLite puts beside a database while it is in use. */
export const sideFiles = ['-wal', '-shm', '-journal'] as const;

/** The mode of the files that this program makes: only their owner can read and write them. */
const privateMode = 0o600;

/**
 * Makes an empty file, and its folder if need be, for their owner alone, whatever the umask. SQLite gives the files
 * that it puts beside a database the mode of the database.
 * @returns false if the file exists already
 */
export function createPrivate(path: string): boolean {
  createFolder(dirname(path));
  try {
    const file = openSync(path, 'wx', privateMode);
    fchmodSync(file, privateMode); // the umask may have taken away what the owner needs
    closeSync(file);
    return true;
  } catch (error) {
    if (existsSync(path)) return false;
    throw error;
  }
}

/** Not by `recursive` of Node, which tries for ever where the system says that there is no such folder, as in /proc. */
function createFolder(folder: string): void {
  if (existsSync(folder)) return;
  createFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!existsSync(folder)) throw error; // another process may have made it
  }
}

/**
 * Makes a database private that every user of the machine can read, as earlier versions made it. One that its owner has
 * opened to a group stays so.
 * @returns whether it was public
 */
export function makePrivate(path: string): boolean {
  if (!isPublic(path)) return false;
  try {
    for (const suffix of ['', ...sideFiles]) if (existsSync(path + suffix)) chmodSync(path + suffix, privateMode);
    return true;
  } catch {
    return false; // it belongs to another user
  }
}

/** The mode of a file that takes the place of another one. */
export function modeAfter(path: string): number {
  return isPublic(path) ? privateMode : (statSync(path, { throwIfNoEntry: false })?.mode ?? privateMode) & 0o777;
}

/** Not of a folder, nor of a device such as /dev/null: they are for others, too. */
function isPublic(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && (found.mode & 0o007) !== 0;
}

/**
 * The file that a path leads to through symbolic links, whether or not it exists. SQLite puts its side files beside
 * that one.
 */
export function realFile(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || path === dirname(path)) throw error;
    const target = linkTarget(path);
    return target === undefined ? join(realFile(dirname(resolve(path))), basename(path)) : realFile(target);
  }
}

/** Where a symbolic link points to; undefined if there is none of that name. */
function linkTarget(path: string): string | undefined {
  try {
    return resolve(dirname(path), readlinkSync(path));
  } catch {
    return undefined;
  }
}

/** A unique name beside a path, for a file that is not finished. */
export function unfinishedName(path: string): string {
  return `${path}.unfinished-${randomBytes(6).toString('hex')}`;
}

export function removeWithSideFiles(path: string): void {
  for (const suffix of ['', ...sideFiles]) rmSync(path + suffix, { force: true });
}

/**
 * Makes sure that a database and the files beside it can be written, and creates its folder if need be. SQLite itself
 * would open the database read-only, and fail at the first write.
 * @throws FileFault also when it is no file at all
 */
export function requireWritable(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile() === false) throw new FileFault(`${path} is ${found.isDirectory() ? 'a folder' : 'no file'}.`);
  const folder = dirname(path);
  requireAccess(nearest(folder));
  createFolder(folder);
  for (const suffix of ['', ...sideFiles]) requireAccess(path + suffix);
}

/** @throws FileFault when something of that name exists and cannot be written */
export function requireAccess(path: string): void {
  try {
    accessSync(path, constants.W_OK);
  } catch (error) {
    const code = codeOf(error);
    if (code !== 'ENOENT')
      throw new FileFault(`${path} cannot be written: ${reasons[code] ?? code}.`, { cause: error });
  }
}

/** The folder itself if it exists, else its nearest ancestor that does. */
function nearest(folder: string): string {
  return existsSync(folder) || folder === dirname(folder) ? folder : nearest(dirname(folder));
}

const reasons: Readonly<Record<string, string>> = {
  EROFS: 'its file system is read-only',
  EACCES: 'permission denied',
  EPERM: 'operation not permitted',
};

/** Whether two paths lead to the same file. */
export function isSameFile(path: string, other: string): boolean {
  const [one, two] = [path, other].map((each) => statSync(each, { throwIfNoEntry: false }));
  return one !== undefined && two !== undefined && one.ino === two.ino && one.dev === two.dev;
}

/**
 * Gives a file the owner of another, if the program runs as the superuser. SQLite does the same with the files that it
 * puts beside a database.
 */
export function giveToOwnerOf(other: string, path: string): void {
  const { uid, gid } = statSync(other);
  if (process.getuid?.() === 0) chownSync(path, uid, gid);
}

/** Flushes the content of a file, or the names in a folder, to the disk. */
export function sync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/**
 * Gives a finished file its final name, durably.
 * @throws FileFault when something of that name exists
 */
export function publish(finished: string, name: string): void {
  try {
    linkSync(finished, name); // unlike a rename, it never replaces what another process has just put there
    rmSync(finished);
  } catch (error) {
    if (existsSync(name)) throw new FileFault(`${name} exists already.`);
    if (!hasNoLinks(error)) throw error;
    renameSync(finished, name);
  }
  sync(dirname(name));
}

/** Replaces a file by a finished one, atomically and durably. */
export function replace(finished: string, name: string): void {
  renameSync(finished, name);
  sync(dirname(name));
}

/** Gives a file a second name, under which it stays when another file gets the first one. */
export function keepAs(path: string, other: string): void {
  try {
    linkSync(path, other);
  } catch (error) {
    if (!hasNoLinks(error)) throw error;
    renameSync(path, other);
  }
}

/** Whether linking failed because the file system has no hard links, or allows no more of them. */
function hasNoLinks(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'EPERM' || code === 'ENOTSUP' || code === 'EOPNOTSUPP' || code === 'ENOSYS' || code === 'EMLINK';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/**
 * The first side file of a path that is not empty. SQLite would apply it to whatever database gets that name.
 * @returns undefined if there is none
 */
export function sideFileOf(path: string, suffixes: readonly string[] = sideFiles): string | undefined {
  return suffixes
    .map((suffix) => path + suffix)
    .find((file) => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0);
}
