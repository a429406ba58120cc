import { and, asc, count, desc, eq, gt, inArray, lt, type SQL, sql } from 'drizzle-orm';
import type { StoredConversation } from '../../domain/conversation.ts';
import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { Status } from '../../domain/lifecycle.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/ports.ts';
import { type ErasureHooks, erasureReads, erasureWrites } from './erasure.ts';
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

/** The columns that change with every message, as they are bound. */
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

/** The columns that change after creation, as they are bound. */
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

/** A conversation as its row is bound, but for what the storage adds. */
export function conversationValues(accountId: string, conversation: StoredConversation) {
  return {
    ...changing(conversation),
    id: conversation.id,
    accountId,
    createdAt: toMs(conversation.createdAt),
  };
}

/** Whether a change is one that every message makes: SQLite then writes to two indexes instead of four. */
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

const boundByMessage = {
  messageCount: sql`${sql.placeholder('messageCount')}`,
  contentBytes: sql`${sql.placeholder('contentBytes')}`,
  lastActivityAt: sql`${sql.placeholder('lastActivityAt')}`,
  firstVisitorMessageAt: sql`${sql.placeholder('firstVisitorMessageAt')}`,
  firstResponseAt: sql`${sql.placeholder('firstResponseAt')}`,
  version: sql`${sql.placeholder('version')}`,
  updatedAt: sql`${sql.placeholder('updatedAt')}`,
};

const bound = {
  ...boundByMessage,
  status: sql`${sql.placeholder('status')}`,
  subject: sql`${sql.placeholder('subject')}`,
  visitor: sql`${sql.placeholder('visitor')}`,
  externalId: sql`${sql.placeholder('externalId')}`,
  metadata: sql`${sql.placeholder('metadata')}`,
  reopenedAt: sql`${sql.placeholder('reopenedAt')}`,
  closedAt: sql`${sql.placeholder('closedAt')}`,
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

/** From where a page is read, which rows, and in which order. */
function clausesOf(range: Range, { sort, after }: ConversationQuery) {
  const byActivity = sort === 'lastActivityAt' || sort === '-lastActivityAt';
  const descending = sort.startsWith('-');
  const order = descending ? desc : asc;
  const conditions = conditionsOf(range);
  if (byActivity && after !== undefined) {
    conditions.push(
      sql`(${conversations.lastActivityAt}, ${conversations.id}) ${sql.raw(descending ? '<' : '>')} (${sql.placeholder('afterMs')}, ${sql.placeholder('afterId')})`,
    );
  }
  return {
    from: indexed(range, byActivity),
    where: and(...conditions),
    orderBy: [...(byActivity ? [order(conversations.lastActivityAt)] : []), order(conversations.id)],
  };
}

const columns = columnsOf(conversations);
const [limit, offset] = [sql.placeholder('limit'), sql.placeholder('offset')];

type Clauses = ReturnType<typeof clausesOf>;

function preparePage(db: Queries, { from, where, orderBy }: Clauses) {
  return db
    .select(columns)
    .from(from)
    .where(where)
    .orderBy(...orderBy)
    .limit(limit)
    .offset(offset)
    .prepare();
}

function prepareVersions(db: Queries, { from, where, orderBy }: Clauses) {
  const { id, version } = columns;
  return db
    .select({ id, version })
    .from(from)
    .where(where)
    .orderBy(...orderBy)
    .limit(limit)
    .offset(offset)
    .prepare();
}

interface Statement<Row> {
  all(values: Record<string, unknown>): Row[];
}

/** Reads the rows of a page, and one more if there is one, with statements that are prepared when they are needed. */
function pageReader<Row>(prepare: (clauses: Clauses) => Statement<Row>) {
  const statements = new Map<string, Statement<Row>>();
  return (accountId: string, query: ConversationQuery): Row[] => {
    const range = rangeOf(query);
    const shape = `${shapeOf(range)} ${query.sort} ${query.after === undefined}`;
    const statement = statements.get(shape) ?? prepare(clausesOf(range, query));
    statements.set(shape, statement);
    return statement.all({
      ...range,
      accountId,
      afterId: query.after?.id,
      afterMs: query.after?.lastActivityAtMs,
      limit: query.limit + 1,
      offset: query.offset,
    });
  };
}

/** Reads what is the same as long as a conversation is: its id and its version. */
export function versionReads(db: Queries) {
  const find = db
    .select({ version: conversations.version })
    .from(conversations)
    .where(and(ofAccount, eq(conversations.id, sql.placeholder('id'))))
    .prepare();
  return {
    find: (accountId: string, id: string): number | undefined => find.get({ accountId, id })?.version,
    /** Those on a page, and of one more if there is one. */
    page: pageReader((clauses) => prepareVersions(db, clauses)),
  };
}

function prepareCount(db: Queries, range: Range) {
  return db
    .select({ count: count() })
    .from(indexed(range, false))
    .where(and(...conditionsOf(range)))
    .prepare();
}

export function conversationReads(db: Queries) {
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
  const pageRows = pageReader((clauses) => preparePage(db, clauses));
  const counts = new Map<string, ReturnType<typeof prepareCount>>();

  const findWithMessages = db.$client.transaction((accountId: string, id: string) => {
    const row = find.get({ accountId, id });
    return row && { conversation: toConversation(row), messages: messagesOf(row) };
  });

  return {
    ...erasureReads(db),
    find: (accountId: string, id: string) => {
      const row = find.get({ accountId, id });
      return row && toConversation(row);
    },
    findMany: (accountId: string, ids: readonly string[]) =>
      inOrderOf(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toConversation)),
    findWithMessages: (accountId: string, id: string) => findWithMessages(accountId, id),
    idByExternalId: (accountId: string, externalId: string) => idByExternalId.get({ accountId, externalId })?.id,
    page: (accountId: string, query: ConversationQuery) =>
      sliceOf(pageRows(accountId, query), query.limit, toConversation),
    count: (accountId: string, filter: ConversationFilter) => {
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
  } satisfies ConversationReads;
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
      // What was kept of a version stands for it, wherever it was kept.
      if (next.version <= previous.version) throw new Error(`A change of ${next.id} is no new version of it`);
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
