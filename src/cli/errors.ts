import { ConfigError } from '../config.ts';
import { DomainError } from '../domain/errors.ts';
import { OperatorError } from '../server/operator-error.ts';

/**
 * Runs work on files, and turns its file and disk errors into OperatorErrors.
 * @throws OperatorError
 */
export async function askingFiles<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isFileError(error) ? new OperatorError(sentence(error.message), error) : error;
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

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1).replace(/\.$/, '')}.`;
}

/** An error as the command line prints it: an expected one as a sentence, any other with its stack. */
export function explain(error: unknown): string {
  if (error instanceof OperatorError) return error.message;
  if (error instanceof ConfigError) return `The configuration is not valid:\n${error.message.replace(/^/gm, '  ')}`;
  if (error instanceof DomainError) {
    const { faults = [], oldestCursor } = error.facts;
    if (faults.length > 0) return faults.map(({ pointer, detail }) => fault(pointer, detail)).join('\n');
    return oldestCursor === undefined ? error.message : `${error.message}\noldestCursor: ${oldestCursor}`;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** A validation error under the name of its option: the pointer `/expiresAt` is `--expires-at`. */
function fault(pointer: string, detail: string): string {
  const [name = ''] = pointer.slice(1).split('/');
  return `--${name.replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)} ${detail}.`;
}
