import { Command } from 'commander';
import { addAccount } from './account.ts';
import { addBackup } from './backup.ts';
import { addCompact } from './compact.ts';
import { explain } from './errors.ts';
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

/** Turns Commander's `error: unknown command 'serv'\n(Did you mean serve?)` into one sentence. */
function sentence(text: string): string {
  const words = text
    .trim()
    .replace(/^error: /, '')
    .replace(/\n\(Did/, ' (did');
  return `${words.charAt(0).toUpperCase()}${words.slice(1).replace(/\.$/, '')}.`;
}
