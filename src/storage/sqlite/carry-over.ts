import Database from 'better-sqlite3';
import type { ClockReading } from '../../domain/ports.ts';
import type { Connection } from './open.ts';

/** So many minutes before the one that has begun count. */
const countedBefore = 60;

interface Spent {
  readonly accountId: string;
  readonly minute: number;
  readonly count: number;
}

interface Revocation {
  readonly id: string;
  readonly revokedAt: number;
}

/**
 * Takes over from a database, into the backup that is to take its place, what must not be forgotten: the requests that
 * accounts have spent within the hour, and which keys were revoked.
 * @returns whether the database could tell
 */
export function carryOver(present: Connection, backupPath: string, nowMs: number): boolean {
  let reading: ClockReading;
  let spent: Spent[];
  let revocations: Revocation[];
  try {
    reading = readClock(present) ?? { atMs: nowMs, wallMs: nowMs, uptimeMs: 0, boot: '' };
    const last = Math.floor(reading.atMs / 60_000);
    spent = present
      .prepare<{ first: number; last: number }, Spent>(
        // An earlier version went by the machine's clock, which may have been ahead.
        `SELECT account_id AS accountId, min(minute, :last) AS minute, sum(count) AS count FROM rate_windows
         WHERE minute >= :first AND count > 0 GROUP BY 1, 2`,
      )
      .all({ first: last - countedBefore, last });
    revocations = present
      .prepare<[], Revocation>('SELECT id, revoked_at AS revokedAt FROM api_keys WHERE revoked_at IS NOT NULL')
      .all();
  } catch {
    return false; // it is damaged, or no database of this program
  }
  const backup = new Database(backupPath, { fileMustExist: true });
  try {
    const spend = backup.prepare<Spent>(
      'INSERT INTO rate_windows (account_id, minute, count) VALUES (:accountId, :minute, :count)',
    );
    const setClock = backup.prepare<ClockReading>(
      'INSERT OR REPLACE INTO rate_clock VALUES (1, :atMs, :wallMs, :uptimeMs, :boot)',
    );
    const revoke = backup.prepare<Revocation>(
      'UPDATE api_keys SET revoked_at = :revokedAt WHERE id = :id AND revoked_at IS NULL',
    );
    backup.transaction(() => {
      // The backup's are by its own clock, and older than these.
      backup.exec('DELETE FROM rate_windows');
      setClock.run(reading);
      for (const each of spent) spend.run(each);
      for (const each of revocations) revoke.run(each);
    })();
    return true;
  } finally {
    backup.close();
  }
}

/** @returns undefined when no request was counted yet, or only by a version that went by the machine's clock */
function readClock(connection: Connection): ClockReading | undefined {
  const isThere = connection.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'rate_clock'`).get() !== undefined;
  if (!isThere) return undefined;
  return connection
    .prepare<[], ClockReading>('SELECT at AS atMs, wall AS wallMs, uptime AS uptimeMs, boot FROM rate_clock')
    .get();
}
