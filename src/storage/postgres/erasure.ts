import { erasedJson } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/storage-port.ts';
import type { EventRow } from '../rows/events.ts';
import { fromJson } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { metaIncrement } from './meta.ts';
import { unreadUpkeep } from './read-positions.ts';
import { arrayOf, type Statements } from './statements.ts';
import type { conversations, erasing } from './tables.ts';

// A conversation can be too much for one transaction, which others of its account wait for: up to 10,000 messages, an
// event of each, and for each event the responses of the webhooks. So the first transaction removes its row, without
// which no message is found, and notes that it is being erased, by which everything else is hidden; further ones erase the
// rest, a little each.
//
// PostgreSQL keeps removed rows until it vacuums the table, and in its write-ahead log, archives and backups for as long
// as those are kept.

/** How many rows are removed or emptied by one transaction, at most. */
const rowsPerTransaction = 128;

/**
 * Whether the conversation that a row belongs to is being erased: then the row must not be shown any more.
 * @param table the row's table
 */
export function isBeingErased(table: 'events' | 'leads' | 'kept_results'): string {
  return `EXISTS (SELECT 1 FROM erasing
    WHERE erasing.account_id = ${table}.account_id AND erasing.conversation_id = ${table}.conversation_id)`;
}

export function erasureReads(db: Statements): Pick<ConversationReads, 'erasing'> {
  const all = db.prepare<{ accountId: string; id: string }>('SELECT account_id, conversation_id AS id FROM erasing');
  return { erasing: () => all.all() };
}

/** @param onHide called when something has been hidden; the transaction may still be rolled back */
export function erasureWrites(db: Statements, onHide: () => void): Pick<ConversationWrites, 'erase' | 'eraseMore'> {
  const remove = db.prepare<Pick<typeof conversations.$inferSelect, 'status' | 'tags'>>(
    'DELETE FROM conversations WHERE account_id = :accountId AND id = :conversationId RETURNING status, tags',
  );
  const discount = db.prepare(
    `UPDATE account_totals SET active = active - :active, pending = pending - :pending, closed = closed - :closed,
        leads = leads - (SELECT count(*) FROM leads WHERE account_id = :accountId AND conversation_id = :conversationId)
      WHERE account_id = :accountId`,
  );
  const ofPlace = 'account_id = :accountId AND conversation_id = :conversationId';
  const removeTags = db.prepare(`DELETE FROM conversation_tags WHERE ${ofPlace} AND tag = ANY(:tags::text[])`);
  const record = db.prepare(insertInto('erasing', ['accountId', 'conversationId', 'eventSequence']));
  const find = db.prepare<Place>(
    `SELECT account_id, conversation_id, event_sequence FROM erasing WHERE ${ofPlace} FOR UPDATE`,
  );
  const advance = db.prepare(`UPDATE erasing SET event_sequence = :eventSequence WHERE ${ofPlace}`);
  const finish = db.prepare(`DELETE FROM erasing WHERE ${ofPlace}`);
  const countErasure = metaIncrement(db, 'erasures');
  const unread = unreadUpkeep(db);
  const eraseSome = stepsOf(db);
  const none = { active: 0, pending: 0, closed: 0 };
  return {
    erase: async (accountId, { id: conversationId }) => {
      const place: Place = { accountId, conversationId, eventSequence: 0 };
      const row = await remove.get({ accountId, conversationId });
      if (row === undefined) return;
      await discount.send({ ...none, [row.status]: 1, accountId, conversationId });
      countErasure();
      onHide();
      await unread.remove(accountId, conversationId);
      await removeTags.send({ accountId, conversationId, tags: arrayOf(fromJson(row.tags)) });
      if (!(await eraseSome(place))) await record.send({ ...place });
    },
    eraseMore: async (accountId, conversationId) => {
      const place = await find.get({ accountId, conversationId });
      if (place === undefined) return true;
      const isDone = await eraseSome(place);
      await (isDone ? finish : advance).send({ ...place });
      return isDone;
    },
  };
}

/** How far the erasure of a conversation has got. */
type Place = typeof erasing.$inferSelect;

