import { dirname } from 'node:path';
import type { Command } from 'commander';
import { readConfig, setTemporaryFolder } from '../config.ts';
import { finishErasures } from '../domain/conversations.ts';
import { systemClock } from '../server/clock.ts';
import { openStorage, requireFile } from '../server/storage.ts';
import { realFile } from '../storage/sqlite/files.ts';
import { reportingFileErrors } from './files.ts';
import { addExamples, formatBytes, print, TerminalLine } from './output.ts';
import { requireDatabase } from './with-ports.ts';

export function addCompact(program: Command): void {
  addExamples(program.command('compact'), 'compact')
    .description('Rewrite the database without the free space and the remnants of rows that erasure leaves in it')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const config = readConfig();
      const databasePath = requireFile(config);
      requireDatabase(databasePath);
      // Temporary copies must stay on the disk of the database, which may be behind a link, not in a shared /tmp.
      setTemporaryFolder(dirname(realFile(databasePath)));
      const progress = new TerminalLine(process.stderr);
      const work = async () => {
        progress.show('Finishing erasures');
        const storage = await openStorage(config, { clock: systemClock });
        try {
          await finishErasures(storage);
        } finally {
          await storage.close();
        }
        const { compact } = await import('../storage/sqlite/compact.ts');
        progress.show('Compacting');
        return await reportingFileErrors(() => compact(databasePath));
      };
      const sizes = await work().finally(() => progress.end());
      print(
        sizes,
        options,
        () => `Compacted the database from ${formatBytes(sizes.before)} to ${formatBytes(sizes.after)}.`,
      );
    });
}
