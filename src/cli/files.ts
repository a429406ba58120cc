import { OperatorError } from '../server/operator-error.ts';
import { endingSignals } from '../server/stop.ts';
import { removeWithSideFiles } from '../storage/sqlite/files.ts';
import { sentence } from './output.ts';

// What commands that write files have in common.

/**
 * Runs work that writes files, and removes the unfinished ones if a signal interrupts it.
 * @param work must name each file before it starts to write it
 * @throws OperatorError as `reportingFileErrors`
 */
export async function removingUnfinishedFiles<T>(
  work: (onUnfinished: (path: string) => void) => Promise<T>,
): Promise<T> {
  const unfinished: string[] = [];
  const interrupted = (signal: NodeJS.Signals): void => {
    for (const path of unfinished) removeWithSideFiles(path);
    // The parent process must see which signal ended this one. Threads end with the process.
    process.off(signal, interrupted);
    process.kill(process.pid, signal);
  };
  for (const signal of endingSignals) process.on(signal, interrupted);
  try {
    return await reportingFileErrors(() => work((path) => unfinished.push(path)));
  } finally {
    for (const signal of endingSignals) process.off(signal, interrupted);
  }
}

/**
 * Runs work on files, and turns its file and disk errors into OperatorErrors.
 * @throws OperatorError
 */
export async function reportingFileErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isFileError(error) ? new OperatorError(sentence(wordsOf(error)), error) : error;
  }
}

/** Whether the cause is a file, the disk or permissions: a FileFault, or an error code of SQLite or the system. */
function isFileError(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return (
    error.name === 'FileFault' ||
    /^(SQLITE_(FULL|IOERR|CANTOPEN|BUSY|READONLY|NOTADB|CORRUPT|PERM)|E[A-Z]+$)/.test(code)
  );
}

/** What the system says, in words. */
function wordsOf(error: Error): string {
  const { code, path, message } = error as NodeJS.ErrnoException;
  if (path === undefined) return message;
  if (code === 'ENOENT') return `there is no file ${path}`;
  if (code === 'ENOTDIR') return `there is no folder for ${path}`;
  if (code === 'EISDIR') return `${path} is a folder`;
  return code === 'EACCES' ? `${path} may not be opened by this user` : message;
}
