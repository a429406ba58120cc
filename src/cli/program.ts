import { Command } from 'commander';
import { ConfigError } from '../config.ts';
import { DomainError } from '../domain/errors.ts';
import { addAccount } from './account.ts';
import { addKey } from './key.ts';
import { addMigrate } from './migrate.ts';
import { addServe } from './serve.ts';

/** Runs the command that the arguments name. An error that was meant is one sentence; any other has its stack. */
export async function run(argv: readonly string[]): Promise<void> {
  const program = new Command('conversation-service')
    .description('Conversations, messages and events, over REST and GraphQL')
    .showHelpAfterError();
  addServe(program);
  addAccount(program);
  addKey(program);
  addMigrate(program);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    console.error(explain(error));
    process.exitCode = 1;
  }
}

function explain(error: unknown): string {
  if (error instanceof ConfigError) return `The configuration is not valid:\n${error.message.replace(/^/gm, '  ')}`;
  if (error instanceof DomainError) {
    const faults = error.facts.faults ?? [];
    return [
      error.message,
      ...(faults.length > 1 ? faults.map(({ pointer, detail }) => `  ${pointer.slice(1)} ${detail}`) : []),
    ].join('\n');
  }
  if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')
    return 'The port is in use already; set PORT to another one.';
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
