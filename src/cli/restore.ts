import { resolve } from 'node:path';
import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { systemClock } from '../server/clock.ts';
import { requireFile } from '../server/storage.ts';
import { removingUnfinishedFiles } from './files.ts';
import { addExamples, print, TerminalLine } from './output.ts';

interface RestoreCommandOptions {
  readonly force?: boolean;
  readonly json?: boolean;
}

export function addRestore(program: Command): void {
  addExamples(program.command('restore'), 'restore /var/backups/conversations.db')
    .description('Replace the database by a backup and move the old one aside; no server may be using it')
    .argument('<file>', 'the backup, which is not changed')
    .option('--force', 'restore even if the present database is too damaged to tell whether a server is using it')
    .option('--json', 'print JSON')
    .action(async (name: string, options: RestoreCommandOptions) => {
      const databasePath = requireFile(readConfig());
      const { restore } = await import('../storage/sqlite/restore.ts');
      const [backup, progress] = [resolve(name), new TerminalLine(process.stderr)];
      const { previous, carriedOver, migrations } = await removingUnfinishedFiles((onUnfinished) =>
        restore(databasePath, backup, {
          clock: systemClock,
          force: options.force === true,
          onProgress: (part) => progress.show(part === 'copying' ? 'Copying' : 'Verifying'),
          onUnfinished,
        }),
      ).finally(() => progress.end());
      print({ backup, database: databasePath, previous, carriedOver, migrations }, options, () =>
        [
          `Restored ${backup} to ${databasePath}.`,
          previous === null ? 'There was no previous database.' : `The previous database is now ${previous}.`,
          ...(previous === null || carriedOver
            ? []
            : ['It could not be read: rate limits start afresh, and keys revoked since the backup are valid again.']),
        ].join('\n'),
      );
    });
}
