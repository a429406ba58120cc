import type { EventReads, EventWrites } from '../../domain/storage-port.ts';
import { type EventRow, toEvent } from '../rows/events.ts';
import { ifFound, toMs } from '../rows/values.ts';
import { visitorHasher } from '../visitor-hashes.ts';
import { isBeingErased } from './erasure.ts';
import { metaCounter, metaEpoch, metaTokenKey } from './meta.ts';
import { arrayOf, type Statements } from './statements.ts';
import type { accountTotals } from './tables.ts';

/**
 * The columns for every read of an event. That its conversation was deleted is an event which holds nothing to be erased.
 */
export const eventColumns = `events.sequence, events.id, events.type, events.timestamp, events.conversation_id,
  events.visitor_hash,
  CASE WHEN events.type <> 'conversation.deleted' AND ${isBeingErased('events')} THEN NULL ELSE events.data END AS data`;

function visitorHashes(db: Statements): (accountId: string, visitorId: string) => Promise<string> {
  const tokenKey = metaTokenKey(db);
  let hashOf: ReturnType<typeof visitorHasher> | undefined;
  return async (accountId, visitorId) => {
    hashOf ??= visitorHasher(await tokenKey());
    return hashOf(accountId, visitorId);
  };
}

interface ScanRow {
  readonly first: number;
  readonly last: number;
  /** Where the scan has ended; the same in every row. */
  readonly scannedTo: number;
  readonly isCut: boolean;
}

export function eventReads(db: Statements): EventReads {
  const boundsOfLog = `SELECT last, coalesce(
      (SELECT sequence FROM events WHERE account_id = :accountId ORDER BY sequence LIMIT 1), last + 1) AS first
    FROM (SELECT coalesce((SELECT event_sequence FROM account_totals WHERE account_id = :accountId), 0) AS last) AS ending`;
  const bounds = db.prepare<{ first: number; last: number }>(boundsOfLog);
  const lastSequences = db.prepare<Pick<typeof accountTotals.$inferSelect, 'accountId' | 'eventSequence'>>(
    'SELECT account_id, event_sequence FROM account_totals WHERE account_id = ANY(:accountIds::text[])',
  );
  // One statement sees one state: the end of the log, how far to go, and what is there.
  const entries = {
    log: '',
    conversation: 'AND conversation_id = :conversationId',
    visitor: 'AND visitor_hash = :visitorHash',
  };
  const scanOf = (of: keyof typeof entries, isBounded: boolean, isOfTypes: boolean, isOfVisitor: boolean) => {
    const range = `account_id = :accountId AND sequence > :from ${entries[of]}`;
    const tests = [
      ...(isOfTypes ? ['AND type = ANY(:types::text[])'] : []),
      ...(isOfVisitor && of === 'conversation' ? ['AND visitor_hash = :visitorHash'] : []),
    ].join(' ');
    const places = isBounded
      ? `SELECT sequence FROM events WHERE ${range} AND sequence <= (SELECT sequence FROM reach)
          ORDER BY sequence LIMIT 2 OFFSET :among::bigint - 1`
      : 'SELECT NULL::bigint AS sequence WHERE false';
    return db.prepareOnce<EventRow & ScanRow>(
      `WITH log AS MATERIALIZED (${boundsOfLog}),
          reach AS (SELECT greatest(:from::bigint, least(
              (SELECT last FROM log), greatest(:from::bigint, (SELECT first FROM log) - 1) + :span::bigint)) AS sequence),
          places AS MATERIALIZED (${places}),
          ending AS (SELECT CASE WHEN (SELECT count(*) FROM places) = 2 THEN (SELECT min(sequence) FROM places)
              ELSE (SELECT sequence FROM reach) END AS sequence, (SELECT count(*) FROM places) = 2 AS is_cut)
        SELECT found.*, ending.sequence AS scanned_to, ending.is_cut, log.first, log.last
          FROM ending CROSS JOIN log LEFT JOIN LATERAL (SELECT ${eventColumns} FROM events
            WHERE ${range} AND sequence <= ending.sequence ${tests} ORDER BY sequence LIMIT :limit) AS found ON true`,
    );
  };
  const lastOf = db.prepare<EventRow>(
    `SELECT ${eventColumns} FROM events
      WHERE account_id = :accountId AND conversation_id = :conversationId ORDER BY sequence DESC LIMIT 1`,
  );
  return {
    epoch: metaEpoch(db),
    erasures: metaCounter(db, 'erasures'),
    bounds: async (accountId) => (await bounds.get({ accountId })) as { first: number; last: number },
    lastSequences: async (accountIds) => {
      const rows = await lastSequences.all({ accountIds: arrayOf(accountIds) });
      const found = new Map(rows.map((row) => [row.accountId, row.eventSequence]));
      return accountIds.map((accountId) => found.get(accountId) ?? 0);
    },
    visitorHash: visitorHashes(db),
    after: async (accountId, from, { filter, limit, span, among }) => {
      const { types, conversationId = null, visitorHash = null } = filter;
      const of = conversationId !== null ? 'conversation' : visitorHash !== null ? 'visitor' : 'log';
      const isBounded = among !== undefined && types?.length !== 0;
      const scan = scanOf(of, isBounded, types !== undefined, visitorHash !== null);
      const rows = await scan.all({
        ...{ accountId, from, limit, conversationId, visitorHash },
        span,
        among: among ?? null,
        types: arrayOf(types ?? []),
      });
      const found = rows.filter(({ id }) => id !== null).map(toEvent);
      const { first, last, scannedTo, isCut } = rows[0] as ScanRow; // there always is one
      // A full page ends at its last event; otherwise everything up to the end was scanned.
      const end = found.length === limit ? found.at(-1)?.sequence : undefined;
      return { events: found, scannedTo: end ?? scannedTo, isCut: end === undefined && isCut, first, last };
    },
    lastOf: async (accountId, conversationId) => ifFound(await lastOf.get({ accountId, conversationId }), toEvent),
  };
}

