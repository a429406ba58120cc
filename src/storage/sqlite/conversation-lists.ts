import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { Status } from '../../domain/lifecycle.ts';
import { turns } from '../../runtime/turns.ts';
import type { ConversationRow } from './conversations.ts';
import { countInSteps, entriesPerStep, maxEntriesAtOnce, nextStep, skipInSteps } from './paging.ts';
import type { Statements } from './statements.ts';

// Lists of conversations, and their counts. Each walks an index in the requested order. A page itself is read at once.
// What comes before it can be all that an account has, so that is skipped in steps.

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

function conditionsOf(range: Range): string[] {
  return [
    'account_id = :accountId',
    ...(range.status === undefined ? [] : ['status = :status']),
    ...(range.externalId === undefined ? [] : ['external_id = :externalId']),
    ...(range.aboveId === undefined ? [] : ['id > :aboveId']),
    ...(range.belowId === undefined ? [] : ['id < :belowId']),
  ];
}

/**
 * The index that has the requested order. Left to itself, SQLite narrows by creation first, and then sorts everything it
 * has found.
 */
function indexOf({ status, externalId }: Range, byActivity: boolean): string {
  if (externalId !== undefined) return 'conversations_by_external_id';
  if (status === undefined) return byActivity ? 'conversations_by_activity' : 'conversations_by_id';
  return byActivity ? 'conversations_by_status_and_activity' : 'conversations_by_status';
}

type Place = NonNullable<ConversationQuery['after']>;

/** A page, or the part of it up to and including a place. */
interface Part extends ConversationQuery {
  readonly until?: Place | undefined;
}

const isByActivity = ({ sort }: ConversationQuery): boolean => sort === 'lastActivityAt' || sort === '-lastActivityAt';
const isDescending = ({ sort }: ConversationQuery): boolean => sort.startsWith('-');

/** FROM and WHERE of a page. */
function rowsOf(range: Range, query: Part): string {
  const byActivity = isByActivity(query);
  const conditions = conditionsOf(range);
  const [further, before] = isDescending(query) ? ['<', '>='] : ['>', '<='];
  if (byActivity && query.after !== undefined) {
    conditions.push(`(last_activity_at, id) ${further} (:afterMs, :afterId)`);
  }
  if (byActivity && query.until !== undefined) {
    conditions.push(`(last_activity_at, id) ${before} (:untilMs, :untilId)`);
  }
  return `FROM conversations INDEXED BY ${indexOf(range, byActivity)} WHERE ${conditions.join(' AND ')}`;
}

function orderOf(query: Part): string {
  const direction = isDescending(query) ? 'DESC' : 'ASC';
  return isByActivity(query) ? `last_activity_at ${direction}, id ${direction}` : `id ${direction}`;
}

/** Whether the list filters by creation but its index is sorted by activity: then entries are tested one by one. */
function testsEntries(query: ConversationQuery): boolean {
  const { createdAfter, createdBefore, externalId } = query.filter;
  return isByActivity(query) && externalId === undefined && (createdAfter ?? createdBefore) !== undefined;
}

/** Whether a page may have to skip so many entries that it has to wait for its turn. */
function maySkipMany(query: ConversationQuery): boolean {
  return query.offset > maxEntriesAtOnce || testsEntries(query);
}

/** @param columns what to select of a conversation */
export function conversationLists(db: Statements, columns: string) {
  const valuesOf = (accountId: string, range: Range, query: Part) => ({
    ...range,
    accountId,
    afterId: query.after?.id,
    afterMs: query.after?.lastActivityAtMs,
    untilId: query.until?.id,
    untilMs: query.until?.lastActivityAtMs,
    limit: query.limit + 1,
    offset: query.offset,
  });
  function select<Row>(selected: string, accountId: string, query: Part): Row[] {
    const range = rangeOf(query);
    const sql = `SELECT ${selected} ${rowsOf(range, query)} ORDER BY ${orderOf(query)} LIMIT :limit OFFSET :offset`;
    return db.prepareOnce<Row>(sql).all(valuesOf(accountId, range, query));
  }
  /** The rows of a page, and one more if there is one. */
  const pageOf = (accountId: string, query: Part) => select<ConversationRow>(columns, accountId, query);

  function numberOf(accountId: string, query: Part): number {
    const range = rangeOf(query);
    const statement = db.prepareOnce<{ count: number }>(`SELECT count(*) AS count ${rowsOf(range, query)}`);
    return statement.get(valuesOf(accountId, range, query))?.count ?? 0;
  }

  /** The place that lies `entries` after `query.after`, in the order of the page. */
  const placeAfter = (accountId: string, query: ConversationQuery, entries: number): Place | undefined =>
    select<Place>('id, last_activity_at AS lastActivityAtMs', accountId, {
      ...query,
      limit: 0,
      offset: entries - 1,
    })[0];

  async function afterSkipping(accountId: string, query: ConversationQuery): Promise<ConversationRow[]> {
    const rest = await skipInSteps(accountId, query.after, query.offset, (after, entries) =>
      placeAfter(accountId, { ...query, after }, entries),
    );
    return pageOf(accountId, { ...query, ...rest });
  }

  /** Tests entry by entry, in steps, and yields to the event loop in between. */
  async function testingInSteps(accountId: string, query: ConversationQuery): Promise<ConversationRow[]> {
    const all = { ...query, filter: { status: query.filter.status } };
    const rows: ConversationRow[] = [];
    await turns.next(accountId);
    for (let { after, offset } = query; ; await nextStep(accountId)) {
      const until = placeAfter(accountId, { ...all, after }, entriesPerStep);
      const part = { ...query, after, until, offset, limit: query.limit - rows.length };
      const found = pageOf(accountId, part);
      rows.push(...found);
      if (rows.length > query.limit || until === undefined) return rows;
      // Rows are found only after the offset is used up; if none were, all matches of this step were skipped.
      if (found.length > 0) offset = 0;
      else if (offset > 0) offset -= numberOf(accountId, part);
      after = until;
    }
  }

  /** Counts the first entries of a range, up to a limit, and finds the last of them. */
  function countUpTo(accountId: string, range: Range, limit: number): { count: number; lastId: string | null } {
    const statement = db.prepareOnce<{ count: number; lastId: string | null }>(
      `SELECT count(*) AS count, max(id) AS lastId FROM
        (SELECT id FROM conversations INDEXED BY ${indexOf(range, false)} WHERE ${conditionsOf(range).join(' AND ')}
          ORDER BY id LIMIT :limit) AS some`,
    );
    return statement.get({ ...range, accountId, limit }) ?? { count: 0, lastId: null };
  }

  return {
    /** The rows of a page, and one more if there is one. */
    page: (accountId: string, query: ConversationQuery): ConversationRow[] | Promise<ConversationRow[]> => {
      if (!maySkipMany(query)) return pageOf(accountId, query);
      return testsEntries(query) ? testingInSteps(accountId, query) : afterSkipping(accountId, query);
    },
    count: (accountId: string, filter: ConversationFilter): number | Promise<number> => {
      const range = rangeOf({ filter, sort: '-createdAt' });
      return countInSteps(accountId, (limit, afterId) =>
        countUpTo(accountId, afterId === undefined ? range : { ...range, aboveId: afterId }, limit),
      );
    },
  };
}
