import { ConfigError } from '../config.ts';
import { DomainError } from '../domain/errors.ts';

/** Something that keeps a command from its work and that the operator can put right: told without a stack. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
  }
}

/**
 * Runs what works on files, with its faults told as the operator's to put right.
 * @throws OperatorError
 */
export async function askingFiles<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isOperators(error) ? new OperatorError(sentence(error.message), error) : error;
  }
}

/** A fault of files, of the disk, or of the rights to them: FileFault, SQLite's own and the system's. */
function isOperators(error: unknown): error is Error {
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

/** What to tell of an error on the command line. One that was meant is a sentence; any other has its stack. */
export function explain(error: unknown): string {
  if (error instanceof OperatorError) return error.message;
  if (error instanceof ConfigError) return `The configuration is not valid:\n${error.message.replace(/^/gm, '  ')}`;
  if (error instanceof DomainError) {
    const { faults = [] } = error.facts;
    return faults.length === 0 ? error.message : faults.map(({ pointer, detail }) => fault(pointer, detail)).join('\n');
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** A fault of an operation's input, in the words of the command line: `/expiresAt` came as `--expires-at`. */
function fault(pointer: string, detail: string): string {
  const [name = ''] = pointer.slice(1).split('/');
  return `--${name.replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)} ${detail}.`;
}

/**
 * Why the server could not listen.
 * @returns the error itself when the operator can do nothing about it
 */
export function listenError(error: Error, { host, port }: { host: string; port: number }): Error {
  const code = 'code' in error ? error.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new OperatorError(`The port ${port} is in use already; set PORT to another one.`, error);
    case 'EACCES':
      return new OperatorError(`The port ${port} may not be used by this user; set PORT to another one.`, error);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new OperatorError(`HOST is ${host}, which is no address of this machine.`, error);
    default:
      return error;
  }
}
