import { erasedJson } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/storage-port.ts';
import { TimeBudget } from '../../domain/time-budget.ts';
import type { EventRow } from '../rows/events.ts';
import { insertInto } from '../sql.ts';
import { metaIncrement } from './meta.ts';
import { unreadUpkeep } from './read-positions.ts';
import { type IndexUpkeep, indexUpkeep } from './search-index.ts';
import { jsonList, type Statements } from './statements.ts';
import type { erasing } from './tables.ts';

// A conversation can be too much for one transaction, which blocks the event loop: up to 10,000 messages, an event of
// each, and for each event the responses of the webhooks. So the first transaction hides it, and further ones erase the
// rest, a little each. Most conversations are small enough for the first one to do it all.
//
// Deleted rows are overwritten (`secure_delete`), and a thread empties the write-ahead log after the last commit. One
// thing is out of reach: where SQLite moved a row to another page as the table grew, a piece of it can remain in the free
// space of the old page (its `rebuildPage` does not clear it), until other rows overwrite it or the file is compacted.

export interface ErasureHooks {
  /** Called when something has been hidden; the transaction may still be rolled back. */
  readonly onHide: () => void;
  /** Called when at most the write-ahead log still holds something; the transaction may still be rolled back. */
  readonly onGone: () => void;
}

/**
 * Whether the conversation that a row belongs to is being erased: then the row must not be shown any more.
 * @param table the row's table
 */
export function isBeingErased(table: 'events' | 'leads' | 'kept_results'): string {
  // Most of the time none is: the first EXISTS finds that out once, instead of once per row.
  return `(EXISTS (SELECT 1 FROM erasing) AND EXISTS (SELECT 1 FROM erasing
    WHERE erasing.account_id = ${table}.account_id AND erasing.conversation_id = ${table}.conversation_id))`;
}

export function erasureReads(db: Statements): Pick<ConversationReads, 'erasing'> {
  const all = db.prepare<{ accountId: string; id: string }>(
    'SELECT account_id AS accountId, conversation_id AS id FROM erasing',
  );
  return { erasing: () => all.all() };
}

export function erasureWrites(
  db: Statements,
  { onHide, onGone }: ErasureHooks,
): Pick<ConversationWrites, 'erase' | 'eraseMore'> {
  const findKey = db.prepare<{ key: number }>(
    'SELECT key FROM conversations WHERE account_id = :accountId AND id = :id',
  );
  const countLeads = db.prepare<{ leads: number }>(
    'SELECT count(*) AS leads FROM leads WHERE account_id = :accountId AND conversation_id = :id',
  );
  const discount = db.prepare(
    `UPDATE account_totals SET active = active - :active, pending = pending - :pending, closed = closed - :closed,
        leads = leads - :leads
      WHERE account_id = :accountId`,
  );
  const countErasure = metaIncrement(db, 'erasures');
  const removeTags = db.prepare(
    `DELETE FROM conversation_tags WHERE account_id = :accountId AND conversation_id = :conversationId
      AND tag IN (SELECT value FROM json_each((SELECT tags FROM conversations WHERE key = :conversationKey)))`,
  );
  const hide = db.prepare(
    `UPDATE conversations SET account_id = NULL, subject = NULL, visitor = NULL, folded_visitor_email = NULL,
        external_id = NULL, assignee = NULL, tags = '[]', metadata = '{}', last_message = NULL
      WHERE key = :conversationKey`,
  );
  const remove = db.prepare('DELETE FROM conversations WHERE key = :conversationKey');
  const ofPlace = 'account_id = :accountId AND conversation_id = :conversationId';
  const record = db.prepare(insertInto('erasing', ['accountId', 'conversationId', 'conversationKey', 'eventSequence']));
  const find = db.prepare<Place>(
    `SELECT account_id AS accountId, conversation_id AS conversationId, conversation_key AS conversationKey,
        event_sequence AS eventSequence
      FROM erasing WHERE ${ofPlace}`,
  );
  const advance = db.prepare(`UPDATE erasing SET event_sequence = :eventSequence WHERE ${ofPlace}`);
  const finish = db.prepare(`DELETE FROM erasing WHERE ${ofPlace}`);
  const index = indexUpkeep(db);
  const unread = unreadUpkeep(db);
  const eraseSome = prepareSteps(db, index);
  const none = { active: 0, pending: 0, closed: 0 };
  return {
    erase: (accountId, { id, status }) => {
      const row = findKey.get({ accountId, id });
      if (row === undefined) return;
      const place: Place = { accountId, conversationId: id, conversationKey: row.key, eventSequence: 0 };
      discount.run({ ...none, accountId, [status]: 1, leads: countLeads.get({ accountId, id })?.leads ?? 0 });
      countErasure();
      onHide();
      unread.remove(accountId, { id, key: row.key });
      index.removeOwn(row.key); // while the row still has that text
      removeTags.run(place);
      if (eraseSome(place)) {
        remove.run(place);
        onGone();
      } else {
        hide.run(place);
        record.run(place);
      }
    },
    eraseMore: (accountId, conversationId) => {
      const place: Place | undefined = find.get({ accountId, conversationId });
      if (place === undefined) return true;
      const isDone = eraseSome(place);
      if (isDone) {
        finish.run(place);
        remove.run(place);
        onGone();
      } else {
        advance.run(place);
      }
      return isDone;
    },
  };
}

