import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { Status } from '../../domain/lifecycle.ts';
import { type Author, type LastMessage, previewLength, type Sender } from '../../domain/message-record.ts';
import { conversationText } from '../../domain/search.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { type ErasureHooks, erasureReads, erasureWrites } from './erasure.ts';
import { countInSteps, entriesPerStep, maxEntriesAtOnce, nextStep, skipInSteps, sliceOf } from './paging.ts';
import { alignToIds, fromJson, type Json, toJson, toMs, toTimestamp } from './rows.ts';
import { indexUpkeep, textWrites } from './search-index.ts';
import { assignments, columnsOf, insertInto, jsonList, type Statements } from './statements.ts';
import type { conversations } from './tables.ts';

type Name = keyof typeof conversations.$inferSelect;

/** The columns that change with every message. Of the indexes, two contain any of them. */
const changingByMessage = [
  'messageCount',
  'contentBytes',
  'lastActivityAt',
  'firstVisitorMessageAt',
  'firstResponseAt',
  'version',
  'updatedAt',
] as const satisfies readonly Name[];

/** The others that can change after creation. */
const changingOtherwise = [
  'status',
  'subject',
  'visitor',
  'externalId',
  'assignee',
  'tags',
  'metadata',
  'reopenedAt',
  'closedAt',
] as const satisfies readonly Name[];

/** The columns without those that only the storage knows. */
const columns = ['id', 'createdAt', ...changingOtherwise, ...changingByMessage] as const satisfies readonly Name[];

type Columns = Pick<typeof conversations.$inferSelect, (typeof columns)[number]>;

interface ConversationRow extends Columns {
  readonly lastMessage: Json<StoredLastMessage> | null;
}

type StoredLastMessage = [
  id: string,
  sequence: number,
  sender: Sender,
  author: Author | null,
  createdAt: number,
  preview: string,
];

/**
 * Selected with every conversation. No column of it: the message is stored already, and found by one step into its
 * table. An array takes a third of the time of an object to make and to read.
 */
const lastMessage = `(SELECT json_array(id, sequence, sender, json(author), created_at, substr(content, 1, ${previewLength}))
  FROM messages WHERE conversation_key = conversations.key AND sequence = conversations.message_count)`;

function toLastMessage(json: ConversationRow['lastMessage']): LastMessage | null {
  if (json === null) return null;
  const [id, sequence, sender, author, createdAt, preview] = fromJson(json);
  return { id, sequence, sender, author, createdAt: toTimestamp(createdAt), preview };
}

function toConversation(row: ConversationRow): StoredConversation {
  return {
    ...row,
    visitor: fromJson(row.visitor),
    assignee: fromJson(row.assignee),
    tags: fromJson(row.tags),
    lastMessage: toLastMessage(row.lastMessage),
    metadata: fromJson(row.metadata),
    lastActivityAt: toTimestamp(row.lastActivityAt),
    firstVisitorMessageAt: toTimestamp(row.firstVisitorMessageAt),
    firstResponseAt: toTimestamp(row.firstResponseAt),
    reopenedAt: toTimestamp(row.reopenedAt),
    closedAt: toTimestamp(row.closedAt),
    createdAt: toTimestamp(row.createdAt),
    updatedAt: toTimestamp(row.updatedAt),
  };
}

function toRow(conversation: StoredConversation): Columns {
  return {
    ...conversation,
    visitor: toJson(conversation.visitor),
    assignee: toJson(conversation.assignee),
    tags: toJson(conversation.tags),
    metadata: toJson(conversation.metadata),
    lastActivityAt: toMs(conversation.lastActivityAt),
    firstVisitorMessageAt: toMs(conversation.firstVisitorMessageAt),
    firstResponseAt: toMs(conversation.firstResponseAt),
    reopenedAt: toMs(conversation.reopenedAt),
    closedAt: toMs(conversation.closedAt),
    createdAt: toMs(conversation.createdAt),
    updatedAt: toMs(conversation.updatedAt),
  };
}

