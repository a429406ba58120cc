import type { RateWindowReads, RateWindowWrites } from '../../domain/storage-port.ts';
import type { Statements } from './statements.ts';
import type { rateClock, rateWindows } from './tables.ts';

type Window = Pick<typeof rateWindows.$inferSelect, 'minute' | 'count'>;
type Reading = Omit<typeof rateClock.$inferSelect, 'key'>;

/** The key of the only row of `rate_clock`. */
const onlyKey = 1;

export function rateWindowReads(db: Statements): RateWindowReads {
  const since = db.prepare<Window>(
    `SELECT minute, count FROM rate_windows WHERE account_id = :accountId AND minute >= :minute AND count > 0
      ORDER BY minute`,
  );
  const clock = db.prepare<Reading>(
    'SELECT at AS atMs, wall AS wallMs, uptime AS uptimeMs, boot FROM rate_clock WHERE key = :onlyKey',
  );
  return { clock: () => clock.get({ onlyKey }), since: (accountId, minute) => since.all({ accountId, minute }) };
}

export function rateWindowWrites(db: Statements): RateWindowWrites {
  const add = db.prepare<Window>(
    `INSERT INTO rate_windows (account_id, minute, count) VALUES (:accountId, :minute, :count)
      ON CONFLICT DO UPDATE SET count = count + excluded.count RETURNING minute, count`,
  );
  const prune = db.prepare('DELETE FROM rate_windows WHERE account_id = :accountId AND minute < :minute');
  const setClock = db.prepare(
    `INSERT INTO rate_clock (key, at, wall, uptime, boot) VALUES (:onlyKey, :atMs, :wallMs, :uptimeMs, :boot)
      ON CONFLICT DO UPDATE SET at = excluded.at, wall = excluded.wall, uptime = excluded.uptime, boot = excluded.boot`,
  );
  return {
    setClock: (reading) => {
      setClock.run({ ...reading, onlyKey });
    },
    add: (accountId, minute, count) => add.get({ accountId, minute, count }) as Window,
    prune: (accountId, minute) => {
      prune.run({ accountId, minute });
    },
  };
}
