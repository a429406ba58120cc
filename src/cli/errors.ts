import { ConfigError } from '../config.ts';
import { DomainError } from '../domain/errors.ts';

/** A failure that the operator can fix: reported as its message alone, without a stack. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
  }
}

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

/**
 * Explains why the server could not listen.
 * @returns the error itself if the operator cannot fix it
 */
export function listenError(error: Error, { host, port }: { host: string; port: number }): Error {
  const code = 'code' in error ? error.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new OperatorError(`Port ${port} is already in use; set PORT to another one.`, error);
    case 'EACCES':
      return new OperatorError(`This user may not listen on port ${port}; set PORT to another one.`, error);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new OperatorError(`HOST is ${host}, which is not an address of this machine.`, error);
    default:
      return error;
  }
}
