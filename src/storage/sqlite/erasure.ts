import { and, count, eq, sql } from 'drizzle-orm';
import type { ConversationReads, ConversationWrites } from '../../domain/storage-port.ts';
import { type Place, prepareSteps } from './erasure-steps.ts';
import { metaIncrement } from './meta.ts';
import { bindings, type Queries } from './queries.ts';
import { accountTotals, conversations, erasing, leads } from './tables.ts';

// A conversation can be too much for one transaction, which blocks the event loop: up to 10,000 messages, an event of
// each, and for each event the responses of the webhooks. So the first transaction hides it, and further ones erase the
// rest, a little each. Most conversations are small enough for the first one to do it all.
//
// Deleted rows are overwritten (`secure_delete`), and the write-ahead log is emptied after the last commit. One thing
// is out of reach: where SQLite moved a row to another page as the table grew, a piece of it can remain in the free
// space of the old page (its `rebuildPage` does not clear it), until other rows overwrite it or the file is compacted.

export interface ErasureHooks {
  /** Called when something has been hidden; the transaction may still be rolled back. */
  readonly onHide: () => void;
  /** Called when at most the write-ahead log still holds something; the transaction may still be rolled back. */
  readonly onGone: () => void;
}

export function erasureReads(db: Queries): Pick<ConversationReads, 'erasing'> {
  const all = db.select({ accountId: erasing.accountId, id: erasing.conversationId }).from(erasing).prepare();
  return { erasing: () => all.all() };
}

export function erasureWrites(
  db: Queries,
  { onHide, onGone }: ErasureHooks,
): Pick<ConversationWrites, 'erase' | 'eraseMore'> {
  const ofAccount = eq(conversations.accountId, sql.placeholder('accountId'));
  const findKey = db
    .select({ key: conversations.key })
    .from(conversations)
    .where(and(ofAccount, eq(conversations.id, sql.placeholder('id'))))
    .prepare();
  const countLeads = db
    .select({ leads: count() })
    .from(leads)
    .where(and(eq(leads.accountId, sql.placeholder('accountId')), eq(leads.conversationId, sql.placeholder('id'))))
    .prepare();
  const discount = db
    .update(accountTotals)
    .set({
      active: sql`${accountTotals.active} - ${sql.placeholder('active')}`,
      pending: sql`${accountTotals.pending} - ${sql.placeholder('pending')}`,
      closed: sql`${accountTotals.closed} - ${sql.placeholder('closed')}`,
      leads: sql`${accountTotals.leads} - ${sql.placeholder('leads')}`,
    })
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();
  const countErasure = metaIncrement(db, 'erasures');
  const ofKey = eq(conversations.key, sql.placeholder('conversationKey'));
  const hide = db
    .update(conversations)
    .set({ accountId: null, subject: null, visitor: null, externalId: null, metadata: {} })
    .where(ofKey)
    .prepare();
  const remove = db.delete(conversations).where(ofKey).prepare();
  const ofPlace = and(
    eq(erasing.accountId, sql.placeholder('accountId')),
    eq(erasing.conversationId, sql.placeholder('conversationId')),
  );
  const record = db
    .insert(erasing)
    .values({
      accountId: sql.placeholder('accountId'),
      conversationId: sql.placeholder('conversationId'),
      conversationKey: sql.placeholder('conversationKey'),
      eventSequence: sql.placeholder('eventSequence'),
    })
    .prepare();
  const find = db.select().from(erasing).where(ofPlace).prepare();
  const advance = db.update(erasing).set(bindings('eventSequence')).where(ofPlace).prepare();
  const finish = db.delete(erasing).where(ofPlace).prepare();
  const eraseSome = prepareSteps(db);
  const none = { active: 0, pending: 0, closed: 0 };
  return {
    erase: (accountId, { id, status }) => {
      const row = findKey.get({ accountId, id });
      if (row === undefined) return;
      const place: Place = { accountId, conversationId: id, conversationKey: row.key, eventSequence: 0 };
      discount.run({ ...none, accountId, [status]: 1, leads: countLeads.get({ accountId, id })?.leads ?? 0 });
      countErasure();
      onHide();
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
