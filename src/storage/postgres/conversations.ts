import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { ConversationFilter } from '../../domain/conversations.ts';
import { statuses } from '../../domain/lifecycle.ts';
import { conversationText } from '../../domain/search-words.ts';
import type { ConversationReads, ConversationWrites } from '../../domain/storage-port.ts';
import { comparableEmail } from '../../domain/text.ts';
import { emptySlice, sliceOf } from '../lists.ts';
import {
  type ConversationRow,
  changingByMessage,
  changingOtherwise,
  conversationColumns,
  toConversation,
  toConversationRow,
} from '../rows/conversations.ts';
import { type MessageRow, toMessage } from '../rows/messages.ts';
import { type ReadPositionRow, toReadPositions } from '../rows/read-positions.ts';
import { alignToIds, fromJson, ifFound, type Json } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { conversationLists } from './conversation-lists.ts';
import { erasureReads, erasureWrites } from './erasure.ts';
import { isDivisionByZero, LostUpdate } from './errors.ts';
import { newestMessages } from './messages.ts';
import { ownReadPositions, unreadUpkeep } from './read-positions.ts';
import type { TextWrites } from './search-index.ts';
import { arrayOf, assignedRows, columnsOf, type Statements } from './statements.ts';
import type { conversations } from './tables.ts';

/** What is written with the others and not read: lists are filtered by it. */
const forFilters = [
  'visitorId',
  'visitorEmail',
  'assigneeId',
] as const satisfies readonly (keyof typeof conversations.$inferSelect)[];

export function filtersOf({
  visitor,
  assignee,
}: Pick<StoredConversation, 'visitor' | 'assignee'>): Record<(typeof forFilters)[number], string | null> {
  return {
    visitorId: visitor?.id ?? null,
    visitorEmail: visitor?.email == null ? null : comparableEmail(visitor.email),
    assigneeId: assignee?.id ?? null,
  };
}

function toRow(conversation: StoredConversation): ConversationRow & ReturnType<typeof filtersOf> {
  return { ...toConversationRow(conversation), ...filtersOf(conversation) };
}

interface ListedRow extends ConversationRow {
  readonly positions: Json<readonly ReadPositionRow[]>;
}

interface OpenedRow extends ListedRow {
  /** Null where they were not read along. */
  readonly messages: Json<readonly MessageRow[]> | null;
}

export function conversationReads(db: Statements): ConversationReads {
  const selected = columnsOf('conversations', conversationColumns);
  const find = db.prepareForKeys<ConversationRow, 'accountId' | 'id'>(
    `SELECT at, ${selected} FROM :rows JOIN conversations USING (account_id, id)`,
    { texts: ['accountId', 'id'] },
  );
  const open = db.prepare<OpenedRow>(
    `SELECT ${selected}, ${ownReadPositions} AS positions, ${newestMessages} AS messages
      FROM conversations WHERE account_id = :accountId AND id = :id`,
  );
  const findMany = db.prepare<ConversationRow>(
    `SELECT ${selected} FROM conversations WHERE account_id = :accountId AND id = ANY(:ids::text[])`,
  );
  const idByExternalId = db.prepare<Pick<ConversationRow, 'id'>>(
    'SELECT id FROM conversations WHERE account_id = :accountId AND external_id = :externalId',
  );
  const totals = db.prepare<Record<StoredConversation['status'], number>>(
    'SELECT active, pending, closed FROM account_totals WHERE account_id = :accountId',
  );
  /** The total of a list that has no filter but statuses. */
  const keptTotal = async (accountId: string, filter: ConversationFilter): Promise<number | undefined> => {
    const { statuses: some = statuses, ...others } = filter;
    if (Object.values(others).some((value) => value !== undefined)) return undefined;
    const byStatus = (await totals.get({ accountId })) ?? { active: 0, pending: 0, closed: 0 };
    return [...new Set(some)].reduce((sum, status) => sum + byStatus[status], 0);
  };
  const lists = conversationLists<ListedRow>(db, selected, `${ownReadPositions} AS positions`);
  return {
    ...erasureReads(db),
    find: async (accountId, id) => ifFound(await find.get({ accountId, id }), toConversation),
    open: async (accountId, id, { count, maxCount, maxBytes }) => {
      const row = await open.get({ accountId, id, count, maxCount, maxBytes });
      if (row === undefined) return undefined;
      const { positions, messages } = row;
      return {
        conversation: toConversation(row),
        readPositions: toReadPositions(fromJson(positions)),
        ...(messages !== null && { messages: fromJson(messages).map((message) => toMessage(message, id)) }),
      };
    },
    findMany: async (accountId, ids) => {
      if (ids.length === 0) return [];
      return alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toConversation));
    },
    idByExternalId: async (accountId, externalId) => (await idByExternalId.get({ accountId, externalId }))?.id,
    page: async (accountId, query) => {
      // What lies far ahead is skipped by walking there: not for nothing.
      const isFar = query.offset > 500;
      if (isFar && query.offset >= ((await keptTotal(accountId, query.filter)) ?? Infinity)) return emptySlice;
      const page = sliceOf(await lists.page(accountId, query), query.limit, (row) => row);
      return {
        ...page,
        items: page.items.map(toConversation),
        readPositions: page.items.map(({ positions }) => toReadPositions(fromJson(positions))),
      };
    },
    count: async (accountId, filter) => (await keptTotal(accountId, filter)) ?? (await lists.count(accountId, filter)),
  };
}

