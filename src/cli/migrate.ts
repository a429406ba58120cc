import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { systemClock } from '../server/clock.ts';
import { openStorage } from '../server/storage.ts';
import { addExamples, print, TerminalLine } from './output.ts';

export function addMigrate(program: Command): void {
  addExamples(program.command('migrate'), 'migrate')
    .description('Apply pending migrations to the database; `serve` does so by itself')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const progress = new TerminalLine(process.stderr);
      progress.show('Migrating');
      const storage = await openStorage(readConfig(), { clock: systemClock }).finally(() => progress.end());
      await storage.close();
      const { applied, total } = storage.migrations;
      print({ applied, total }, options, () =>
        applied === 0 ? 'The database is up to date.' : `Applied ${applied} of ${total} migrations.`,
      );
    });
}
