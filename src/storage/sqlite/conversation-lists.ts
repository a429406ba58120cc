import { and, asc, count, desc, eq, gt, lt, max, type SQL, sql } from 'drizzle-orm';
import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { Status } from '../../domain/lifecycle.ts';
import { countInSpans, few, firstTurn, laterTurn, skip, span } from './index-spans.ts';
import { columnsOf, type Queries } from './queries.ts';
import { accountTotals, conversations } from './tables.ts';

// Lists of conversations, and their counts. Each walks an index in the requested order. A page itself is read at once.
// What comes before it can be all that an account has, so that is skipped in spans.

type Row = typeof conversations.$inferSelect;

const ofAccount = eq(conversations.accountId, sql.placeholder('accountId'));

/** The conditions of a list or a count. Creation times and cursors by creation become bounds on ids. */
interface Range {
  readonly status: Status | undefined;
  readonly externalId: string | undefined;
  /** One bound per side: SQLite seeks in an index by one condition, and tests any other row by row. */
  readonly aboveId: string | undefined;
  readonly belowId: string | undefined;
}

function rangeOf({ filter, sort, after }: Pick<ConversationQuery, 'filter' | 'sort' | 'after'>): Range {
  const { status, externalId, createdAfter, createdBefore } = filter;
  // No real id is the lowest of its time: its random bits contain a version, which is never zero.
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

/** Which conditions a range has. Queries with the same ones share a statement. */
function shapeOf({ status, externalId, aboveId, belowId }: Range): string {
  return [status, externalId, aboveId, belowId].map((value) => (value === undefined ? '-' : '+')).join('');
}

/**
 * The table, read through the index that has the requested order. Left to itself, SQLite narrows by creation first, and
 * then sorts everything it has found.
 */
function indexed({ status, externalId }: Range, byActivity: boolean): SQL {
  const parts = [...(status === undefined ? [] : ['status']), ...(byActivity ? ['activity'] : [])];
  const index = externalId === undefined ? parts.join('_and_') || 'id' : 'external_id';
  return sql`${conversations} INDEXED BY ${sql.identifier(`conversations_by_${index}`)}`;
}

type Place = NonNullable<ConversationQuery['after']>;

/** A page, or the part of it up to and including a place. */
interface Part extends ConversationQuery {
  readonly until?: Place | undefined;
}

const isByActivity = ({ sort }: ConversationQuery): boolean => sort === 'lastActivityAt' || sort === '-lastActivityAt';

/** FROM, WHERE and ORDER BY of a page. */
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

/** Whether the list filters by creation but its index is sorted by activity: then entries are tested one by one. */
function testsEntries(query: ConversationQuery): boolean {
  const { createdAfter, createdBefore, externalId } = query.filter;
  return isByActivity(query) && externalId === undefined && (createdAfter ?? createdBefore) !== undefined;
}

/** Whether a page may have to skip so many entries that it has to wait for its turn. */
export function maySkipMany(query: ConversationQuery): boolean {
  return query.offset > few || testsEntries(query);
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

/**
 * Reads the rows of a page, and one more if there is one. Statements are prepared once per shape, when first needed.
 */
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

/** Reads ids and versions: as long as they are the same, so is the conversation. */
export function versionReads(db: Queries) {
  const find = db
    .select({ version: conversations.version })
    .from(conversations)
    .where(and(ofAccount, eq(conversations.id, sql.placeholder('id'))))
    .prepare();
  return {
    find: (accountId: string, id: string): number | undefined => find.get({ accountId, id })?.version,
    /** Those of the conversations on a page, and of one more if there is one. */
    page: pageReader((clauses) => prepareVersions(db, clauses)),
  };
}

/** Counts the first entries of a range, up to a limit, and finds the last of them. */
function prepareCount(db: Queries, range: Range) {
  const some = db
    .select({ id: columns.id.as('id') })
    .from(indexed(range, false))
    .where(and(...conditionsOf(range)))
    .orderBy(asc(conversations.id))
    .limit(sql.placeholder('limit'))
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

  /** The place that lies `entries` after `query.after`, in the order of the page. */
  const edge = (accountId: string, query: ConversationQuery, entries: number): Place | undefined =>
    placesOf(accountId, { ...query, limit: 0, offset: entries - 1 })[0];

  async function afterSkipping(accountId: string, query: ConversationQuery): Promise<Row[]> {
    const rest = await skip(query.after, query.offset, (after, entries) =>
      edge(accountId, { ...query, after }, entries),
    );
    return rowsOf(accountId, { ...query, ...rest });
  }

  /** Tests entry by entry, one span at a time, and yields to the event loop in between. */
  async function bySpans(accountId: string, query: ConversationQuery): Promise<Row[]> {
    const all = { ...query, filter: { status: query.filter.status } };
    const rows: Row[] = [];
    await firstTurn();
    for (let { after, offset } = query; ; await laterTurn()) {
      const until = edge(accountId, { ...all, after }, span);
      const part = { ...query, after, until, offset, limit: query.limit - rows.length };
      const found = rowsOf(accountId, part);
      rows.push(...found);
      if (rows.length > query.limit || until === undefined) return rows;
      // Rows are found only after the offset is used up; if none were, all matches of this span were skipped.
      if (found.length > 0) offset = 0;
      else if (offset > 0) offset -= numberOf(accountId, { ...part, limit: 0, offset: 0 })[0]?.count ?? 0;
      after = until;
    }
  }

  function countSome(accountId: string, range: Range, limit: number): { count: number; lastId: string | null } {
    const shape = shapeOf(range);
    const statement = counts.get(shape) ?? prepareCount(db, range);
    counts.set(shape, statement);
    return statement.get({ ...range, accountId, limit }) ?? { count: 0, lastId: null };
  }

  return {
    /** The rows of a page, and one more if there is one. */
    page: (accountId: string, query: ConversationQuery): Row[] | Promise<Row[]> => {
      if (!maySkipMany(query)) return rowsOf(accountId, query);
      return testsEntries(query) ? bySpans(accountId, query) : afterSkipping(accountId, query);
    },
    pageAtOnce: rowsOf,
    counters: (accountId: string) => totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0 },
    count: (accountId: string, filter: ConversationFilter): number | Promise<number> => {
      const range = rangeOf({ filter, sort: '-createdAt' });
      return countInSpans((limit, afterId) =>
        countSome(accountId, afterId === undefined ? range : { ...range, aboveId: afterId }, limit),
      );
    },
  };
}