/** How many rows are erased between two looks at the clock: rows can be large. */
const batchSize = 8;

/** How far the erasure of a conversation has got. */
type Place = typeof erasing.$inferSelect;

/** Erases the next rows of one kind. @returns how many: 0 when there are no more */
type Part = (place: Place) => number;

/**
 * Returns a function that erases as much as fits one transaction, advances `place`, and says whether nothing is left.
 */
function prepareSteps(db: Statements, index: IndexUpkeep): (place: Place) => boolean {
  const someOf = (sql: string): Part => {
    const statement = db.prepare(sql);
    return (place) => statement.run({ ...place, batchSize });
  };
  const parts: readonly Part[] = [
    // What the search index has of the messages is removed by their text, so they go after it.
    ({ conversationKey }) => index.removeSome(conversationKey),
    someOf(
      `DELETE FROM messages WHERE conversation_key = :conversationKey AND sequence IN
        (SELECT sequence FROM messages WHERE conversation_key = :conversationKey ORDER BY sequence LIMIT :batchSize)`,
    ),
    someOf(
      `DELETE FROM leads WHERE rowid IN
        (SELECT rowid FROM leads WHERE account_id = :accountId AND conversation_id = :conversationId LIMIT :batchSize)`,
    ),
    // The idempotency keys stay until they expire: a repeated request must not pass for a new one.
    someOf(
      `UPDATE kept_results SET result = NULL, conversation_id = NULL WHERE rowid IN
        (SELECT rowid FROM kept_results
          WHERE account_id = :accountId AND conversation_id = :conversationId LIMIT :batchSize)`,
    ),
    clearEvents(db),
  ];
  return (place) => {
    const budget = new TimeBudget();
    for (const part of parts) {
      for (let erased = part(place); erased > 0; erased = part(place)) {
        if (budget.isSpentWith(erased)) return false;
      }
    }
    return true;
  };
}

/**
 * Events and the responses of webhooks to them. The responses go first: they are found by the events that come next.
 */
function clearEvents(db: Statements): Part {
  // Without `unlikely` SQLite expects an account's log to be short, and would walk all of it.
  const next = db.prepare<Pick<EventRow, 'sequence' | 'id' | 'timestamp'>>(
    `SELECT sequence, id, timestamp FROM events
      WHERE account_id = :accountId AND unlikely(conversation_id = :conversationId) AND sequence > :eventSequence
        AND type <> 'conversation.deleted'
      ORDER BY sequence LIMIT :batchSize`,
  );
  // A delivery is created at the time of its event, and its id contains that time: no index by event is needed.
  const clearResponses = db.prepare(
    `UPDATE attempts SET response_body = NULL WHERE rowid IN
      (SELECT attempts.rowid FROM json_each(:events) AS event CROSS JOIN deliveries CROSS JOIN attempts
        WHERE deliveries.id BETWEEN event.value ->> 1 AND event.value ->> 2
          AND deliveries.event_id = event.value ->> 0
          AND attempts.delivery_key = deliveries.key AND attempts.response_body IS NOT NULL
        LIMIT :batchSize)`,
  );
  const clearData = db.prepare(
    `UPDATE events SET data = :erasedJson
      WHERE account_id = :accountId AND sequence IN (SELECT value FROM json_each(:sequences))`,
  );
  return (place) => {
    const { accountId } = place;
    const found = next.all({ ...place, batchSize });
    const last = found.at(-1);
    if (last === undefined) return 0;
    const ranges = found.map(({ id, timestamp }) => [
      id,
      lowestIdAt('delivery', timestamp),
      lowestIdAt('delivery', timestamp + 1),
    ]);
    const cleared = clearResponses.run({ events: jsonList(ranges), batchSize });
    if (cleared === batchSize) return cleared; // there may be more responses to the same events
    clearData.run({ accountId, erasedJson, sequences: jsonList(found.map(({ sequence }) => sequence)) });
    place.eventSequence = last.sequence;
    return cleared + found.length;
  };
}
