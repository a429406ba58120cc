import { resolve } from 'node:path';
import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { systemClock } from '../server/clock.ts';
import { askingFiles } from './errors.ts';
import { print } from './output.ts';
import { ProgressLine } from './progress.ts';
import { withoutRemains } from './unfinished.ts';

interface RestoreCommandOptions {
  readonly force?: boolean;
  readonly json?: boolean;
}

export function addRestore(program: Command): void {
  program
    .command('restore')
    .description('Put a backup in the place of the database, which is moved aside; no server may be using it')
    .argument('<file>', 'the backup, which is only read')
    .option('--force', 'also when the present database is too damaged to tell whether a server is using it')
    .option('--json', 'print JSON')
    .action(async (name: string, options: RestoreCommandOptions) => {
      const { databasePath } = readConfig();
      const { restore } = await import('../storage/sqlite/restore.ts');
      const [backup, progress] = [resolve(name), new ProgressLine()];
      const { previous, carriedOver, migrations } = await withoutRemains((onUnfinished) =>
        askingFiles(() =>
          restore(databasePath, backup, {
            clock: systemClock,
            force: options.force === true,
            onProgress: (part) => progress.show(part === 'copying' ? 'Copying' : 'Checking'),
            onUnfinished,
          }),
        ),
      ).finally(() => progress.end());
      print({ backup, database: databasePath, previous, carriedOver, migrations }, options, () =>
        [
          `Restored ${backup} to ${databasePath}.`,
          previous === null ? 'There was no database before.' : `What was there before is now ${previous}.`,
          ...(previous === null || carriedOver
            ? []
            : [
                'It could not be read: limits begin anew, and keys that were revoked since the backup are valid again.',
              ]),
        ].join('\n'),
      );
    });
}
