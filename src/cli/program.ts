import { styleText } from 'node:util';
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.ts';
import { DomainError, type Fault, worded } from '../domain/errors.ts';
import { OperatorError, withoutStop } from '../server/operator-error.ts';
import { version } from '../version.ts';
import { addAccount } from './account.ts';
import { addBackup } from './backup.ts';
import { addCompact } from './compact.ts';
import { addCopy } from './copy.ts';
import { addDocuments } from './documents.ts';
import { addKey } from './key.ts';
import { addListen } from './listen.ts';
import { addMigrate } from './migrate.ts';
import { inRed, printText, sentence } from './output.ts';
import { addRestore } from './restore.ts';
import { addSeed } from './seed.ts';
import { addServe } from './serve.ts';

const always = { validateStream: false };
const bold = (text: string): string => styleText('bold', text, always);
const cyan = (text: string): string => styleText('cyan', text, always);

/** What all commands have in common. */
const about = `
Every command works on the database that DATABASE_URL names (file:data/conversations.db without it), and all but restore
and copy also while a server has it open. \`conversation-service <command> --help\` shows examples. With --json, standard output
holds nothing but JSON; mistakes and progress are on standard error, and the exit code is 0 only if all went well.

To begin:
  conversation-service account create --name "Acme Support" --plan pro
  conversation-service serve`;

/** Runs the command that the arguments name. A failure is printed and sets the exit code. */
export async function run(argv: readonly string[]): Promise<void> {
  const program = new Command('conversation-service')
    .exitOverride()
    .description('Conversations, messages and events, over REST and GraphQL')
    .version(version, '--version', 'print the version')
    .configureOutput({
      writeOut: (text) => printText(text.replace(/\n$/, '')),
      writeErr: (text) => console.error(text.replace(/\n$/, '')),
      outputError: (text, write) => write(`${inRed(`${explainMistake(text)} See --help.`)}\n`),
    })
    // Commander takes the colours away again where they are not for a terminal.
    .configureHelp({ styleTitle: bold, styleOptionTerm: cyan, styleSubcommandTerm: cyan, styleArgumentTerm: cyan })
    .addHelpText('after', about);
  addServe(program);
  addAccount(program);
  addKey(program);
  addDocuments(program);
  addListen(program);
  addMigrate(program);
  addCompact(program);
  addBackup(program);
  addRestore(program);
  addCopy(program);
  addSeed(program);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    // Commander has printed its own, which are not all mistakes: --help is one.
    const isPrinted = error instanceof CommanderError;
    if (!isPrinted) console.error(inRed(explain(error)));
    process.exitCode ||= isPrinted ? error.exitCode : 1;
  }
}

/**
 * Makes one sentence of `error: unknown command 'serv'\n(Did you mean serve?)`. Commander passes on nothing else of what is
 * wrong; a text in another form is printed as it is.
 */
function explainMistake(text: string): string {
  const words = text.trim().replace(/^error: /, '');
  return sentence(words.replace(/\n\(Did/, ' (did'));
}

/** An error as the command line prints it: an expected one as a sentence, any other with its stack. */
function explain(error: unknown): string {
  if (error instanceof OperatorError) return error.message;
  if (error instanceof ConfigError) return `The configuration is not valid:\n${error.message.replace(/^/gm, '  ')}`;
  if (error instanceof DomainError) {
    const { faults = [], oldestCursor } = error.facts;
    if (faults.length > 0) return faults.map(explainFault).join('\n');
    if (oldestCursor !== undefined) return `${error.message}\noldestCursor: ${oldestCursor}`;
    // Clients are not told what is wrong with the storage, but the operator is.
    return error.cause instanceof Error ? `${withoutStop(error)} (${withoutStop(error.cause)}).` : error.message;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** A fault of the input under the name of its option: `expiresAt` is `--expires-at`. */
function explainFault({ path: [name = ''], detail }: Fault): string {
  return `--${String(name).replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)} ${worded(detail)}.`;
}
