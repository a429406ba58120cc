import { resolve } from 'node:path';
import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { askingFiles } from './errors.ts';
import { print } from './output.ts';
import { ProgressLine } from './progress.ts';
import { withoutRemains } from './unfinished.ts';

interface BackupCommandOptions {
  readonly force?: boolean;
  readonly json?: boolean;
}

export function addBackup(program: Command): void {
  program
    .command('backup')
    .description('Copy the database into one file, checked and complete, while servers use it or not')
    .argument('<file>', 'what to write')
    .option('--force', 'replace the file if there is one')
    .option('--json', 'print JSON')
    .action(async (name: string, options: BackupCommandOptions) => {
      const { databasePath } = readConfig();
      const { backUp } = await import('../storage/sqlite/backup.ts');
      const [file, progress] = [resolve(name), new ProgressLine()];
      const { bytes } = await withoutRemains((onUnfinished) =>
        askingFiles(() =>
          backUp(databasePath, file, {
            force: options.force === true,
            onProgress: (part, share) => progress.show(part === 'copying' ? 'Copying' : 'Checking', share),
            onUnfinished,
          }),
        ),
      ).finally(() => progress.end());
      print({ file, bytes }, options, () => `Wrote ${file} (${sizeOf(bytes)}), and checked it.`);
    });
}

function sizeOf(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
