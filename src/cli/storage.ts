import { randomFillSync } from 'node:crypto';
import { RateLimiter } from '../access/rate-limit.ts';
import { secrets } from '../access/secrets.ts';
import { Tokens } from '../access/tokens.ts';
import { readConfig } from '../config.ts';
import { LiveLog } from '../delivery/live.ts';
import { createIds } from '../domain/ids.ts';
import type { World } from '../domain/ports.ts';
import type { SqliteOptions, SqliteStorage } from '../storage/sqlite/storage.ts';
import { systemClock } from './clock.ts';
import { OperatorError } from './errors.ts';

/** Opens the configured storage for one command, beside a running server or not, and closes it after. */
export async function withWorld<T>(work: (world: World) => Promise<T>): Promise<T> {
  const storage = await openStorage(readConfig().databasePath);
  try {
    const limiter = new RateLimiter({ storage, clock: systemClock });
    return await work({
      storage,
      clock: systemClock,
      secrets,
      tokens: new Tokens({ storage, clock: systemClock }),
      limiter,
      liveEvents: new LiveLog(storage),
      ids: createIds((target) => randomFillSync(target)),
    });
  } finally {
    await storage.close();
  }
}

/** @throws OperatorError when the file cannot be opened as this program's database */
export async function openStorage(path: string, options: SqliteOptions = {}): Promise<SqliteStorage> {
  // Loaded only here, so that `--help` and a mistyped option answer at once.
  const { openSqliteStorage } = await import('../storage/sqlite/storage.ts');
  try {
    return openSqliteStorage(path, options);
  } catch (error) {
    if (!(error instanceof Error) || isOurFault(error)) throw error;
    throw new OperatorError(`The database ${path} cannot be opened: ${error.message.replace(/\.$/, '')}.`, error);
  }
}

/** A statement that SQLite does not understand, or a slip of the program: what the operator can do nothing about. */
function isOurFault(error: Error): boolean {
  const code = 'code' in error ? error.code : undefined;
  return error instanceof TypeError || code === 'SQLITE_ERROR' || code === 'SQLITE_MISUSE';
}
