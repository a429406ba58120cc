import { and, asc, count, desc, eq, gt, lt, max, type SQL, sql } from 'drizzle-orm';
import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { Status } from '../../domain/lifecycle.ts';
import { countInSpans, nextTurn, passOver, span } from './index-spans.ts';
import { columnsOf, type Queries } from './queries.ts';
import { accountTotals, conversations } from './tables.ts';

// Lists of conversations and their counts. Each walks an index in the order that is asked for. What a page shows is
// read at once; what it passes over can be all that an account has, so that is walked in spans.

type Row = typeof conversations.$inferSelect;

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

type Place = NonNullable<ConversationQuery['after']>;

/** A page, or the part of it that is found up to a place, that one included. */
interface Part extends ConversationQuery {
  readonly until?: Place | undefined;
}

const isByActivity = ({ sort }: ConversationQuery): boolean => sort === 'lastActivityAt' || sort === '-lastActivityAt';

/** From where a page is read, which rows, and in which order. */
function clausesOf(range: Range, query: Part) {
  const byActivity = isByActivity(query);
  const descending = query.sort.startsWith('-');
  const order = descending ? desc : asc;
  const conditions = conditionsOf(range);
  const [further, before] = descending ? ['<', '>='] : ['>', '<='];
  const place = sql`(${conversations.lastActivityAt}, ${conversations.id})`;
  if (byActivity && query.after !== undefined) {
    conditions.push(sql`${place} ${sql.raw(further)} (${sql.placeholder('afterMs')}, ${sql.placeholder('afterId')})`);
  }
  if (byActivity && query.until !== undefined) {
    conditions.push(sql`${place} ${sql.raw(before)} (${sql.placeholder('untilMs')}, ${sql.placeholder('untilId')})`);
  }
  return {
    from: indexed(range, byActivity),
    where: and(...conditions),
    orderBy: [...(byActivity ? [order(conversations.lastActivityAt)] : []), order(conversations.id)],
  };
}

/** Whether creation is asked about where the index has the order of activity: then entries are left out one by one. */
function leavesOut(query: ConversationQuery): boolean {
  const { createdAfter, createdBefore, externalId } = query.filter;
  return isByActivity(query) && externalId === undefined && (createdAfter ?? createdBefore) !== undefined;
}

/** Whether more may have to be passed over than is read at once. */
export function mayPassOverMany(query: ConversationQuery): boolean {
  return query.offset > span || leavesOut(query);
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

function preparePlaces(db: Queries, { from, where, orderBy }: Clauses) {
  const { id, lastActivityAt } = columns;
  return db
    .select({ id, lastActivityAtMs: lastActivityAt })
    .from(from)
    .where(where)
    .orderBy(...orderBy)
    .limit(limit)
    .offset(offset)
    .prepare();
}

function prepareNumber(db: Queries, { from, where }: Clauses) {
  return db.select({ count: count() }).from(from).where(where).prepare();
}

interface Statement<Row> {
  all(values: Record<string, unknown>): Row[];
}

/** Reads the rows of a page, and one more if there is one, with statements that are prepared when they are needed. */
function pageReader<Row>(prepare: (clauses: Clauses) => Statement<Row>) {
  const statements = new Map<string, Statement<Row>>();
  return (accountId: string, query: Part): Row[] => {
    const range = rangeOf(query);
    const shape = [shapeOf(range), query.sort, query.after === undefined, query.until === undefined].join(' ');
    const statement = statements.get(shape) ?? prepare(clausesOf(range, query));
    statements.set(shape, statement);
    return statement.all({
      ...range,
      accountId,
      afterId: query.after?.id,
      afterMs: query.after?.lastActivityAtMs,
      untilId: query.until?.id,
      untilMs: query.until?.lastActivityAtMs,
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

/** Counts the first of what is narrowed to, and says where that ends. */
function prepareCount(db: Queries, range: Range) {
  const some = db
    .select({ id: columns.id.as('id') })
    .from(indexed(range, false))
    .where(and(...conditionsOf(range)))
    .orderBy(asc(conversations.id))
    .limit(span)
    .as('some');
  return db
    .select({ count: count(), lastId: max(some.id) })
    .from(some)
    .prepare();
}

export function conversationLists(db: Queries) {
  const rowsOf = pageReader<Row>((clauses) => preparePage(db, clauses));
  const placesOf = pageReader<Place>((clauses) => preparePlaces(db, clauses));
  const numberOf = pageReader<{ count: number }>((clauses) => prepareNumber(db, clauses));
  const counts = new Map<string, ReturnType<typeof prepareCount>>();
  const totals = db
    .select()
    .from(accountTotals)
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();

  /** The place of the entry that is so many after another in the order of a page. */
  const edge = (accountId: string, query: ConversationQuery, entries: number): Place | undefined =>
    placesOf(accountId, { ...query, limit: 0, offset: entries - 1 })[0];

  async function furtherDown(accountId: string, query: ConversationQuery): Promise<Row[]> {
    const rest = await passOver(query.after, query.offset, (after, entries) =>
      edge(accountId, { ...query, after }, entries),
    );
    return rowsOf(accountId, { ...query, ...rest });
  }

  /** Entry by entry, as many at once as others can wait for. */
  async function amongOthers(accountId: string, query: ConversationQuery): Promise<Row[]> {
    const all = { ...query, filter: { status: query.filter.status } };
    const rows: Row[] = [];
    for (let { after, offset } = query; ; await nextTurn()) {
      const until = edge(accountId, { ...all, after }, span);
      const part = { ...query, after, until, offset, limit: query.limit - rows.length };
      const found = rowsOf(accountId, part);
      rows.push(...found);
      if (rows.length > query.limit || until === undefined) return rows;
      // Who is found comes after those whom the offset leaves out; if nobody is, they were all left out.
      if (found.length > 0) offset = 0;
      else if (offset > 0) offset -= numberOf(accountId, { ...part, limit: 0, offset: 0 })[0]?.count ?? 0;
      after = until;
    }
  }

  function countSome(accountId: string, range: Range): { count: number; lastId: string | null } {
    const shape = shapeOf(range);
    const statement = counts.get(shape) ?? prepareCount(db, range);
    counts.set(shape, statement);
    return statement.get({ ...range, accountId }) ?? { count: 0, lastId: null };
  }

  return {
    /** The rows of a page, and one more if there is one. */
    page: (accountId: string, query: ConversationQuery): Row[] | Promise<Row[]> => {
      if (!mayPassOverMany(query)) return rowsOf(accountId, query);
      return leavesOut(query) ? amongOthers(accountId, query) : furtherDown(accountId, query);
    },
    pageAtOnce: rowsOf,
    counters: (accountId: string) => totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0 },
    count: (accountId: string, filter: ConversationFilter): number | Promise<number> => {
      const range = rangeOf({ filter, sort: '-createdAt' });
      return countInSpans((afterId) =>
        countSome(accountId, afterId === undefined ? range : { ...range, aboveId: afterId }),
      );
    },
  };
}
