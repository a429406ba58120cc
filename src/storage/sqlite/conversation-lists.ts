import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import { statuses } from '../../domain/lifecycle.ts';
import { aboveAllIds } from '../lists.ts';
import {
  countInSteps,
  countOfWalk,
  entriesPerStep,
  maxEntriesAtOnce,
  pageOfWalk,
  rowsPerStep,
  skipInSteps,
  type Walk,
} from './paging.ts';
import { jsonList, type Statements } from './statements.ts';

// Lists of conversations, and their counts. A list is read in one of three ways:
//
// - From an index that has its order and all that it is filtered by.
// - Where one of the filters leaves few conversations, whatever the others do: from the index of that filter. They are
//   tested one by one, and sorted.
// - Otherwise from an index that has the order. What that does not decide is tested one by one, in steps.

/** Where an index is entered: conditions that its columns decide, beside the account. */
interface Source {
  readonly index: string;
  readonly entry?: string;
  /** Whether the index is one of the rows of what is unread, each of which leads to its conversation. */
  readonly isUnread?: true;
}

type Order = 'id' | 'activity';

/** An index, or several whose entries are merged, with the order of a list. */
interface Plan {
  readonly order: Order;
  readonly sources: readonly Source[];
  /** Whether other filters are to be tested. */
  readonly testsRows: boolean;
  /** Whether times of creation are to be tested, which every index has: in the order of ids they are bounds. */
  readonly testsCreation: boolean;
}

const ofVisitor: Source = { index: 'conversations_by_visitor', entry: 'visitor_id = :visitorId' };
const ofVisitorEmail: Source = { index: 'conversations_by_visitor_email', entry: 'visitor_email = :visitorEmail' };

const byActivity = 'conversations_by_status_and_activity';

const unreadBy = (index: string): Source => ({ index, entry: 'reader = :unreadBy', isUnread: true });
const unreadById = unreadBy('sqlite_autoindex_unread_conversations_1');
const unreadByActivity = unreadBy('unread_conversations_by_activity');

/** What is in the order of ids and within the times of creation: bounds where an index has ids next. */
const createdWithin = 'id >= :createdFrom AND id < :createdTo';

/** Those that have a tag, of which there are few. */
const withTag = `FROM conversation_tags WHERE account_id = :accountId AND tag = :tag
  AND conversation_id >= :createdFrom AND conversation_id < :createdTo`;
const ofTag: Source = { index: 'conversations_by_id', entry: `id IN (SELECT conversation_id ${withTag})` };

type Filtered = keyof ConversationFilter;

function planOf(filter: ConversationFilter, order: Order): Plan {
  const { sources, decided } = sourcesOf(filter, order);
  const given = Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [name as Filtered]));
  const tested = given.filter((name) => !decided.includes(name));
  const creation: readonly Filtered[] = ['createdAfter', 'createdBefore'];
  return {
    order,
    sources,
    testsRows: tested.some((name) => !creation.includes(name)),
    testsCreation: order === 'activity' && tested.some((name) => creation.includes(name)),
  };
}

/** The narrowest index with this order, and the filters that it decides. */
function sourcesOf(
  filter: ConversationFilter,
  order: Order,
): { sources: readonly Source[]; decided: readonly Filtered[] } {
  const isById = order === 'id';
  if (filter.unreadBy !== undefined) {
    return { sources: [isById ? unreadById : unreadByActivity], decided: ['unreadBy'] };
  }
  if (filter.assigneeId !== undefined) {
    const index = isById ? 'conversations_by_assignee' : 'conversations_by_assignee_and_activity';
    return { sources: byStatus(filter, index, 'assignee_id = :assigneeId'), decided: ['assigneeId', 'statuses'] };
  }
  if (isById && filter.visitorId !== undefined) {
    return { sources: [ofVisitor], decided: ['visitorId'] };
  }
  if (isById && filter.visitorEmail !== undefined) {
    return { sources: [ofVisitorEmail], decided: ['visitorEmail'] };
  }
  if (isById && filter.unassigned === true) return { sources: unassigned(filter), decided: ['unassigned', 'statuses'] };
  // By activity, there is no index without the status: every message would have to move an entry of it, too.
  if (!isById) return { sources: byStatus(filter, byActivity), decided: ['statuses'] };
  const isAnyStatus = statusesOf(filter).length === statuses.length;
  return {
    sources: isAnyStatus ? [{ index: 'conversations_by_id' }] : byStatus(filter, 'conversations_by_status'),
    decided: ['statuses'],
  };
}