export function conversationReads(db: Statements): ConversationReads {
  const selected = `${columnsOf('conversations', columns)}, ${lastMessage} AS lastMessage`;
  const find = db.prepare<ConversationRow>(
    `SELECT ${selected} FROM conversations WHERE account_id = :accountId AND id = :id`,
  );
  const findMany = db.prepare<ConversationRow>(
    `SELECT ${selected} FROM conversations
      WHERE account_id = :accountId AND id IN (SELECT value FROM json_each(:ids))`,
  );
  const idByExternalId = db.prepare<Pick<ConversationRow, 'id'>>(
    'SELECT id FROM conversations WHERE account_id = :accountId AND external_id = :externalId',
  );
  const totals = db.prepare<Record<StoredConversation['status'], number>>(
    'SELECT active, pending, closed FROM account_totals WHERE account_id = :accountId',
  );
  const lists = conversationLists(db, selected);
  return {
    ...erasureReads(db),
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toConversation(row);
    },
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toConversation)),
    idByExternalId: (accountId, externalId) => idByExternalId.get({ accountId, externalId })?.id,
    page: (accountId, query) => {
      const sliced = (rows: readonly ConversationRow[]) => sliceOf(rows, query.limit, toConversation);
      const rows = lists.page(accountId, query);
      return rows instanceof Promise ? rows.then(sliced) : sliced(rows);
    },
    count: (accountId, { status, ...others }) => {
      if (Object.values(others).some((value) => value !== undefined)) {
        return lists.count(accountId, { status, ...others });
      }
      const { active, pending, closed } = totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0 };
      return status === undefined ? active + pending + closed : { active, pending, closed }[status];
    },
  };
}

export interface ConversationHooks extends ErasureHooks {
  /** Called for each text that waits for being indexed. */
  readonly onWaiting: () => void;
}

export function conversationWrites(db: Statements, hooks: ConversationHooks): ConversationWrites {
  const texts = textWrites(db, hooks.onWaiting);
  const index = indexUpkeep(db);
  const insert = db.prepare(insertInto('conversations', ['accountId', ...columns]));
  const isPrevious = 'account_id = :accountId AND id = :id AND version = :previousVersion';
  const update = db.prepare(
    `UPDATE conversations SET ${assignments([...changingOtherwise, ...changingByMessage])} WHERE ${isPrevious}`,
  );
  const updateByMessage = db.prepare(`UPDATE conversations SET ${assignments(changingByMessage)} WHERE ${isPrevious}`);
  const markConverted = db.prepare(
    'UPDATE conversations SET converted = 1 WHERE account_id = :accountId AND id = :id AND converted = 0',
  );
  const count = db.prepare(
    `UPDATE account_totals SET active = active + :active, pending = pending + :pending, closed = closed + :closed
      WHERE account_id = :accountId`,
  );
  const none = { active: 0, pending: 0, closed: 0 };
  return {
    ...erasureWrites(db, hooks),
    insert: (accountId, conversation) => {
      const row = toRow(conversation);
      insert.run({ ...row, accountId });
      texts.add(accountId, { conversationId: row.id, sequence: 0, createdAt: row.createdAt });
      count.run({ ...none, accountId, [conversation.status]: 1 });
    },
    update: (accountId, previous, next) => {
      if (next.version <= previous.version) throw new Error(`A change of ${next.id} has no new version`);
      const isByMessage = changingOtherwise.every((name) => previous[name] === next[name]);
      const values = { ...toRow(next), accountId, previousVersion: previous.version };
      const changed = isByMessage ? updateByMessage.run(values) : update.run(values);
      if (!isByMessage) index.change(accountId, next.id, conversationText(previous), conversationText(next));
      // SQLite has one writer at a time, so this cannot happen within a transaction.
      if (changed !== 1) throw new Error(`Lost an update of ${next.id}`);
      if (next.status !== previous.status) count.run({ ...none, accountId, [previous.status]: -1, [next.status]: 1 });
    },
    markConverted: (accountId, id) => markConverted.run({ accountId, id }) === 1,
  };
}

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
function conversationLists(db: Statements, columns: string) {
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
    await scheduler.step(accountId);
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