/** Erases the next rows of one kind. @returns how many; fewer than `limit` when there are no more */
type Part = (place: Place, limit: number) => Promise<number>;

/**
 * Returns a function that erases as much as one transaction should, advances `place`, and says whether nothing is left.
 */
function stepsOf(db: Statements): (place: Place) => Promise<boolean> {
  const ofPlace = 'account_id = :accountId AND conversation_id = :conversationId';
  const someOf = (change: string, table: string, key: string): Part => {
    const statement = db.prepare(
      `${change} WHERE account_id = :accountId AND ${key} IN (SELECT ${key} FROM ${table} WHERE ${ofPlace} LIMIT :limit)`,
    );
    return ({ accountId, conversationId }, limit) => statement.run({ accountId, conversationId, limit });
  };
  const parts: Part[] = [
    someOf('DELETE FROM search_texts', 'search_texts', 'number'),
    someOf(`DELETE FROM messages`, 'messages', 'id'),
    someOf('DELETE FROM leads', 'leads', 'id'),
    // The idempotency keys stay until they expire: a repeated request must not pass for a new one.
    someOf('UPDATE kept_results SET result = NULL, conversation_id = NULL', 'kept_results', 'idempotency_key'),
    clearEvents(db),
  ];
  return async (place) => {
    let left = rowsPerTransaction;
    for (const part of parts) {
      const limit = left;
      left -= await part(place, limit);
      if (left <= 0) return false;
    }
    return true;
  };
}

/**
 * Events and the responses of webhooks to them. The responses go first: they are found by the events that come next.
 */
function clearEvents(db: Statements): Part {
  const next = db.prepare<Pick<EventRow, 'sequence' | 'id' | 'timestamp'>>(
    `SELECT sequence, id, timestamp FROM events
      WHERE account_id = :accountId AND conversation_id = :conversationId AND sequence > :eventSequence
        AND type <> 'conversation.deleted'
      ORDER BY sequence LIMIT :limit`,
  );
  // A delivery is created at the time of its event, and its id contains that time: no index by event is needed.
  const deliveriesOfThem = `unnest(:ids::text[], :froms::text[], :tos::text[]) AS event (id, first, last)
        JOIN deliveries ON deliveries.account_id = :accountId AND deliveries.event_id = event.id
          AND deliveries.id COLLATE "C" >= event.first AND deliveries.id COLLATE "C" <= event.last`;
  // Who records an attempt has its delivery locked, too: so the next statement sees that attempt, or it is recorded when
  // everybody sees the erasure.
  const lockDeliveries = db.prepare(`SELECT 1 FROM ${deliveriesOfThem} ORDER BY deliveries.id FOR SHARE OF deliveries`);
  const clearResponses = db.prepare(
    `UPDATE attempts SET response_body = NULL WHERE account_id = :accountId AND (delivery_id, number) IN
      (SELECT attempts.delivery_id, attempts.number
        FROM ${deliveriesOfThem}
        JOIN attempts ON attempts.account_id = :accountId AND attempts.delivery_id = deliveries.id
        WHERE attempts.response_body IS NOT NULL LIMIT :limit)`,
  );
  const clearData = db.prepare(
    `UPDATE events SET data = :erasedJson WHERE account_id = :accountId AND sequence = ANY(:sequences::bigint[])`,
  );
  return async (place, limit) => {
    const { accountId, conversationId, eventSequence } = place;
    const found = await next.all({ accountId, conversationId, eventSequence, limit });
    const last = found.at(-1);
    if (last === undefined) return 0;
    const events = {
      accountId,
      ids: arrayOf(found.map(({ id }) => id)),
      froms: arrayOf(found.map(({ timestamp }) => lowestIdAt('delivery', timestamp))),
      tos: arrayOf(found.map(({ timestamp }) => lowestIdAt('delivery', timestamp + 1))),
    };
    await lockDeliveries.send(events);
    const cleared = await clearResponses.run({ ...events, limit });
    if (cleared === limit) return cleared; // there may be more responses to the same events
    await clearData.send({ accountId, erasedJson, sequences: arrayOf(found.map(({ sequence }) => sequence)) });
    place.eventSequence = last.sequence;
    return cleared + found.length;
  };
}