/** Whether a filter asks for one tag, at most of some time, and for nothing else. */
function isOneTag({ tags, createdAfter: _, createdBefore: __, ...others }: ConversationFilter): boolean {
  return tags?.length === 1 && Object.values(others).every((value) => value === undefined);
}

/** The statuses that a conversation may have. */
function statusesOf(filter: ConversationFilter) {
  return statuses.filter((status) => filter.statuses?.includes(status) ?? true);
}

/** A source for each status. */
function byStatus(filter: ConversationFilter, index: string, before?: string): Source[] {
  return statusesOf(filter).map((_, at) => {
    const entry = `status = :status${at}`;
    return { index, entry: before === undefined ? entry : `${before} AND ${entry}` };
  });
}

const unassigned = (filter: ConversationFilter): Source[] =>
  byStatus(filter, 'conversations_by_assignee', 'assignee_id IS NULL');

/** Where the conversations are that one of the filters leaves. */
interface Narrow {
  readonly sources: readonly Source[];
  /** Whether the indexes have them in the order of ids, so that times of creation are bounds. */
  readonly isById: boolean;
  /** The tag that they are entered by. */
  readonly tag?: string;
  /** Whether it cannot be more than one. */
  readonly isOne?: boolean;
}

/** For each filter that may leave few. */
function* narrowed(filter: ConversationFilter): Generator<Narrow> {
  if (filter.unreadBy !== undefined) yield { sources: [unreadById], isById: true };
  if (filter.externalId !== undefined) {
    const source = { index: 'conversations_by_external_id', entry: 'external_id = :externalId' };
    yield { sources: [source], isById: false, isOne: true };
  }
  if (filter.visitorId !== undefined) yield { sources: [ofVisitor], isById: true };
  if (filter.visitorEmail !== undefined) yield { sources: [ofVisitorEmail], isById: true };
  for (const tag of filter.tags ?? []) yield { sources: [ofTag], isById: true, tag };
  if (filter.assigneeId !== undefined) {
    const sources = byStatus(filter, 'conversations_by_assignee', 'assignee_id = :assigneeId');
    yield { sources, isById: true };
  }
  if (filter.unassigned === true) yield { sources: unassigned(filter), isById: true };
  if (filter.updatedAfter !== undefined) {
    // The last change is mostly a message, and there is an index by messages already.
    const byMessage = 'last_activity_at > :updatedAfter';
    const otherwise =
      'updated_at > last_activity_at AND updated_at > :updatedAfter AND last_activity_at <= :updatedAfter';
    const sources = [
      ...byStatus(filter, byActivity, byMessage),
      { index: 'conversations_by_update', entry: otherwise },
    ];
    yield { sources, isById: false };
  }
  if ((filter.createdAfter ?? filter.createdBefore) !== undefined) {
    yield { sources: [{ index: 'conversations_by_id' }], isById: true };
  }
}

/**
 * Whether a conversation has the tags of `valuesOfTags`. They are looked for in the JSON of all its tags, each with the
 * comma before it, since no tag contains one. The first is looked for alone: a list takes several times as long.
 */
export const hasTags = `(instr(',' || substr(conversations.tags, 2), :firstTag)
  AND NOT EXISTS (SELECT 1 FROM json_each(:otherTags) AS other
    WHERE NOT instr(',' || substr(conversations.tags, 2), other.value)))`;

/** All filters of rows, in one text for any combination of them: each text is a statement that is kept. */
const testsOfRows = `(:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
  AND (:externalId IS NULL OR external_id = :externalId)
  AND (:visitorId IS NULL OR visitor_id = :visitorId) AND (:visitorEmail IS NULL OR visitor_email = :visitorEmail)
  AND (:assigneeId IS NULL OR assignee_id = :assigneeId) AND (:unassigned IS NULL OR (assignee IS NULL) = :unassigned)
  AND (:updatedAfter IS NULL OR updated_at > :updatedAfter)
  AND (:firstTag IS NULL OR ${hasTags})
  AND (:unreadBy IS NULL OR EXISTS (SELECT 1 FROM unread_conversations AS unread
    WHERE unread.account_id = :accountId AND unread.reader = :unreadBy AND unread.conversation_id = conversations.id))`;

