import { type Command, InvalidArgumentError, Option } from 'commander';
import { type DatabaseAddress, databaseAt, databaseFault, readConfig } from '../config.ts';
import { systemClock } from '../server/clock.ts';
import { OperatorError } from '../server/operator-error.ts';
import { isBug, nameOf, opening } from '../server/storage.ts';
import type { CopySide, CopyTarget } from '../storage/copy.ts';
import { addExamples, print, TerminalLine } from './output.ts';
import { isAbsent } from './with-ports.ts';

interface CopyCommandOptions {
  readonly from?: DatabaseAddress;
  readonly to: DatabaseAddress;
  readonly json?: boolean;
}

export function addCopy(program: Command): void {
  addExamples(
    program.command('copy'),
    'copy --to postgres://USER@HOST/conversations',
    'copy --from postgres://USER@HOST/conversations --to file:data/copy.db --json',
  )
    .description(
      'Copy a database with everything in it to another one, of SQLite or of PostgreSQL, and verify the copy; no server may be using either',
    )
    .addOption(database('--from <url>', 'the database, which is not changed (default: that of DATABASE_URL)'))
    .addOption(database('--to <url>', 'the copy: an empty database, or none yet if it is a file').makeOptionMandatory())
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
If it is interrupted, the same command continues it; until it has finished, no server starts on the copy. Then set
DATABASE_URL to the copy: keys, tokens, ids, cursors, events, webhooks and limits are the same there. The password of a
PostgreSQL database may be in PGPASSWORD, and its address must not be that of a proxy such as pgbouncer.`,
    )
    .action(copyDatabase);
}

function database(flags: string, description: string): Option {
  return new Option(flags, description).argParser((url) => {
    const fault = databaseFault(url);
    if (fault !== undefined) throw new InvalidArgumentError(`It ${fault}.`);
    return databaseAt(url);
  });
}

async function copyDatabase({ from = readConfig(), to, json = false }: CopyCommandOptions): Promise<void> {
  const names = { from: nameOf(from), to: nameOf(to) };
  if (from.postgres === undefined && isAbsent(from.databasePath)) {
    throw new OperatorError(`There is no database ${names.from}.`);
  }
  if (names.from === names.to) throw new OperatorError('A database cannot be copied to itself.');
  const startedMs = performance.now();
  const progress = new TerminalLine(process.stderr);
  const { copy, CopyFault } = await import('../storage/copy.ts');
  progress.show('Opening');
  const source = await openSource(from).finally(() => progress.end());
  try {
    const target = await openTarget(to);
    try {
      const copied = await copy(source, target, {
        onProgress: (step, table, share) =>
          progress.show(`${step === 'copying' ? 'Copying' : 'Verifying'} ${table}`, share),
      }).finally(() => progress.end());
      const seconds = Math.round(performance.now() - startedMs) / 1_000;
      print({ ...names, ...copied, seconds }, { json }, () =>
        [
          `Copied ${names.from} to ${names.to} and verified it: ${number.format(copied.accounts)} ${copied.accounts === 1 ? 'account' : 'accounts'}, ${number.format(copied.rows)} rows, in ${seconds.toFixed(1)} s.`,
          'Serve the copy from now on, and nothing else: what clients write to the one is not in the other.',
        ].join('\n'),
      );
    } catch (error) {
      if (error instanceof CopyFault) throw new OperatorError(error.message);
      if (!(error instanceof Error) || isBug(error)) throw error;
      throw new OperatorError(`The copy was interrupted: ${error.message}. The same command continues it.`, error);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

async function openSource(address: DatabaseAddress): Promise<CopySide> {
  return await opening(address, async () => {
    if (address.postgres !== undefined) {
      const { url, directUrl = url } = address.postgres;
      return await (await import('../storage/postgres/copy.ts')).openPostgresSource(directUrl);
    }
    return (await import('../storage/sqlite/copy.ts')).openSqliteSource(address.databasePath, systemClock);
  });
}

async function openTarget(address: DatabaseAddress): Promise<CopyTarget> {
  return await opening(address, async () => {
    if (address.postgres !== undefined) {
      return await (await import('../storage/postgres/copy.ts')).openPostgresTarget(address.postgres.url);
    }
    return (await import('../storage/sqlite/copy.ts')).openSqliteTarget(address.databasePath, systemClock);
  });
}

const number = new Intl.NumberFormat('en');
