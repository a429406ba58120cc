import type { EventReads, EventWrites, ScannedEvents } from '../../domain/storage-port.ts';
import { type EventRow, toEvent } from '../rows/events.ts';
import { ifFound, toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { visitorHasher } from '../visitor-hashes.ts';
import { isBeingErased } from './erasure.ts';
import { metaCounter, metaTokenKey, metaValue } from './meta.ts';
import { jsonList, type Statements } from './statements.ts';
import type { accountTotals } from './tables.ts';

/**
 * The columns for every read of an event. That its conversation was deleted is an event which holds nothing to be erased.
 */
export const eventColumns = `sequence, id, type, timestamp, conversation_id AS conversationId, visitor_hash AS visitorHash,
  CASE WHEN type <> 'conversation.deleted' AND ${isBeingErased('events')} THEN NULL ELSE data END AS data`;

/** What `data_version` is of each event. */
export const dataVersion = 2;

/** The unary plus keeps SQLite from using the index by visitor, in place of the one by conversation. */
const isOfVisitor = '(:visitorHash IS NULL OR +visitor_hash = :visitorHash)';

function visitorHashes(db: Statements): (accountId: string, visitorId: string) => string {
  const tokenKey = metaTokenKey(db);
  let hashOf: ReturnType<typeof visitorHasher> | undefined;
  return (accountId, visitorId) => {
    hashOf ??= visitorHasher(tokenKey());
    return hashOf(accountId, visitorId);
  };
}

export function eventReads(db: Statements): EventReads {
  const epoch = metaValue(db, 'epoch');
  const last = db.prepare<{ sequence: number }>(
    'SELECT event_sequence AS sequence FROM account_totals WHERE account_id = :accountId',
  );
  const first = db.prepare<Pick<EventRow, 'sequence'>>(
    'SELECT sequence FROM events WHERE account_id = :accountId ORDER BY sequence LIMIT 1',
  );
  const lastSequences = db.prepare<Pick<typeof accountTotals.$inferSelect, 'accountId' | 'eventSequence'>>(
    `SELECT account_id AS accountId, event_sequence AS eventSequence FROM account_totals
      WHERE account_id IN (SELECT value FROM json_each(:accountIds))`,
  );
  // Without `unlikely`, SQLite expects a range of sequences to be narrow, and would walk the whole log.
  const entries = {
    log: '',
    conversation: 'AND unlikely(conversation_id = :conversationId)',
    visitor: 'AND visitor_hash IS NOT NULL AND unlikely(visitor_hash = :visitorHash)',
  };
  const statementsOf = (of: keyof typeof entries) => {
    const range = `account_id = :accountId AND sequence > :from AND sequence <= :to ${entries[of]}`;
    const found = `SELECT ${eventColumns} FROM events WHERE ${range} ${of === 'conversation' ? `AND ${isOfVisitor}` : ''}`;
    const inOrder = 'ORDER BY sequence LIMIT :limit';
    return {
      all: db.prepare<EventRow>(`${found} ${inOrder}`),
      // The unary plus keeps SQLite from using any index but the one by sequence.
      ofTypes: db.prepare<EventRow>(`${found} AND +type IN (SELECT value FROM json_each(:types)) ${inOrder}`),
      places: db.prepare<Pick<EventRow, 'sequence'>>(
        `SELECT sequence FROM events WHERE ${range} ${inOrder} OFFSET :offset`,
      ),
    };
  };
  const ofLog = statementsOf('log');
  const ofConversation = statementsOf('conversation');
  const ofVisitor = statementsOf('visitor');
  const lastOf = db.prepare<EventRow>(
    `SELECT ${eventColumns} FROM events
      WHERE account_id = :accountId AND conversation_id = :conversationId ORDER BY sequence DESC LIMIT 1`,
  );
  const visitorHash = visitorHashes(db);
  let known: string | undefined;

  const endOf = (accountId: string): number => last.get({ accountId })?.sequence ?? 0;
  const boundsOf = (accountId: string): { first: number; last: number } => {
    const end = endOf(accountId);
    return { first: first.get({ accountId })?.sequence ?? end + 1, last: end };
  };
  const bounds = db.connection.transaction(boundsOf);
  type Options = Parameters<EventReads['after']>[2];
  const scan = db.connection.transaction((accountId: string, sequence: number, options: Options): ScannedEvents => {
    const { filter, limit, span, among } = options;
    const { types, conversationId = null, visitorHash: hash = null } = filter;
    const log = boundsOf(accountId);
    const to = Math.max(sequence, Math.min(log.last, Math.max(sequence, log.first - 1) + span));
    if (types?.length === 0) return { ...log, events: [], scannedTo: to, isCut: false };
    const statements = conversationId !== null ? ofConversation : hash !== null ? ofVisitor : ofLog;
    const values = { accountId, from: sequence, conversationId, visitorHash: hash };
    const [cut, next] =
      among === undefined ? [] : statements.places.all({ ...values, to, limit: 2, offset: among - 1 });
    const end = next === undefined ? to : (cut?.sequence ?? to);
    const statement = types === undefined ? statements.all : statements.ofTypes;
    const events = statement.all({ ...values, to: end, limit, types: jsonList(types ?? []) }).map(toEvent);
    // A full page ends at its last event; otherwise everything up to the end was scanned.
    const isFull = events.length === limit;
    const scannedTo = isFull ? (events.at(-1)?.sequence ?? sequence) : end;
    return { ...log, events, scannedTo, isCut: !isFull && next !== undefined };
  });
  return {
    epoch: () => {
      known ??= epoch(); // it only changes while nobody has the database open
      if (known === undefined) throw new Error('The database has no epoch');
      return known;
    },
    erasures: metaCounter(db, 'erasures'),
    bounds: (accountId) => bounds(accountId),
    lastSequences: (accountIds) => {
      const rows = lastSequences.all({ accountIds: jsonList(accountIds) });
      const found = new Map(rows.map((row) => [row.accountId, row.eventSequence]));
      return accountIds.map((accountId) => found.get(accountId) ?? 0);
    },
    visitorHash,
    after: (accountId, sequence, options) => scan(accountId, sequence, options),
    lastOf: (accountId, conversationId) => ifFound(lastOf.get({ accountId, conversationId }), toEvent),
  };
}

/** @param onAppend called with the account whose log has grown; the transaction may still be rolled back */
export function eventWrites(db: Statements, onAppend: (accountId: string) => void): EventWrites {
  const advance = db.prepare<{ last: number }>(
    `UPDATE account_totals SET event_sequence = event_sequence + :count WHERE account_id = :accountId
      RETURNING event_sequence AS last`,
  );
  const insert = db.prepare(
    insertInto('events', [
      ...['accountId', 'sequence', 'id', 'type', 'conversationId', 'visitorHash'],
      ...['timestamp', 'data', 'dataVersion'],
    ]),
  );
  const visitorHash = visitorHashes(db);
  const accountWithOldest = db.prepare<{ accountId: string }>(
    'SELECT account_id AS accountId FROM events WHERE timestamp < :before ORDER BY timestamp LIMIT 1',
  );
  const accountWithOldFront = db.prepare<{ id: string }>(
    `SELECT id FROM accounts
      WHERE id >= :from
        AND (SELECT timestamp FROM events WHERE account_id = accounts.id ORDER BY sequence LIMIT 1) < :before
      ORDER BY id LIMIT 1`,
  );
  const oldest = db.prepare<Pick<EventRow, 'sequence' | 'timestamp'>>(
    'SELECT sequence, timestamp FROM events WHERE account_id = :accountId ORDER BY sequence LIMIT :limit',
  );
  const removeUpTo = db.prepare('DELETE FROM events WHERE account_id = :accountId AND sequence <= :sequence');
  /** Removes from the front only: where the clock went back, removing by time would leave a gap in the log. */
  const removeFront = (accountId: string, before: number, limit: number): number => {
    const rows = oldest.all({ accountId, limit });
    const young = rows.findIndex(({ timestamp }) => timestamp >= before);
    const last = rows[(young === -1 ? rows.length : young) - 1];
    return last === undefined ? 0 : removeUpTo.run({ accountId, sequence: last.sequence });
  };
  /** The account found last: its events take many steps to remove, and the accounts before it had nothing to remove. */
  let from = '';
  /** Finds an account whose first event is old, checking one account after another, all of them if need be. */
  const findOldFront = (before: number): string | undefined => {
    const behind = accountWithOldFront.get({ from, before });
    const found = behind === undefined && from !== '' ? accountWithOldFront.get({ from: '', before }) : behind;
    from = found?.id ?? '';
    return found?.id;
  };
  return {
    append: (accountId, added) => {
      const row = advance.get({ accountId, count: added.length });
      if (row === undefined) throw new Error(`The account ${accountId} has no counters`);
      const first = row.last - added.length + 1;
      for (const [index, event] of added.entries()) {
        insert.run({
          ...event,
          visitorHash: event.visitorId === null ? null : visitorHash(accountId, event.visitorId),
          accountId,
          sequence: first + index,
          timestamp: toMs(event.timestamp),
          data: JSON.stringify(event.data),
          dataVersion,
        });
      }
      if (added.length > 0) onAppend(accountId);
      return row.last;
    },
    prune: (before, limit) => {
      let removed = 0;
      while (removed < limit) {
        const found = accountWithOldest.get({ before });
        if (found === undefined) break;
        let count = removeFront(found.accountId, before, limit - removed);
        if (count === 0) {
          // The oldest event lies behind a younger one, as may any number of others, which are not to be walked over.
          const accountId = findOldFront(before);
          if (accountId === undefined) break;
          count = removeFront(accountId, before, limit - removed);
        }
        removed += count;
      }
      return removed;
    },
  };
}
