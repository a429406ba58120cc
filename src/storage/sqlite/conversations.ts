import { and, eq, sql } from 'drizzle-orm';
import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/storage-port.ts';
import { conversationLists } from './conversation-lists.ts';
import { type ErasureHooks, erasureReads, erasureWrites } from './erasure.ts';
import { allMessages } from './messages.ts';
import { bindings, inList, jsonList, type Queries } from './queries.ts';
import { alignToIds, sliceOf, toMs, toTimestamp } from './rows.ts';
import { accountTotals, conversations } from './tables.ts';

type Row = typeof conversations.$inferSelect;

function toConversation(row: Row): StoredConversation {
  return {
    id: row.id,
    status: row.status,
    subject: row.subject,
    visitor: row.visitor,
    externalId: row.externalId,
    metadata: row.metadata,
    messageCount: row.messageCount,
    contentBytes: row.contentBytes,
    lastActivityAt: toTimestamp(row.lastActivityAt),
    firstVisitorMessageAt: toTimestamp(row.firstVisitorMessageAt),
    firstResponseAt: toTimestamp(row.firstResponseAt),
    reopenedAt: toTimestamp(row.reopenedAt),
    closedAt: toTimestamp(row.closedAt),
    version: row.version,
    createdAt: toTimestamp(row.createdAt),
    updatedAt: toTimestamp(row.updatedAt),
  };
}

/** The values of the columns that change with every message. */
function changingByMessage(conversation: StoredConversation) {
  return {
    messageCount: conversation.messageCount,
    contentBytes: conversation.contentBytes,
    lastActivityAt: toMs(conversation.lastActivityAt),
    firstVisitorMessageAt: toMs(conversation.firstVisitorMessageAt),
    firstResponseAt: toMs(conversation.firstResponseAt),
    version: conversation.version,
    updatedAt: toMs(conversation.updatedAt),
  };
}

/** The values of the columns that can change after creation. */
function changing(conversation: StoredConversation) {
  return {
    ...changingByMessage(conversation),
    status: conversation.status,
    subject: conversation.subject,
    visitor: conversation.visitor && JSON.stringify(conversation.visitor),
    externalId: conversation.externalId,
    metadata: JSON.stringify(conversation.metadata),
    reopenedAt: toMs(conversation.reopenedAt),
    closedAt: toMs(conversation.closedAt),
  };
}

/** The values of a conversation's row, without the columns that only the storage knows. */
export function conversationValues(accountId: string, conversation: StoredConversation) {
  return {
    ...changing(conversation),
    id: conversation.id,
    accountId,
    createdAt: toMs(conversation.createdAt),
  };
}

/** Whether only columns change that every message changes: SQLite then writes to two indexes instead of four. */
function isByMessage(previous: StoredConversation, next: StoredConversation): boolean {
  return (
    previous.status === next.status &&
    previous.subject === next.subject &&
    previous.visitor === next.visitor &&
    previous.externalId === next.externalId &&
    previous.metadata === next.metadata &&
    previous.reopenedAt === next.reopenedAt &&
    previous.closedAt === next.closedAt
  );
}

const boundByMessage = bindings(
  'messageCount',
  'contentBytes',
  'lastActivityAt',
  'firstVisitorMessageAt',
  'firstResponseAt',
  'version',
  'updatedAt',
);

const bound = {
  ...boundByMessage,
  ...bindings('status', 'subject', 'visitor', 'externalId', 'metadata', 'reopenedAt', 'closedAt'),
};

const ofAccount = eq(conversations.accountId, sql.placeholder('accountId'));

