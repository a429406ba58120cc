import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { readConfig, setTemporaryFolder } from '../config.ts';
import { finishErasures } from '../domain/conversations.ts';
import { OperatorError } from './errors.ts';
import { print } from './output.ts';
import { openStorage } from './world.ts';

export function addCompact(program: Command): void {
  program
    .command('compact')
    .description('Write the database anew, without the free space and the pieces of rows that erasing leaves in it')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const { databasePath } = readConfig();
      if (!existsSync(databasePath)) throw new OperatorError(`There is no database ${databasePath}.`);
      // What it holds is nowhere else, on no other disk and in no folder of everybody's.
      setTemporaryFolder(dirname(databasePath));
      const storage = await openStorage(databasePath);
      try {
        await finishErasures(storage);
      } finally {
        await storage.close();
      }
      const { compact, megabytes } = await import('../storage/sqlite/compact.ts');
      const sizes = await compact(databasePath);
      print(
        sizes,
        options,
        () => `The database took ${megabytes(sizes.before)} and takes ${megabytes(sizes.after)} now.`,
      );
    });
}
