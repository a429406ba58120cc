import { and, eq, inArray, sql } from 'drizzle-orm';
import { erasedJson } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { ConversationWrites } from '../../domain/ports.ts';
import { jsonList, type Queries } from './queries.ts';
import {
  accountTotals,
  attempts,
  conversations,
  deliveries,
  events,
  keptResults,
  leads,
  messages,
  meta,
} from './tables.ts';

/**
 * What is deleted is overwritten (`secure_delete`), and the write-ahead log is emptied after the commit. One thing is
 * out of reach: where SQLite has moved a row to another page as the table grew, a piece of it can stay behind in the
 * free space of the old page (its `rebuildPage` does not clear it), until other rows come there, or a VACUUM.
 *
 * @param onErase is told that something was erased; the transaction may still be undone
 */
export function eraseConversation(db: Queries, onErase: () => void): ConversationWrites['erase'] {
  const accountId = sql.placeholder('accountId');
  const id = sql.placeholder('id');
  const removeMessages = db
    .delete(messages)
    .where(
      eq(messages.conversationKey, sql`(SELECT key FROM conversations WHERE account_id = ${accountId} AND id = ${id})`),
    )
    .prepare();
  const removeLeads = db
    .delete(leads)
    .where(and(eq(leads.accountId, accountId), eq(leads.conversationId, id)))
    .prepare();
  const removeConversation = db
    .delete(conversations)
    .where(and(eq(conversations.accountId, accountId), eq(conversations.id, id)))
    .prepare();
  const count = db
    .update(accountTotals)
    .set({
      active: sql`${accountTotals.active} - ${sql.placeholder('active')}`,
      pending: sql`${accountTotals.pending} - ${sql.placeholder('pending')}`,
      closed: sql`${accountTotals.closed} - ${sql.placeholder('closed')}`,
      leads: sql`${accountTotals.leads} - ${sql.placeholder('leads')}`,
    })
    .where(eq(accountTotals.accountId, accountId))
    .prepare();
  // SQLite takes an account's log for narrow, and would walk all of it.
  const isItsEvent = and(eq(events.accountId, accountId), sql`unlikely(${eq(events.conversationId, id)})`);
  const eraseEvents = db
    .update(events)
    .set({ data: erasedJson })
    .where(isItsEvent)
    .returning({ id: events.id, timestamp: events.timestamp })
    .prepare();
  // A delivery is made in the moment of its event, which its id tells: so it needs no index of its own.
  const emptyAnswers = db
    .update(attempts)
    .set({ responseBody: null })
    .where(
      inArray(
        attempts.deliveryKey,
        db
          .select({ key: deliveries.key })
          .from(sql`json_each(${sql.placeholder('events')}) AS event`)
          .crossJoin(deliveries)
          .where(
            sql`${deliveries.id} BETWEEN event.value ->> 1 AND event.value ->> 2
              AND ${deliveries.eventId} = event.value ->> 0`,
          ),
      ),
    )
    .prepare();
  const emptyResults = db
    .update(keptResults)
    .set({ result: null })
    .where(and(eq(keptResults.accountId, accountId), eq(keptResults.conversationId, id)))
    .prepare();
  const countErasure = db
    .update(meta)
    .set({ value: sql`${meta.value} + 1` })
    .where(eq(meta.name, 'erasures'))
    .prepare();
  const none = { active: 0, pending: 0, closed: 0 };
  return (account, conversation) => {
    const which = { accountId: account, id: conversation.id };
    removeMessages.run(which);
    const removedLeads = removeLeads.run(which).changes;
    removeConversation.run(which);
    count.run({ ...none, accountId: account, [conversation.status]: 1, leads: removedLeads });
    const ranges = eraseEvents
      .all(which)
      .map((event) => [event.id, lowestIdAt('delivery', event.timestamp), lowestIdAt('delivery', event.timestamp + 1)]);
    emptyAnswers.run({ events: jsonList(ranges) });
    emptyResults.run(which);
    countErasure.run();
    onErase();
  };
}