/** @param onAppend called with the account whose log has grown; the transaction may still be rolled back */
export function eventWrites(db: Statements, onAppend: (accountId: string) => void): EventWrites {
  // The number comes from the account's row, which nobody else can change before this transaction has ended.
  const append = db.prepare<{ last: number }>(
    `WITH advanced AS (UPDATE account_totals SET event_sequence = event_sequence + :count::bigint
          WHERE account_id = :accountId RETURNING event_sequence AS last),
        added AS (INSERT INTO events
            (account_id, sequence, id, type, conversation_id, visitor_hash, timestamp, data)
          SELECT :accountId, advanced.last - :count::bigint + event.at, event.id, event.type, event.conversation_id,
              event.visitor_hash, event.timestamp, event.data
            FROM advanced, unnest(:ids::text[], :types::text[], :conversationIds::text[], :visitorHashes::text[],
              :timestamps::bigint[], :data::json[])
              WITH ORDINALITY AS event (id, type, conversation_id, visitor_hash, timestamp, data, at))
      SELECT last FROM advanced`,
  );
  // Fails where the end of a log is another one than its transaction knows.
  const appendKnown = db.prepareForRows(
    `WITH given AS MATERIALIZED (SELECT given.* FROM :rows),
        added AS (INSERT INTO events (account_id, sequence, id, type, conversation_id, visitor_hash, timestamp, data)
          SELECT account_id, sequence, id, type, conversation_id, visitor_hash, timestamp, data FROM given),
        logs AS (SELECT account_id, count(*) AS count, max(sequence) AS last FROM given GROUP BY account_id),
        advanced AS (UPDATE account_totals SET event_sequence = logs.last FROM logs
          WHERE account_totals.account_id = logs.account_id AND event_sequence = logs.last - logs.count RETURNING 1)
      SELECT 1 / ((SELECT count(*) FROM advanced) = (SELECT count(*) FROM logs))::integer`,
    {
      texts: ['accountId', 'id', 'type', 'conversationId', 'visitorHash'],
      numbers: ['sequence', 'timestamp'],
      json: ['data'],
    },
  );
  const visitorHash = visitorHashes(db);
  // The first account, by the time of its oldest event, that has something old at the front of its log.
  const accountWithOldest = db.prepare<{ accountId: string }>(
    'SELECT account_id FROM events WHERE timestamp < :before ORDER BY timestamp LIMIT 1',
  );
  const accountWithOldFront = db.prepare<{ accountId: string }>(
    `SELECT account_id FROM account_totals AS log
      WHERE account_id >= :from
        AND (SELECT timestamp FROM events WHERE account_id = log.account_id ORDER BY sequence LIMIT 1) < :before
      ORDER BY account_id LIMIT 1`,
  );
  // Removes from the front only: where the clock went back, removing by time would leave a gap in the log. Of a list
  // PostgreSQL expects few numbers; of a range that it would be a part of the log, for which it reads the whole table.
  const removeFront = db.prepare(
    `WITH oldest AS MATERIALIZED
        (SELECT sequence, timestamp FROM events WHERE account_id = :accountId ORDER BY sequence LIMIT :limit)
      DELETE FROM events WHERE account_id = :accountId AND sequence = ANY(ARRAY(SELECT sequence FROM oldest
        WHERE sequence < coalesce((SELECT min(sequence) FROM oldest WHERE timestamp >= :before), 9223372036854775807)))`,
  );
  /** The account found last: its events take many steps to remove, and the accounts before it had nothing to remove. */
  let from = '';
  /** Finds an account whose first event is old, checking one account after another, all of them if need be. */
  const findOldFront = async (before: number): Promise<string | undefined> => {
    const behind = await accountWithOldFront.get({ from, before });
    const found = behind === undefined && from !== '' ? await accountWithOldFront.get({ from: '', before }) : behind;
    from = found?.accountId ?? '';
    return found?.accountId;
  };
  return {
    append: async (accountId, added) => {
      const rows: Omit<EventRow, 'sequence'>[] = [];
      for (const { visitorId, data, timestamp, ...event } of added) {
        const hash = visitorId === null ? null : await visitorHash(accountId, visitorId);
        rows.push({ ...event, visitorHash: hash, timestamp: toMs(timestamp), data: JSON.stringify(data) });
      }
      // Where the end of the log is known, nobody has to wait.
      const last = await db.queries.advanceLog(accountId, rows.length);
      if (last !== undefined && !Number.isNaN(last)) {
        // Without a pause: rows that are written together have numbers without a gap.
        await Promise.all(
          rows.map((row, index) => appendKnown.send({ ...row, accountId, sequence: last - rows.length + 1 + index })),
        );
        if (added.length > 0) onAppend(accountId);
        return last;
      }
      const row = await append.get({
        accountId,
        count: rows.length,
        ids: arrayOf(rows.map(({ id }) => id)),
        types: arrayOf(rows.map(({ type }) => type)),
        conversationIds: arrayOf(rows.map(({ conversationId }) => conversationId)),
        visitorHashes: arrayOf(rows.map((one) => one.visitorHash)),
        timestamps: arrayOf(rows.map(({ timestamp }) => timestamp)),
        data: arrayOf(rows.map(({ data }) => data)),
      });
      if (row === undefined) throw new Error(`The account ${accountId} has no counters`);
      if (added.length > 0) onAppend(accountId);
      return row.last;
    },
    prune: async (before, limit) => {
      let removed = 0;
      while (removed < limit) {
        const found = await accountWithOldest.get({ before });
        if (found === undefined) break;
        let count = await removeFront.run({ accountId: found.accountId, before, limit: limit - removed });
        if (count === 0) {
          // The oldest event lies behind a younger one, as may any number of others, which are not to be walked over.
          const accountId = await findOldFront(before);
          if (accountId === undefined) break;
          count = await removeFront.run({ accountId, before, limit: limit - removed });
        }
        removed += count;
        if (count === 0) break;
      }
      return removed;
    },
  };
}
