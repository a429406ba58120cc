import { and, asc, count, desc, eq, gt, inArray, lt, type SQL, sql } from 'drizzle-orm';
import type { StoredConversation } from '../../domain/conversation.ts';
import type { ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { Status } from '../../domain/lifecycle.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/ports.ts';
import { eraseConversation } from './erasure.ts';
import { allMessages } from './messages.ts';
import { columnsOf, jsonList, type Queries } from './queries.ts';
import { inOrderOf, sliceOf, toMs, toTimestamp } from './rows.ts';
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
    reopenedAt: toMs(conversation.reopenedAt),
    closedAt: toMs(conversation.closedAt),
    version: conversation.version,
    updatedAt: toMs(conversation.updatedAt),
  };
}

/** A conversation as its row is bound, but for what the storage adds. */
export function conversationValues(accountId: string, conversation: StoredConversation) {
  return {
    ...changing(conversation),
    id: conversation.id,
    accountId,
    createdAt: toMs(conversation.createdAt),
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
  reopenedAt: sql`${sql.placeholder('reopenedAt')}`,
  closedAt: sql`${sql.placeholder('closedAt')}`,
  version: sql`${sql.placeholder('version')}`,
  updatedAt: sql`${sql.placeholder('updatedAt')}`,
};

const ofAccount = eq(conversations.accountId, sql.placeholder('accountId'));

/** What a list or a count is narrowed to. Creation times and cursors by creation are bounds of ids, which carry the time. */
interface Range {
  readonly status: Status | undefined;
  readonly externalId: string | undefined;
  /** One bound on each side: SQLite enters an index by one condition and tests any other row by row. */
  readonly aboveId: string | undefined;
  readonly belowId: string | undefined;
}

function rangeOf({ filter, sort, after }: Pick<ConversationQuery, 'filter' | 'sort' | 'after'>): Range {
  const { status, externalId, createdAfter, createdBefore } = filter;
  // No id is the lowest of its time: its random bits hold a version, which is not zero.
  const above = [
    createdAfter === undefined ? undefined : lowestIdAt('conversation', createdAfter + 1),
    sort === 'createdAt' ? after?.id : undefined,
  ];
  const below = [
    createdBefore === undefined ? undefined : lowestIdAt('conversation', createdBefore),
    sort === '-createdAt' ? after?.id : undefined,
  ];
  return { status, externalId, aboveId: sorted(above).at(-1), belowId: sorted(below).at(0) };
}

function sorted(ids: readonly (string | undefined)[]): string[] {
  return ids.filter((id) => id !== undefined).sort();
}

function conditionsOf(range: Range): SQL[] {
  return [
    ofAccount,
    ...(range.status === undefined ? [] : [eq(conversations.status, sql.placeholder('status'))]),
    ...(range.externalId === undefined ? [] : [eq(conversations.externalId, sql.placeholder('externalId'))]),
    ...(range.aboveId === undefined ? [] : [gt(conversations.id, sql.placeholder('aboveId'))]),
    ...(range.belowId === undefined ? [] : [lt(conversations.id, sql.placeholder('belowId'))]),
  ];
}

/** Which conditions a range has: queries with the same ones share a statement. */
function shapeOf({ status, externalId, aboveId, belowId }: Range): string {
  return [status, externalId, aboveId, belowId].map((value) => (value === undefined ? '-' : '+')).join('');
}

/**
 * The table, entered by the index in whose order the rows are asked for. Left to itself, SQLite
 * narrows first by creation and then sorts all that it has found.
 */
function indexed({ status, externalId }: Range, byActivity: boolean): SQL {
  const parts = [...(status === undefined ? [] : ['status']), ...(byActivity ? ['activity'] : [])];
  const index = externalId === undefined ? parts.join('_and_') || 'id' : 'external_id';
  return sql`${conversations} INDEXED BY ${sql.identifier(`conversations_by_${index}`)}`;
}

function preparePage(db: Queries, range: Range, { sort, after }: ConversationQuery) {
  const byActivity = sort === 'lastActivityAt' || sort === '-lastActivityAt';
  const descending = sort.startsWith('-');
  const order = descending ? desc : asc;
  const conditions = conditionsOf(range);
  if (byActivity && after !== undefined) {
    conditions.push(
      sql`(${conversations.lastActivityAt}, ${conversations.id}) ${sql.raw(descending ? '<' : '>')} (${sql.placeholder('afterMs')}, ${sql.placeholder('afterId')})`,
    );
  }
  return db
    .select(columnsOf(conversations))
    .from(indexed(range, byActivity))
    .where(and(...conditions))
    .orderBy(...(byActivity ? [order(conversations.lastActivityAt)] : []), order(conversations.id))
    .limit(sql.placeholder('limit'))
    .offset(sql.placeholder('offset'))
    .prepare();
}

function prepareCount(db: Queries, range: Range) {
  return db
    .select({ count: count() })
    .from(indexed(range, false))
    .where(and(...conditionsOf(range)))
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
    findMany: (accountId, ids) => inOrderOf(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toConversation)),
    findWithMessages: (accountId, id) => findWithMessages(accountId, id),
    idByExternalId: (accountId, externalId) => idByExternalId.get({ accountId, externalId })?.id,
    page: (accountId, query) => {
      const range = rangeOf(query);
      const shape = `${shapeOf(range)} ${query.sort} ${query.after === undefined}`;
      const page = pages.get(shape) ?? preparePage(db, range, query);
      pages.set(shape, page);
      const rows = page.all({
        ...range,
        accountId,
        afterId: query.after?.id,
        afterMs: query.after?.lastActivityAtMs,
        limit: query.limit + 1,
        offset: query.offset,
      });
      return sliceOf(rows, query.limit, toConversation);
    },
    count: (accountId, filter) => {
      const range = rangeOf({ filter, sort: '-createdAt' });
      const shape = shapeOf(range);
      if (shape === '----' || shape === '+---') {
        const counters = totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0 };
        return range.status === undefined
          ? counters.active + counters.pending + counters.closed
          : counters[range.status];
      }
      const statement = counts.get(shape) ?? prepareCount(db, range);
      counts.set(shape, statement);
      return statement.get({ ...range, accountId })?.count ?? 0;
    },
  };
}

/** @param onErase is told that something was erased; the transaction may still be undone */
export function conversationWrites(db: Queries, onErase: () => void): ConversationWrites {
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
    erase: eraseConversation(db, onErase),
    insert: (accountId, conversation) => {
      insert.run(conversationValues(accountId, conversation));
      count.run({ ...none, accountId, [conversation.status]: 1 });
    },
    update: (accountId, previous, next) => {
      const { changes } = update.run({ ...changing(next), id: next.id, accountId, previousVersion: previous.version });
      // SQLite has one writer at a time, so this cannot happen within a transaction.
      if (changes !== 1) throw new Error(`Lost an update of ${next.id}`);
      if (next.status !== previous.status) count.run({ ...none, accountId, [previous.status]: -1, [next.status]: 1 });
    },
    markConverted: (accountId, id) => markConverted.run({ accountId, id }).changes === 1,
  };
}
