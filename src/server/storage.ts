import type { SqliteOptions, SqliteStorage } from '../storage/sqlite/storage.ts';
import { OperatorError } from './operator-error.ts';

/** @throws OperatorError if the file cannot be opened as a database of this program */
export async function openStorage(path: string, options: SqliteOptions = {}): Promise<SqliteStorage> {
  // Loaded only here, so that `--help` and a mistyped option respond at once.
  const { openSqliteStorage } = await import('../storage/sqlite/storage.ts');
  try {
    return openSqliteStorage(path, options);
  } catch (error) {
    if (!(error instanceof Error) || isBug(error)) throw error;
    throw new OperatorError(`The database ${path} cannot be opened: ${error.message.replace(/\.$/, '')}.`, error);
  }
}

/** A programming error, such as SQL that SQLite rejects, which the operator cannot fix. */
function isBug(error: Error): boolean {
  const code = 'code' in error ? error.code : undefined;
  return error instanceof TypeError || code === 'SQLITE_ERROR' || code === 'SQLITE_MISUSE';
}