/** Conversations as they are found by what is unread, with what lists are sorted and filtered by. */
const unreadRows = (index: string): string => `(SELECT unread.account_id, unread.reader, unread.conversation_id AS id,
    unread.last_activity_at, own.key, own.status, own.external_id, own.visitor_id, own.visitor_email, own.assignee,
    own.assignee_id, own.tags, own.updated_at
  FROM unread_conversations AS unread INDEXED BY ${index} CROSS JOIN conversations AS own
    ON own.account_id = unread.account_id AND own.id = unread.conversation_id) AS conversations`;

/** How many rows are tested in one step: fewer for many tags, each of which is looked for in all tags of a row. */
export function testedPerStep({ tags = [] }: Pick<ConversationFilter, 'tags'>): number {
  return Math.floor(rowsPerStep / Math.max(1, tags.length / 4));
}

/** Tags as they are written in the JSON of a conversation's tags. */
export function valuesOfTags(tags: readonly string[] = []) {
  const [firstTag = null, ...others] = tags.map((tag) => `,${JSON.stringify(tag)}`);
  return { firstTag, otherTags: jsonList(others) };
}

function valuesOf(filter: ConversationFilter) {
  const [status0, status1, status2] = statusesOf(filter);
  return {
    statuses: filter.statuses === undefined ? null : jsonList(filter.statuses),
    status0: status0 ?? null,
    status1: status1 ?? null,
    status2: status2 ?? null,
    externalId: filter.externalId ?? null,
    visitorId: filter.visitorId ?? null,
    visitorEmail: filter.visitorEmail ?? null,
    assigneeId: filter.assigneeId ?? null,
    unassigned: filter.unassigned === undefined ? null : Number(filter.unassigned),
    updatedAfter: filter.updatedAfter ?? null,
    ...valuesOfTags(filter.tags),
    unreadBy: filter.unreadBy ?? null,
  };
}

type Place = NonNullable<ConversationQuery['after']>;

/** What is between two places of a list, the first of them excluded. */
interface Stretch extends Pick<ConversationQuery, 'filter' | 'sort' | 'after'> {
  readonly until?: Place | undefined;
  /** The tag that a part is entered by. */
  readonly tag?: string | undefined;
}

const orderOf = ({ sort }: Stretch): Order => (sort.endsWith('lastActivityAt') ? 'activity' : 'id');
const isDescending = ({ sort }: Stretch): boolean => sort.startsWith('-');

/** Right after an id, and before any other. */
const afterId = (id: string): string => `${id}!`;

const lowestPlace: Place = { id: '', lastActivityAtMs: -1 };
const highestPlace: Place = { id: aboveAllIds, lastActivityAtMs: Number.MAX_SAFE_INTEGER };

/** The bounds of a stretch: from one place, included, to another, excluded. Times of creation are bounds on ids. */
function boundsOf(stretch: Stretch) {
  const { filter, after, until } = stretch;
  // No real id is the lowest of its time: its random bits contain a version, which is never zero.
  const createdFrom = filter.createdAfter === undefined ? '' : lowestIdAt('conversation', filter.createdAfter + 1);
  const createdTo = filter.createdBefore === undefined ? aboveAllIds : lowestIdAt('conversation', filter.createdBefore);
  const behind = (place: Place | undefined) => place && { ...place, id: afterId(place.id) };
  const [first, end] = isDescending(stretch) ? [until, after] : [behind(after), behind(until)];
  const { id: fromId, lastActivityAtMs: fromMs } = first ?? lowestPlace;
  const { id: toId, lastActivityAtMs: toMs } = end ?? highestPlace;
  if (orderOf(stretch) === 'activity') return { fromMs, fromId, toMs, toId, createdFrom, createdTo };
  return {
    // One bound at each side: SQLite seeks in an index by one condition, and tests any other row by row.
    fromId: fromId > createdFrom ? fromId : createdFrom,
    toId: toId < createdTo ? toId : createdTo,
    createdFrom,
    createdTo,
  };
}

