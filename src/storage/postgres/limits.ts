import type { Clock } from '../../domain/ports.ts';
import { minuteMs } from '../../domain/rate-window.ts';
import type { RateWindowReads, RateWindowWrites } from '../../domain/storage-port.ts';
import type { Statements } from './statements.ts';
import type { rateWindows } from './tables.ts';

type Window = Pick<typeof rateWindows.$inferSelect, 'minute' | 'count'>;

export function rateWindowReads(db: Statements, clock: Clock): RateWindowReads {
  const since = db.prepare<Window>(
    `SELECT minute, count FROM rate_windows WHERE account_id = :accountId AND minute >= :minute AND count > 0
      ORDER BY minute`,
  );
  // The clocks of nodes differ, so it is the database's that is read, and it never goes back behind what was stored.
  const read = db.prepare<{ atMs: number }>(
    `SELECT greatest(at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS at_ms
      FROM rate_clock WHERE key = 1`,
  );
  return {
    clock: async () => {
      // The statement can wait for seconds, for a lock that the transaction waits for.
      const sentMs = clock.uptimeMs();
      const row = await read.get();
      const uptimeMs = clock.uptimeMs();
      return (
        row && { atMs: row.atMs, wallMs: clock.now(), uptimeMs, boot: clock.boot, uncertaintyMs: uptimeMs - sentMs }
      );
    },
    since: (accountId, minute) => since.all({ accountId, minute }),
  };
}

export function rateWindowWrites(db: Statements): RateWindowWrites {
  const add = db.prepare<Window>(
    `INSERT INTO rate_windows AS held (account_id, minute, count) VALUES (:accountId, :minute, :count)
      ON CONFLICT (account_id, minute) DO UPDATE SET count = held.count + excluded.count RETURNING minute, count`,
  );
  const prune = db.prepare('DELETE FROM rate_windows WHERE account_id = :accountId AND minute < :minute');
  // Passes over the row while another advances it: else all accounts would wait for that one. Should that be undone, the
  // next count advances it.
  const keep = db.prepare(
    `UPDATE rate_clock SET at = :atMs
      WHERE key = (SELECT key FROM rate_clock WHERE key = 1 AND at < :atMs FOR UPDATE SKIP LOCKED)`,
  );
  return {
    setClock: async ({ atMs }) => {
      await keep.send({ atMs: Math.floor(atMs) });
    },
    add: async (accountId, minute, count) => {
      // No counted minute may lie in the future, should the database's clock be set back. That writes once a minute.
      await keep.send({ atMs: minute * minuteMs });
      return (await add.get({ accountId, minute, count })) as Window;
    },
    prune: async (accountId, minute) => {
      await prune.send({ accountId, minute });
    },
  };
}
