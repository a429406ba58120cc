import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { readConfig, setTemporaryFolder } from '../config.ts';
import { finishErasures } from '../domain/conversations.ts';
import { OperatorError } from '../server/operator-error.ts';
import { openStorage } from '../server/storage.ts';
import { formatBytes, print } from './output.ts';

export function addCompact(program: Command): void {
  program
    .command('compact')
    .description('Rewrite the database without the free space and the remnants of rows that erasure leaves in it')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const { databasePath } = readConfig();
      if (!existsSync(databasePath)) throw new OperatorError(`There is no database ${databasePath}.`);
      // Temporary copies must stay on the database's disk, not in a shared /tmp.
      setTemporaryFolder(dirname(databasePath));
      const storage = await openStorage(databasePath);
      try {
        await finishErasures(storage);
      } finally {
        await storage.close();
      }
      const { compact } = await import('../storage/sqlite/compact.ts');
      const sizes = await compact(databasePath);
      print(
        sizes,
        options,
        () => `Compacted the database from ${formatBytes(sizes.before)} to ${formatBytes(sizes.after)}.`,
      );
    });
}
