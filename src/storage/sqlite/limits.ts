import type { Clock } from '../../domain/ports.ts';
import { type ClockReading, SteadyClock } from '../../domain/steady-clock.ts';
import type { RateWindowReads, RateWindowWrites } from '../../domain/storage-port.ts';
import type { Connection } from './open.ts';
import type { Statements } from './statements.ts';
import type { rateWindows } from './tables.ts';

type Window = Pick<typeof rateWindows.$inferSelect, 'minute' | 'count'>;

const selectClock = 'SELECT at AS atMs, wall AS wallMs, uptime AS uptimeMs, boot FROM rate_clock';
/** The key of its only row. */
const onlyKey = 1;
/** Puts a `ClockReading` in the place of that row. */
export const putClock = `INSERT OR REPLACE INTO rate_clock VALUES (${onlyKey}, :atMs, :wallMs, :uptimeMs, :boot)`;

/** The limiter's clock as of now, going on from the reading in a database. */
export function readClock(connection: Connection, clock: Clock): ClockReading {
  return new SteadyClock(clock).goOnFrom(connection.prepare<[], ClockReading>(selectClock).get());
}

export function rateWindowReads(db: Statements): RateWindowReads {
  const since = db.prepare<Window>(
    `SELECT minute, count FROM rate_windows WHERE account_id = :accountId AND minute >= :minute AND count > 0
      ORDER BY minute`,
  );
  const clock = db.prepare<ClockReading>(`${selectClock} WHERE key = :onlyKey`);
  return { clock: () => clock.get({ onlyKey }), since: (accountId, minute) => since.all({ accountId, minute }) };
}

export function rateWindowWrites(db: Statements): RateWindowWrites {
  const add = db.prepare<Window>(
    `INSERT INTO rate_windows (account_id, minute, count) VALUES (:accountId, :minute, :count)
      ON CONFLICT DO UPDATE SET count = count + excluded.count RETURNING minute, count`,
  );
  const prune = db.prepare('DELETE FROM rate_windows WHERE account_id = :accountId AND minute < :minute');
  const setClock = db.prepare(putClock);
  return {
    setClock: (reading) => {
      setClock.run({ ...reading });
    },
    add: (accountId, minute, count) => add.get({ accountId, minute, count }) as Window,
    prune: (accountId, minute) => {
      prune.run({ accountId, minute });
    },
  };
}
