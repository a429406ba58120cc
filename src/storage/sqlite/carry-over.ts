import Database from 'better-sqlite3';
import type { Clock } from '../../domain/ports.ts';
import { minuteMs, minuteOf, minutesBefore } from '../../domain/rate-window.ts';
import type { ClockReading } from '../../domain/steady-clock.ts';
import { SteadyClock } from '../../domain/steady-clock.ts';
import type { Connection } from './open.ts';

/** Clocks that differ by less are one, read at two moments: what both have counted in a minute is the same. */
const sameMs = 1_000;

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
 * Copies from a database into the backup that replaces it what a restoration must not undo: the requests that accounts
 * have spent within the last hour, and the revocations of keys.
 * @returns false when the database cannot be read
 */
export function carryOver(present: Connection, backupPath: string, clock: Clock): boolean {
  let reading: ClockReading;
  let spent: Spent[];
  let revocations: Revocation[];
  try {
    reading = readClock(present, clock);
    spent = spentAt(present, reading.atMs);
    revocations = present
      .prepare<[], Revocation>('SELECT id, revoked_at AS revokedAt FROM api_keys WHERE revoked_at IS NOT NULL')
      .all();
  } catch {
    return false; // it is damaged, or not a database of this program
  }
  const backup = new Database(backupPath, { fileMustExist: true });
  try {
    const spend = backup.prepare<Spent>(
      `INSERT INTO rate_windows (account_id, minute, count) VALUES (:accountId, :minute, :count)
       ON CONFLICT DO UPDATE SET count = max(count, excluded.count)`,
    );
    const setClock = backup.prepare<ClockReading>(
      'INSERT OR REPLACE INTO rate_clock VALUES (1, :atMs, :wallMs, :uptimeMs, :boot)',
    );
    const revoke = backup.prepare<Revocation>(
      'UPDATE api_keys SET revoked_at = :revokedAt WHERE id = :id AND revoked_at IS NULL',
    );
    backup.transaction(() => {
      // The backup's own counts stay as well: the present database may be an empty one that replaced a lost one.
      const { atMs } = readClock(backup, clock);
      const known = spentAt(backup, atMs);
      const laterMs = reading.atMs - atMs;
      const laterMinutes = Math.abs(laterMs) < sameMs ? 0 : Math.ceil(laterMs / minuteMs);
      const last = minuteOf(reading.atMs);
      backup.exec('DELETE FROM rate_windows');
      for (const each of known) spend.run({ ...each, minute: Math.min(each.minute + laterMinutes, last) });
      for (const each of spent) spend.run(each);
      setClock.run(reading);
      for (const each of revocations) revoke.run(each);
    })();
    return true;
  } finally {
    backup.close();
  }
}

/** The requests spent within the hour up to a time of the limiter's clock. */
function spentAt(connection: Connection, atMs: number): Spent[] {
  const last = minuteOf(atMs);
  return connection
    .prepare<{ first: number; last: number }, Spent>(
      // An earlier version counted by the machine's clock, which may have been ahead.
      `SELECT account_id AS accountId, min(minute, :last) AS minute, sum(count) AS count FROM rate_windows
       WHERE minute >= :first AND count > 0 GROUP BY 1, 2`,
    )
    .all({ first: last - minutesBefore, last });
}

/** The limiter's clock as of now, going on from the reading in a database. Earlier versions did not store any. */
function readClock(connection: Connection, clock: Clock): ClockReading {
  const isThere = connection.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'rate_clock'`).get() !== undefined;
  const sql = 'SELECT at AS atMs, wall AS wallMs, uptime AS uptimeMs, boot FROM rate_clock';
  return new SteadyClock(clock).goOnFrom(isThere ? connection.prepare<[], ClockReading>(sql).get() : undefined);
}
