import { and, asc, eq, gt, inArray, sql } from 'drizzle-orm';
import { erasedJson } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import { Portion } from '../../domain/portion.ts';
import { inList, jsonList, type Queries } from './queries.ts';
import { attempts, deliveries, type erasing, events, keptResults, leads, messages } from './tables.ts';

/** How many rows are erased between two looks at the clock: rows can be large. */
const batchSize = 8;

/** How far the erasure of a conversation has got. */
export type Place = typeof erasing.$inferSelect;

/** Erases the next rows of one kind. @returns how many: 0 when there are no more */
type Part = (place: Place) => number;

/**
 * Returns a function that erases as much as fits one transaction, advances `place`, and says whether nothing is left.
 */
export function prepareSteps(db: Queries): (place: Place) => boolean {
  const parts = [removeMessages(db), removeLeads(db), clearResults(db), clearEvents(db)];
  return (place) => {
    const portion = new Portion();
    for (const part of parts) {
      for (let erased = part(place); erased > 0; erased = part(place)) {
        if (portion.isFullWith(erased)) return false;
      }
    }
    return true;
  };
}

function removeMessages(db: Queries): Part {
  const ofConversation = eq(messages.conversationKey, sql.placeholder('conversationKey'));
  const first = db
    .select({ sequence: messages.sequence })
    .from(messages)
    .where(ofConversation)
    .orderBy(asc(messages.sequence))
    .limit(batchSize);
  const statement = db
    .delete(messages)
    .where(and(ofConversation, inArray(messages.sequence, first)))
    .prepare();
  return (place) => statement.run(place).changes;
}

function removeLeads(db: Queries): Part {
  const first = db
    .select({ rowid: sql`rowid` })
    .from(leads)
    .where(
      and(
        eq(leads.accountId, sql.placeholder('accountId')),
        eq(leads.conversationId, sql.placeholder('conversationId')),
      ),
    )
    .limit(batchSize);
  const statement = db.delete(leads).where(inArray(sql`rowid`, first)).prepare();
  return (place) => statement.run(place).changes;
}

/** The idempotency keys stay until they expire: a repeated request must not pass for a new one. */
function clearResults(db: Queries): Part {
  const first = db
    .select({ rowid: sql`rowid` })
    .from(keptResults)
    .where(
      and(
        eq(keptResults.accountId, sql.placeholder('accountId')),
        eq(keptResults.conversationId, sql.placeholder('conversationId')),
      ),
    )
    .limit(batchSize);
  const statement = db
    .update(keptResults)
    .set({ result: null, conversationId: null })
    .where(inArray(sql`rowid`, first))
    .prepare();
  return (place) => statement.run(place).changes;
}

/**
 * Events and the responses of webhooks to them. The responses go first: they are found by the events that come next.
 */
function clearEvents(db: Queries): Part {
  const ofAccount = eq(events.accountId, sql.placeholder('accountId'));
  const next = db
    .select({ sequence: events.sequence, id: events.id, timestamp: events.timestamp })
    .from(events)
    .where(
      and(
        ofAccount,
        // Otherwise SQLite expects an account's log to be short, and would walk all of it.
        sql`unlikely(${eq(events.conversationId, sql.placeholder('conversationId'))})`,
        gt(events.sequence, sql.placeholder('eventSequence')),
      ),
    )
    .orderBy(asc(events.sequence))
    .limit(batchSize)
    .prepare();
  // A delivery is created at the time of its event, and its id contains that time: no index by event is needed.
  const responses = db
    .select({ rowid: sql`${attempts}.rowid` })
    .from(sql`json_each(${sql.placeholder('events')}) AS event`)
    .crossJoin(deliveries)
    .crossJoin(attempts)
    .where(
      sql`${deliveries.id} BETWEEN event.value ->> 1 AND event.value ->> 2
        AND ${deliveries.eventId} = event.value ->> 0
        AND ${attempts.deliveryKey} = ${deliveries.key} AND ${attempts.responseBody} IS NOT NULL`,
    )
    .limit(batchSize);
  const clearResponses = db
    .update(attempts)
    .set({ responseBody: null })
    .where(inArray(sql`rowid`, responses))
    .prepare();
  const clearData = db
    .update(events)
    .set({ data: erasedJson })
    .where(and(ofAccount, inList(events.sequence, 'sequences')))
    .prepare();
  return (place) => {
    const { accountId } = place;
    const found = next.all(place);
    const last = found.at(-1);
    if (last === undefined) return 0;
    const ranges = found.map(({ id, timestamp }) => [
      id,
      lowestIdAt('delivery', timestamp),
      lowestIdAt('delivery', timestamp + 1),
    ]);
    const cleared = clearResponses.run({ events: jsonList(ranges) }).changes;
    if (cleared === batchSize) return cleared; // there may be more responses to the same events
    clearData.run({ accountId, sequences: jsonList(found.map(({ sequence }) => sequence)) });
    place.eventSequence = last.sequence;
    return cleared + found.length;
  };
}
