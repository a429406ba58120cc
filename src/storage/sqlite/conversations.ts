import { and, asc, count, desc, eq, gt, gte, inArray, lt, type SQL, sql } from 'drizzle-orm';
import type { StoredConversation } from '../../domain/conversation.ts';
import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/ports.ts';
import { allMessages } from './messages.ts';
import { jsonList, type Queries } from './queries.ts';
import { sliceOf, toMs, toTimestamp } from './rows.ts';
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
    closedAt: toTimestamp(row.closedAt),
    version: row.version,
    createdAt: toTimestamp(row.createdAt),
    updatedAt: toTimestamp(row.updatedAt),
  };
}

/** The columns that change after creation, as they are bound. */
function changing(conversation: StoredConversation) {
  return {
    status: conversation.status,
    subject: conversation.subject,
    visitor: conversation.visitor && JSON.stringify(conversation.visitor),
    externalId: conversation.externalId,
    metadata: JSON.stringify(conversation.metadata),
    messageCount: conversation.messageCount,
    contentBytes: conversation.contentBytes,
    lastActivityAt: toMs(conversation.lastActivityAt),
    firstVisitorMessageAt: toMs(conversation.firstVisitorMessageAt),
    firstResponseAt: toMs(conversation.firstResponseAt),
    closedAt: toMs(conversation.closedAt),
    version: conversation.version,
    updatedAt: toMs(conversation.updatedAt),
  };
}

const bound = {
  status: sql`${sql.placeholder('status')}`,
  subject: sql`${sql.placeholder('subject')}`,
  visitor: sql`${sql.placeholder('visitor')}`,
  externalId: sql`${sql.placeholder('externalId')}`,
  metadata: sql`${sql.placeholder('metadata')}`,
  messageCount: sql`${sql.placeholder('messageCount')}`,
  contentBytes: sql`${sql.placeholder('contentBytes')}`,
  lastActivityAt: sql`${sql.placeholder('lastActivityAt')}`,
  firstVisitorMessageAt: sql`${sql.placeholder('firstVisitorMessageAt')}`,
  firstResponseAt: sql`${sql.placeholder('firstResponseAt')}`,
  closedAt: sql`${sql.placeholder('closedAt')}`,
  version: sql`${sql.placeholder('version')}`,
  updatedAt: sql`${sql.placeholder('updatedAt')}`,
};

const ofAccount = eq(conversations.accountId, sql.placeholder('accountId'));

/** The conditions of a filter. Creation times are ranges of ids, which carry them. */
function conditionsOf(filter: ConversationFilter): SQL[] {
  return [
    ofAccount,
    ...(filter.status === undefined ? [] : [eq(conversations.status, sql.placeholder('status'))]),
    ...(filter.externalId === undefined ? [] : [eq(conversations.externalId, sql.placeholder('externalId'))]),
    ...(filter.createdAfter === undefined ? [] : [gte(conversations.id, sql.placeholder('fromId'))]),
    ...(filter.createdBefore === undefined ? [] : [lt(conversations.id, sql.placeholder('toId'))]),
  ];
}

function bindFilter(accountId: string, filter: ConversationFilter) {
  return {
    accountId,
    status: filter.status,
    externalId: filter.externalId,
    fromId: filter.createdAfter === undefined ? undefined : lowestIdAt('conversation', filter.createdAfter + 1),
    toId: filter.createdBefore === undefined ? undefined : lowestIdAt('conversation', filter.createdBefore),
  };
}

/** Which of the optional conditions a filter has: queries with the same ones share a statement. */
function shapeOf(filter: ConversationFilter): string {
  return [filter.status, filter.externalId, filter.createdAfter, filter.createdBefore]
    .map((value) => (value === undefined ? '-' : '+'))
    .join('');
}

function preparePage(db: Queries, { filter, sort, after }: ConversationQuery) {
  const byActivity = sort === 'lastActivityAt' || sort === '-lastActivityAt';
  const descending = sort.startsWith('-');
  const [order, beyond] = descending ? [desc, lt] : [asc, gt];
  const conditions = conditionsOf(filter);
  if (after !== undefined) {
    conditions.push(
      byActivity
        ? sql`(${conversations.lastActivityAt}, ${conversations.id}) ${sql.raw(descending ? '<' : '>')} (${sql.placeholder('afterMs')}, ${sql.placeholder('afterId')})`
        : beyond(conversations.id, sql.placeholder('afterId')),
    );
  }
  return db
    .select()
    .from(conversations)
    .where(and(...conditions))
    .orderBy(...(byActivity ? [order(conversations.lastActivityAt)] : []), order(conversations.id))
    .limit(sql.placeholder('limit'))
    .offset(sql.placeholder('offset'))
    .prepare();
}

