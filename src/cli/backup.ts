import { resolve } from 'node:path';
import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { requireFile } from '../server/storage.ts';
import { removingUnfinishedFiles } from './files.ts';
import { addExamples, formatBytes, print, TerminalLine } from './output.ts';
import { requireDatabase } from './with-ports.ts';

interface BackupCommandOptions {
  readonly force?: boolean;
  readonly json?: boolean;
}

export function addBackup(program: Command): void {
  addExamples(program.command('backup'), 'backup /var/backups/conversations.db', 'backup --force today.db --json')
    .description('Write a consistent, verified copy of the database to one file, also while servers are using it')
    .argument('<file>', 'the file to write')
    .option('--force', 'replace the file if it exists')
    .option('--json', 'print JSON')
    .action(async (name: string, options: BackupCommandOptions) => {
      const databasePath = requireFile(readConfig());
      requireDatabase(databasePath);
      const { backUp } = await import('../storage/sqlite/backup.ts');
      const [file, progress] = [resolve(name), new TerminalLine(process.stderr)];
      const { bytes } = await removingUnfinishedFiles((onUnfinished) =>
        backUp(databasePath, file, {
          force: options.force === true,
          onProgress: (part, share) => progress.show(part === 'copying' ? 'Copying' : 'Verifying', share),
          onUnfinished,
        }),
      ).finally(() => progress.end());
      print({ file, bytes }, options, () => `Wrote ${file} (${formatBytes(bytes)}) and verified it.`);
    });
}
