import Database from 'better-sqlite3';
import type { Connection } from './open.ts';

/** For how long requests count, in minutes: the 60 of the limit and the one that has begun. */
const countedMinutes = 61;

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
  let spent: Spent[];
  let revocations: Revocation[];
  try {
    spent = present
      .prepare<[number], Spent>(
        'SELECT account_id AS accountId, minute, count FROM rate_windows WHERE minute > ? AND count > 0',
      )
      .all(Math.floor(nowMs / 60_000) - countedMinutes);
    revocations = present
      .prepare<[], Revocation>('SELECT id, revoked_at AS revokedAt FROM api_keys WHERE revoked_at IS NOT NULL')
      .all();
  } catch {
    return false; // it is damaged, or no database of this program
  }
  const backup = new Database(backupPath, { fileMustExist: true });
  try {
    const spend = backup.prepare<Spent>(
      `INSERT INTO rate_windows (account_id, minute, count) VALUES (:accountId, :minute, :count)
       ON CONFLICT DO UPDATE SET count = max(count, excluded.count)`,
    );
    const revoke = backup.prepare<Revocation>(
      'UPDATE api_keys SET revoked_at = :revokedAt WHERE id = :id AND revoked_at IS NULL',
    );
    backup.transaction(() => {
      for (const each of spent) spend.run(each);
      for (const each of revocations) revoke.run(each);
    })();
    return true;
  } finally {
    backup.close();
  }
}
