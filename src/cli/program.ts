import { Command } from 'commander';
import { ConfigError } from '../config.ts';
import { DomainError, type Fault, worded } from '../domain/errors.ts';
import { OperatorError } from '../server/operator-error.ts';
import { addAccount } from './account.ts';
import { addBackup } from './backup.ts';
import { addCompact } from './compact.ts';
import { addDocuments } from './documents.ts';
import { addKey } from './key.ts';
import { addListen } from './listen.ts';
import { addMigrate } from './migrate.ts';
import { addRestore } from './restore.ts';
import { addSeed } from './seed.ts';
import { addServe } from './serve.ts';

/** Runs the command that the arguments name. A failure is printed and sets the exit code to 1. */
export async function run(argv: readonly string[]): Promise<void> {
  const program = new Command('conversation-service')
    .description('Conversations, messages and events, over REST and GraphQL')
    .configureOutput({ outputError: (text, write) => write(`${sentence(text)} See --help.\n`) });
  addServe(program);
  addAccount(program);
  addKey(program);
  addDocuments(program);
  addListen(program);
  addMigrate(program);
  addCompact(program);
  addBackup(program);
  addRestore(program);
  addSeed(program);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    console.error(explain(error));
    process.exitCode = 1;
  }
}

/**
 * Makes one sentence of `error: unknown command 'serv'\n(Did you mean serve?)`. Commander passes on nothing else of what is
 * wrong; a text in another form is printed as it is.
 */
function sentence(text: string): string {
  const words = text
    .trim()
    .replace(/^error: /, '')
    .replace(/\n\(Did/, ' (did');
  return `${words.charAt(0).toUpperCase()}${words.slice(1).replace(/\.$/, '')}.`;
}

/** An error as the command line prints it: an expected one as a sentence, any other with its stack. */
function explain(error: unknown): string {
  if (error instanceof OperatorError) return error.message;
  if (error instanceof ConfigError) return `The configuration is not valid:\n${error.message.replace(/^/gm, '  ')}`;
  if (error instanceof DomainError) {
    const { faults = [], oldestCursor } = error.facts;
    if (faults.length > 0) return faults.map(explainFault).join('\n');
    return oldestCursor === undefined ? error.message : `${error.message}\noldestCursor: ${oldestCursor}`;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** A fault of the input under the name of its option: `expiresAt` is `--expires-at`. */
function explainFault({ path: [name = ''], detail }: Fault): string {
  return `--${String(name).replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)} ${worded(detail)}.`;
}