const between: Readonly<Record<Order, string>> = {
  id: 'id >= :fromId AND id < :toId',
  activity: '(last_activity_at, id) >= (:fromMs, :fromId) AND (last_activity_at, id) < (:toMs, :toId)',
};

interface Few {
  readonly parts: readonly string[];
  readonly tag: string | undefined;
}

interface Window {
  readonly limit: number;
  readonly offset: number;
}

/** @param columns what to select of a conversation; names the id and the time of the last activity as a row has them */
export function conversationLists<Row extends { readonly id: string }>(db: Statements, columns: string) {
  const parametersOf = (accountId: string, stretch: Stretch) => ({
    ...valuesOf(stretch.filter),
    ...boundsOf(stretch),
    tag: stretch.tag ?? null,
    accountId,
  });

  /** FROM and WHERE of each source. */
  function partsOf(sources: readonly Source[], conditions: readonly string[]): string[] {
    return sources.map(({ index, entry, isUnread }) => {
      const rows = isUnread ? unreadRows(index) : `conversations INDEXED BY ${index}`;
      const all = ['account_id = :accountId', ...(entry === undefined ? [] : [entry]), ...conditions];
      return `FROM ${rows} WHERE ${all.join(' AND ')}`;
    });
  }

  function orderedBy(stretch: Stretch): string {
    const direction = isDescending(stretch) ? 'DESC' : 'ASC';
    return orderOf(stretch) === 'activity'
      ? `ORDER BY lastActivityAt ${direction}, id ${direction}`
      : `ORDER BY id ${direction}`;
  }

  function selection(selected: string, parts: readonly string[], stretch: Stretch): string {
    return `${parts.map((part) => `SELECT ${selected} ${part}`).join(' UNION ALL ')}
      ${orderedBy(stretch)} LIMIT :limit OFFSET :offset`;
  }

  function count(parts: readonly string[], stretch: Stretch, accountId: string): number {
    const statement = db.prepareOnce<{ count: number }>(
      `SELECT ${parts.map((part) => `(SELECT count(*) ${part})`).join(' + ')} AS count`,
    );
    return statement.get(parametersOf(accountId, stretch))?.count ?? 0;
  }

  /** What a plan has in a stretch. */
  function found({ order, sources, testsRows, testsCreation }: Plan): string[] {
    return partsOf(sources, [
      between[order],
      ...(testsCreation ? [createdWithin] : []),
      ...(testsRows ? [testsOfRows] : []),
    ]);
  }

  /** The rows of a page, and one more if there is one. */
  const pageOf = (accountId: string, parts: readonly string[], stretch: Stretch, { limit, offset }: Window): Row[] =>
    db
      .prepareOnce<Row>(selection(columns, parts, stretch))
      .all({ ...parametersOf(accountId, stretch), limit: limit + 1, offset });

  /** The same by their places, so that only those of the page are read: where all that there is has to be sorted. */
  function pageByPlaces(accountId: string, parts: readonly string[], stretch: Stretch, window: Window): Row[] {
    const places = selection('key AS place, last_activity_at AS lastActivityAt, id', parts, stretch);
    const statement = db.prepareOnce<Row>(
      `SELECT ${columns} FROM (${places}) AS some CROSS JOIN conversations ON conversations.key = some.place
        ${orderedBy(stretch)}`,
    );
    const { limit, offset } = window;
    return statement.all({ ...parametersOf(accountId, stretch), limit: limit + 1, offset });
  }

  /** The rows of a page as a plan has them. */
  function rowsOf(accountId: string, plan: Plan, stretch: Stretch, window: Window): Row[] {
    const read = plan.sources.some(({ isUnread }) => isUnread) ? pageByPlaces : pageOf;
    return read(accountId, found(plan), stretch, window);
  }

  /** The place that lies so many entries of the indexes further on; undefined if there are fewer. */
  function placeAfter(accountId: string, plan: Plan, stretch: Stretch, entries: number): Place | undefined {
    const place = 'id, last_activity_at AS lastActivityAt';
    const entry = db
      .prepareOnce<{ id: string; lastActivityAt: number }>(
        selection(place, partsOf(plan.sources, [between[plan.order]]), stretch),
      )
      .get({ ...parametersOf(accountId, stretch), limit: 1, offset: entries - 1 });
    return entry && { id: entry.id, lastActivityAtMs: entry.lastActivityAt };
  }

  /** The conversations that the filter leaves, if they are among few. */
  function fewOf(accountId: string, stretch: Stretch): Few | undefined {
    const plan = planOf(stretch.filter, 'id');
    for (const { sources, isById, tag, isOne = false } of narrowed(stretch.filter)) {
      // Where the index decides all filters, only its order is another one.
      const isExact = !plan.testsRows && plan.sources[0]?.index === sources[0]?.index;
      const tests = isExact ? [] : [testsOfRows];
      const few = { parts: partsOf(sources, [createdWithin, between[orderOf(stretch)], ...tests]), tag };
      if (isOne) return few;
      const parts = tag === undefined ? partsOf(sources, isById ? [createdWithin] : []) : [withTag];
      const statement = db.prepareOnce<{ count: number }>(
        `SELECT count(*) AS count FROM (${parts.map((part) => `SELECT 1 ${part}`).join(' UNION ALL ')} LIMIT :limit) AS some`,
      );
      const limit = testedPerStep(stretch.filter) + 1;
      const { count: among = 0 } = statement.get({ ...parametersOf(accountId, { ...stretch, tag }), limit }) ?? {};
      if (among < limit) return few;
    }
    return undefined;
  }

  /** Counts the first conversations that have a tag, after one of them, and finds the last. */
  function countOfTag(accountId: string, stretch: Stretch, limit: number, after: string | undefined) {
    const statement = db.prepareOnce<{ count: number; lastId: string | null }>(
      `SELECT count(*) AS count, max(conversation_id) AS lastId FROM
        (SELECT conversation_id ${withTag} ORDER BY conversation_id LIMIT :limit) AS some`,
    );
    const { createdFrom, ...values } = parametersOf(accountId, stretch);
    const from = after === undefined ? createdFrom : afterId(after);
    return statement.get({ ...values, createdFrom: from, limit }) ?? { count: 0, lastId: null };
  }

  async function afterSkipping(accountId: string, plan: Plan, query: ConversationQuery): Promise<Row[]> {
    const { after, offset } = await skipInSteps(accountId, query.after, query.offset, (from, entries) =>
      placeAfter(accountId, plan, { ...query, after: from }, entries),
    );
    return rowsOf(accountId, plan, { ...query, after }, { limit: query.limit, offset });
  }

  function walkOf(accountId: string, plan: Plan, list: Pick<ConversationQuery, 'filter' | 'sort'>): Walk<Place, Row> {
    const { filter, sort } = list;
    return {
      perStep: plan.testsRows ? testedPerStep(filter) : entriesPerStep,
      placeAfter: (after, entries) => placeAfter(accountId, plan, { filter, sort, after }, entries),
      rows: (stretch, window) => rowsOf(accountId, plan, { filter, sort, ...stretch }, window),
      count: (stretch) => count(found(plan), { filter, sort, ...stretch }, accountId),
    };
  }

  return {
    /** The rows of a page, and more if there are more. */
    page: (accountId: string, query: ConversationQuery): Row[] | Promise<Row[]> => {
      const plan = planOf(query.filter, orderOf(query));
      if (!plan.testsRows && !plan.testsCreation) {
        return query.offset > maxEntriesAtOnce
          ? afterSkipping(accountId, plan, query)
          : rowsOf(accountId, plan, query, query);
      }
      const few = fewOf(accountId, query);
      return few === undefined
        ? pageOfWalk(accountId, query, walkOf(accountId, plan, query))
        : pageByPlaces(accountId, few.parts, { ...query, tag: few.tag }, query);
    },
    count: (accountId: string, filter: ConversationFilter): number | Promise<number> => {
      const list = { filter, sort: 'createdAt' } as const;
      const few = fewOf(accountId, list);
      if (few !== undefined) return count(few.parts, { ...list, tag: few.tag }, accountId);
      return isOneTag(filter)
        ? countInSteps(accountId, (limit, after) =>
            countOfTag(accountId, { ...list, tag: filter.tags?.[0] }, limit, after),
          )
        : countOfWalk(accountId, walkOf(accountId, planOf(filter, 'id'), list));
    },
  };
}
