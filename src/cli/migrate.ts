import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { openStorage } from '../server/storage.ts';
import { print } from './output.ts';

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description('Apply pending migrations to the database; `serve` does so by itself')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const storage = await openStorage(readConfig().databasePath);
      await storage.close();
      const { applied, total } = storage.migrations;
      print({ applied, total }, options, () =>
        applied === 0 ? 'The database is up to date.' : `Applied ${applied} of ${total} migrations.`,
      );
    });
}
