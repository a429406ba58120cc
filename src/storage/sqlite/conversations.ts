import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { ConversationFilter } from '../../domain/conversations.ts';
import { statuses } from '../../domain/lifecycle.ts';
import { conversationText } from '../../domain/search-words.ts';
import type {
  ConversationReads,
  ConversationWrites,
  NewestMessages,
  OpenedConversation,
} from '../../domain/storage-port.ts';
import { emptySlice, sliceOf } from '../lists.ts';
import {
  type ConversationRow,
  changingByMessage,
  changingOtherwise,
  conversationColumns,
  toConversation,
  toConversationRow,
} from '../rows/conversations.ts';
import { toReadPositions } from '../rows/read-positions.ts';
import { alignToIds, foldedEmail, ifFound } from '../rows/values.ts';
import { assignments, insertInto } from '../sql.ts';
import { conversationLists } from './conversation-lists.ts';
import { type ErasureHooks, erasureReads, erasureWrites } from './erasure.ts';
import { messagesAfter } from './messages.ts';
import { maxEntriesAtOnce } from './paging.ts';
import { readPositionsOfKey, unreadUpkeep } from './read-positions.ts';
import { indexUpkeep, type TextWrites } from './search-index.ts';
import { columnsOf, jsonList, type Statements } from './statements.ts';
import type { conversations } from './tables.ts';

/** A column that is written with the others and not read: lists are filtered by what is made of it. */
const folded = 'foldedVisitorEmail' satisfies keyof typeof conversations.$inferSelect;

function toRow(conversation: StoredConversation) {
  return { ...toConversationRow(conversation), [folded]: foldedEmail(conversation.visitor?.email ?? null) };
}

export function conversationReads(db: Statements): ConversationReads {
  const selected = columnsOf('conversations', conversationColumns);
  const find = db.prepare<ConversationRow & { key: number }>(
    `SELECT ${selected}, conversations.key AS key FROM conversations WHERE account_id = :accountId AND id = :id`,
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
  /** The total of a list that has no filter but statuses. */
  const keptTotal = (accountId: string, filter: ConversationFilter): number | undefined => {
    const { statuses: some = statuses, ...others } = filter;
    if (Object.values(others).some((value) => value !== undefined)) return undefined;
    const byStatus = totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0 };
    return [...new Set(some)].reduce((sum, status) => sum + byStatus[status], 0);
  };
  const lists = conversationLists<ConversationRow>(db, selected);
  const findOne = (accountId: string, id: string): StoredConversation | undefined =>
    ifFound(find.get({ accountId, id }), toConversation);
  const readPositions = readPositionsOfKey(db);
  const messages = messagesAfter(db);
  // By the key, all that belongs to it is found without looking for it again.
  const open = db.connection.transaction(
    (accountId: string, id: string, { count, maxCount, maxBytes }: NewestMessages): OpenedConversation | undefined => {
      const found = find.get({ accountId, id });
      if (found === undefined) return undefined;
      const { key, messageCount, contentBytes } = found;
      const isSmall = Math.min(messageCount, count) <= maxCount && contentBytes <= maxBytes;
      return {
        conversation: toConversation(found),
        readPositions: toReadPositions(readPositions.all({ conversationKey: key })),
        ...(isSmall && { messages: messages({ key, id }, messageCount - count) }),
      };
    },
  );
  return {
    ...erasureReads(db),
    find: findOne,
    open,
    findMany: (accountId, ids) => {
      const [id] = ids;
      if (id !== undefined && ids.length === 1) return [findOne(accountId, id)]; // faster, and what is asked for most
      return alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toConversation));
    },
    idByExternalId: (accountId, externalId) => idByExternalId.get({ accountId, externalId })?.id,
    page: (accountId, query) => {
      const sliced = (rows: readonly ConversationRow[]) => sliceOf(rows, query.limit, toConversation);
      const isFar = query.offset > maxEntriesAtOnce;
      if (isFar && query.offset >= (keptTotal(accountId, query.filter) ?? Infinity)) return emptySlice;
      const rows = lists.page(accountId, query);
      return rows instanceof Promise ? rows.then(sliced) : sliced(rows);
    },
    count: (accountId, filter) => keptTotal(accountId, filter) ?? lists.count(accountId, filter),
  };
}

export function conversationWrites(db: Statements, texts: TextWrites, hooks: ErasureHooks): ConversationWrites {
  const index = indexUpkeep(db);
  const unread = unreadUpkeep(db);
  const insert = db.prepare(insertInto('conversations', ['accountId', ...conversationColumns, folded]));
  const isPrevious = 'account_id = :accountId AND id = :id AND version = :previousVersion';
  const update = db.prepare(
    `UPDATE conversations SET ${assignments([...changingOtherwise, ...changingByMessage, folded])} WHERE ${isPrevious}`,
  );
  const updateByMessage = db.prepare(`UPDATE conversations SET ${assignments(changingByMessage)} WHERE ${isPrevious}`);
  const addTag = db.prepare(insertInto('conversation_tags', ['accountId', 'tag', 'conversationId']));
  const removeTag = db.prepare(
    `DELETE FROM conversation_tags
      WHERE account_id = :accountId AND tag = :tag AND conversation_id = :conversationId`,
  );
  const changeTags = (accountId: string, conversationId: string, from: readonly string[], to: readonly string[]) => {
    for (const tag of from) if (!to.includes(tag)) removeTag.run({ accountId, tag, conversationId });
    for (const tag of to) if (!from.includes(tag)) addTag.run({ accountId, tag, conversationId });
  };
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
      changeTags(accountId, row.id, [], conversation.tags);
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
      if (next.tags !== previous.tags) changeTags(accountId, next.id, previous.tags, next.tags);
      if (next.messageCount > previous.messageCount) unread.grew(accountId, next);
      if (next.status !== previous.status) count.run({ ...none, accountId, [previous.status]: -1, [next.status]: 1 });
    },
    markConverted: (accountId, id) => markConverted.run({ accountId, id }) === 1,
  };
}