function prepareCount(db: Queries, filter: ConversationFilter) {
  return db
    .select({ count: count() })
    .from(conversations)
    .where(and(...conditionsOf(filter)))
    .prepare();
}

export function conversationReads(db: Queries): ConversationReads {
  const find = db
    .select()
    .from(conversations)
    .where(and(ofAccount, eq(conversations.id, sql.placeholder('id'))))
    .prepare();
  const findMany = db
    .select()
    .from(conversations)
    .where(and(ofAccount, inArray(conversations.id, sql`(SELECT value FROM json_each(${sql.placeholder('ids')}))`)))
    .prepare();
  const idByExternalId = db
    .select({ id: conversations.id })
    .from(conversations)
    .where(and(ofAccount, eq(conversations.externalId, sql.placeholder('externalId'))))
    .prepare();
  const totals = db
    .select()
    .from(accountTotals)
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();
  const messagesOf = allMessages(db);
  const pages = new Map<string, ReturnType<typeof preparePage>>();
  const counts = new Map<string, ReturnType<typeof prepareCount>>();

  const findWithMessages = db.$client.transaction((accountId: string, id: string) => {
    const row = find.get({ accountId, id });
    return row && { conversation: toConversation(row), messages: messagesOf(row) };
  });

  return {
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toConversation(row);
    },
    findMany: (accountId, ids) => {
      const rows = new Map(findMany.all({ accountId, ids: jsonList(ids) }).map((row) => [row.id, row]));
      return ids.map((id) => {
        const row = rows.get(id);
        return row && toConversation(row);
      });
    },
    findWithMessages: (accountId, id) => findWithMessages(accountId, id),
    idByExternalId: (accountId, externalId) => idByExternalId.get({ accountId, externalId })?.id,
    page: (accountId, query) => {
      const shape = `${shapeOf(query.filter)} ${query.sort} ${query.after === undefined}`;
      const page = pages.get(shape) ?? preparePage(db, query);
      pages.set(shape, page);
      const rows = page.all({
        ...bindFilter(accountId, query.filter),
        afterId: query.after?.id,
        afterMs: query.after?.lastActivityAtMs,
        limit: query.limit + 1,
        offset: query.offset,
      });
      return sliceOf(rows, query.limit, toConversation);
    },
    count: (accountId, filter) => {
      const shape = shapeOf(filter);
      if (shape === '----' || shape === '+---') {
        const counters = totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0 };
        return filter.status === undefined
          ? counters.active + counters.pending + counters.closed
          : counters[filter.status];
      }
      const statement = counts.get(shape) ?? prepareCount(db, filter);
      counts.set(shape, statement);
      return statement.get(bindFilter(accountId, filter))?.count ?? 0;
    },
  };
}

export function conversationWrites(db: Queries): ConversationWrites {
  const insert = db
    .insert(conversations)
    .values({
      id: sql.placeholder('id'),
      accountId: sql.placeholder('accountId'),
      createdAt: sql.placeholder('createdAt'),
      ...bound,
    })
    .prepare();
  const update = db
    .update(conversations)
    .set(bound)
    .where(
      and(
        ofAccount,
        eq(conversations.id, sql.placeholder('id')),
        eq(conversations.version, sql.placeholder('previousVersion')),
      ),
    )
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
    insert: (accountId, conversation) => {
      insert.run({
        ...changing(conversation),
        id: conversation.id,
        accountId,
        createdAt: toMs(conversation.createdAt),
      });
      count.run({ ...none, accountId, [conversation.status]: 1 });
    },
    update: (accountId, previous, next) => {
      const { changes } = update.run({ ...changing(next), id: next.id, accountId, previousVersion: previous.version });
      // SQLite has one writer at a time, so this cannot happen within a transaction.
      if (changes !== 1) throw new Error(`Lost an update of ${next.id}`);
      if (next.status !== previous.status) count.run({ ...none, accountId, [previous.status]: -1, [next.status]: 1 });
    },
  };
}
