import { and, asc, eq, gt, inArray, sql } from 'drizzle-orm';
import { erasedJson } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import { Portion } from '../../domain/portion.ts';
import { inList, jsonList, type Queries } from './queries.ts';
import { attempts, deliveries, type erasing, events, keptResults, leads, messages } from './tables.ts';

/** How many rows are taken away between two looks at the clock: they can be large. */
const batchSize = 8;

/** Where an erasure has come to. */
export type Place = typeof erasing.$inferSelect;

/** Takes away the next rows of one kind. @returns how many: none when there are no more */
type Part = (place: Place) => number;

/** Makes what takes away as much as one transaction should, moving the place on. It returns whether that was the rest. */
export function prepareSteps(db: Queries): (place: Place) => boolean {
  const parts = [removeMessages(db), removeLeads(db), emptyResults(db), emptyEvents(db)];
  return (place) => {
    const portion = new Portion();
    for (const part of parts) {
      for (let taken = part(place); taken > 0; taken = part(place)) {
        if (portion.isFullWith(taken)) return false;
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

/** Their keys stay, so that each is told apart from a new one for as long as it is kept. */
function emptyResults(db: Queries): Part {
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

/** Events, and what receivers have answered to them: that first, for it is found by the events that are next. */
function emptyEvents(db: Queries): Part {
  const ofAccount = eq(events.accountId, sql.placeholder('accountId'));
  const next = db
    .select({ sequence: events.sequence, id: events.id, timestamp: events.timestamp })
    .from(events)
    .where(
      and(
        ofAccount,
        // SQLite takes an account's log for narrow, and would walk all of it.
        sql`unlikely(${eq(events.conversationId, sql.placeholder('conversationId'))})`,
        gt(events.sequence, sql.placeholder('eventSequence')),
      ),
    )
    .orderBy(asc(events.sequence))
    .limit(batchSize)
    .prepare();
  // A delivery is made in the moment of its event, which its id tells: so it needs no index of its own.
  const answers = db
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
  const emptyAnswers = db.update(attempts).set({ responseBody: null }).where(inArray(sql`rowid`, answers)).prepare();
  const emptyData = db
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
    const answered = emptyAnswers.run({ events: jsonList(ranges) }).changes;
    if (answered === batchSize) return answered; // there may be more to the same events
    emptyData.run({ accountId, sequences: jsonList(found.map(({ sequence }) => sequence)) });
    place.eventSequence = last.sequence;
    return answered + found.length;
  };
}