/** Of the columns that change, those of texts, and those of JSON. The others are numbers. */
const textColumns = ['status', 'subject', 'externalId', ...forFilters] as const;
const jsonColumns = ['visitor', 'assignee', 'tags', 'metadata', 'lastMessage'] as const;

type Changing = (typeof changingOtherwise | typeof changingByMessage | typeof forFilters)[number];

/** Changes columns of conversations, and fails where one has another version than the previous one. */
function updateOf<Name extends Changing>(db: Statements, names: readonly Name[]) {
  const isText = (name: Changing): boolean => textColumns.some((text) => text === name);
  const isJson = (name: Changing): boolean => jsonColumns.some((one) => one === name);
  return db.prepareForRows<'accountId' | 'id' | 'previousVersion' | Name>(
    `WITH given AS MATERIALIZED (SELECT given.* FROM :rows),
        changed AS (UPDATE conversations SET ${assignedRows(names)} FROM given
          WHERE conversations.account_id = given.account_id AND conversations.id = given.id
            AND conversations.version = given.previous_version RETURNING 1)
      SELECT 1 / ((SELECT count(*) FROM changed) = (SELECT count(*) FROM given))::integer`,
    {
      texts: ['accountId', 'id', ...names.filter(isText)],
      numbers: ['previousVersion', ...names.filter((name) => !isText(name) && !isJson(name))],
      json: names.filter(isJson),
    },
    (error) => {
      throw isDivisionByZero(error) ? new LostUpdate() : error;
    },
  );
}

/** @param onHide called when something was hidden that is being erased; the transaction may still be rolled back */
export function conversationWrites(db: Statements, texts: TextWrites, onHide: () => void): ConversationWrites {
  const unread = unreadUpkeep(db);
  const insert = db.prepare(insertInto('conversations', ['accountId', ...conversationColumns, ...forFilters]));
  const update = updateOf(db, [...changingOtherwise, ...changingByMessage, ...forFilters]);
  const updateByMessage = updateOf(db, changingByMessage);
  const addTags = db.prepare(
    `INSERT INTO conversation_tags (account_id, conversation_id, tag)
      SELECT :accountId, :conversationId, unnest(:tags::text[])`,
  );
  const removeTags = db.prepare(
    `DELETE FROM conversation_tags
      WHERE account_id = :accountId AND conversation_id = :conversationId AND tag = ANY(:tags::text[])`,
  );
  const changeTags = async (
    accountId: string,
    conversationId: string,
    from: readonly string[],
    to: readonly string[],
  ): Promise<void> => {
    const [gone, added] = [from.filter((tag) => !to.includes(tag)), to.filter((tag) => !from.includes(tag))];
    if (gone.length > 0) await removeTags.send({ accountId, conversationId, tags: arrayOf(gone) });
    if (added.length > 0) await addTags.send({ accountId, conversationId, tags: arrayOf(added) });
  };
  const markConverted = db.prepare(
    'UPDATE conversations SET converted = true WHERE account_id = :accountId AND id = :id AND NOT converted',
  );
  const count = db.prepare(
    `UPDATE account_totals SET active = active + :active, pending = pending + :pending, closed = closed + :closed
      WHERE account_id = :accountId`,
  );
  const none = { active: 0, pending: 0, closed: 0 };
  return {
    ...erasureWrites(db, onHide),
    insert: async (accountId, conversation) => {
      const row = toRow(conversation);
      await insert.send({ ...row, accountId });
      await changeTags(accountId, row.id, [], conversation.tags);
      await texts.add(accountId, {
        conversationId: row.id,
        sequence: 0,
        createdAt: row.createdAt,
        text: conversationText(conversation),
      });
      await count.send({ ...none, accountId, [conversation.status]: 1 });
    },
    update: async (accountId, previous, next) => {
      if (next.version <= previous.version) throw new Error(`A change of ${next.id} has no new version`);
      const isByMessage = changingOtherwise.every((name) => previous[name] === next[name]);
      const values = { ...toRow(next), accountId, previousVersion: previous.version };
      // Only where the account's row is not locked first can another transaction have come in between.
      await (isByMessage ? updateByMessage : update).send(values);
      const text = conversationText(next);
      if (!isByMessage && text !== conversationText(previous)) await texts.change(accountId, next.id, text);
      if (next.tags !== previous.tags) await changeTags(accountId, next.id, previous.tags, next.tags);
      if (next.messageCount > previous.messageCount) await unread.grew(accountId, next);
      if (next.status !== previous.status) {
        await count.send({ ...none, accountId, [previous.status]: -1, [next.status]: 1 });
      }
    },
    markConverted: async (accountId, id) => (await markConverted.run({ accountId, id })) === 1,
  };
}