export function conversationReads(db: Queries) {
  const find = db
    .select()
    .from(conversations)
    .where(and(ofAccount, eq(conversations.id, sql.placeholder('id'))))
    .prepare();
  const findMany = db
    .select()
    .from(conversations)
    .where(and(ofAccount, inList(conversations.id, 'ids')))
    .prepare();
  const idByExternalId = db
    .select({ id: conversations.id })
    .from(conversations)
    .where(and(ofAccount, eq(conversations.externalId, sql.placeholder('externalId'))))
    .prepare();
  const messagesOf = allMessages(db);
  const lists = conversationLists(db);

  const findWithMessages = db.$client.transaction((accountId: string, id: string) => {
    const row = find.get({ accountId, id });
    return row && { conversation: toConversation(row), messages: messagesOf(row) };
  });

  const sliced = ({ limit }: ConversationQuery, rows: readonly Row[]) => sliceOf(rows, limit, toConversation);
  const countAll = (accountId: string): number => {
    const { active, pending, closed } = lists.counters(accountId);
    return active + pending + closed;
  };

  return {
    ...erasureReads(db),
    find: (accountId: string, id: string) => {
      const row = find.get({ accountId, id });
      return row && toConversation(row);
    },
    findMany: (accountId: string, ids: readonly string[]) =>
      alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toConversation)),
    findWithMessages: (accountId: string, id: string) => findWithMessages(accountId, id),
    idByExternalId: (accountId: string, externalId: string) => idByExternalId.get({ accountId, externalId })?.id,
    page: (accountId: string, query: ConversationQuery) => {
      const rows = lists.page(accountId, query);
      return rows instanceof Promise ? rows.then((found) => sliced(query, found)) : sliced(query, rows);
    },
    pageAtOnce: (accountId: string, query: ConversationQuery) => sliced(query, lists.pageAtOnce(accountId, query)),
    countAll,
    count: (accountId: string, { status, ...others }: ConversationFilter) => {
      if (Object.values(others).some((value) => value !== undefined)) {
        return lists.count(accountId, { status, ...others });
      }
      return status === undefined ? countAll(accountId) : lists.counters(accountId)[status];
    },
  } satisfies ConversationReads & Record<'pageAtOnce' | 'countAll', unknown>;
}

export function conversationWrites(db: Queries, hooks: ErasureHooks): ConversationWrites {
  const insert = db
    .insert(conversations)
    .values({
      id: sql.placeholder('id'),
      accountId: sql.placeholder('accountId'),
      createdAt: sql.placeholder('createdAt'),
      ...bound,
    })
    .prepare();
  const isPrevious = and(
    ofAccount,
    eq(conversations.id, sql.placeholder('id')),
    eq(conversations.version, sql.placeholder('previousVersion')),
  );
  const update = db.update(conversations).set(bound).where(isPrevious).prepare();
  const updateByMessage = db.update(conversations).set(boundByMessage).where(isPrevious).prepare();
  const markConverted = db
    .update(conversations)
    .set({ converted: true })
    .where(and(ofAccount, eq(conversations.id, sql.placeholder('id')), eq(conversations.converted, false)))
    .prepare();
  const count = db
    .update(accountTotals)
    .set({
      active: sql`${accountTotals.active} + ${sql.placeholder('active')}`,
      pending: sql`${accountTotals.pending} + ${sql.placeholder('pending')}`,
      closed: sql`${accountTotals.closed} + ${sql.placeholder('closed')}`,
    })
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();
  const none = { active: 0, pending: 0, closed: 0 };
  return {
    ...erasureWrites(db, hooks),
    insert: (accountId, conversation) => {
      insert.run(conversationValues(accountId, conversation));
      count.run({ ...none, accountId, [conversation.status]: 1 });
    },
    update: (accountId, previous, next) => {
      // Caches identify a conversation by its version.
      if (next.version <= previous.version) throw new Error(`A change of ${next.id} has no new version`);
      const which = { id: next.id, accountId, previousVersion: previous.version };
      const { changes } = isByMessage(previous, next)
        ? updateByMessage.run({ ...changingByMessage(next), ...which })
        : update.run({ ...changing(next), ...which });
      // SQLite has one writer at a time, so this cannot happen within a transaction.
      if (changes !== 1) throw new Error(`Lost an update of ${next.id}`);
      if (next.status !== previous.status) count.run({ ...none, accountId, [previous.status]: -1, [next.status]: 1 });
    },
    markConverted: (accountId, id) => markConverted.run({ accountId, id }).changes === 1,
  };
}
