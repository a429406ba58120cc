import type { Message } from '../../domain/message-record.ts';
import { type MessageRange, sequencesOf } from '../../domain/messages.ts';
import type { MessageReads, MessageWrites } from '../../domain/storage-port.ts';
import { type MessageRow, messageColumns, toMessage, toMessageRow } from '../rows/messages.ts';
import { alignToIds, fromJson, toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { type RangeReader, readRanges } from './paging.ts';
import type { TextWrites } from './search-index.ts';
import { columnsOf, jsonList, type Statements } from './statements.ts';
import type { conversations } from './tables.ts';

/** Reads the messages of a conversation after a sequence, by its key. They must be few. */
export function messagesAfter(
  db: Statements,
): (conversation: { key: number; id: string }, sequence: number) => Message[] {
  const find = db.prepare<MessageRow>(
    `SELECT ${columnsOf('messages', messageColumns)} FROM messages
      WHERE conversation_key = :key AND sequence > :sequence ORDER BY sequence`,
  );
  return ({ key, id }, sequence) => find.all({ key, sequence }).map((row) => toMessage(row, id));
}

// CROSS JOIN makes SQLite begin with the table that is named first.
export function messageReads(db: Statements): MessageReads {
  const select = `SELECT ${columnsOf('messages', messageColumns)}`;
  // Left to itself, SQLite would begin with all the account's conversations.
  const findMany = db.prepare<MessageRow & { conversationId: string }>(
    `${select}, conversations.id AS conversationId FROM messages CROSS JOIN conversations
      WHERE conversations.key = messages.conversation_key AND conversations.account_id = :accountId
        AND messages.id IN (SELECT value FROM json_each(:ids))`,
  );
  // One statement for any number of ranges, in the order in which they were given.
  const ranges = db.prepare<MessageRow & { range: number }>(
    `${select}, range.key AS range FROM json_each(:ranges) AS range CROSS JOIN conversations CROSS JOIN messages
      WHERE conversations.account_id = :accountId AND conversations.id = range.value ->> 0
        AND messages.conversation_key = conversations.key
        AND messages.sequence BETWEEN range.value ->> 1 AND range.value ->> 2`,
  );
  const conversation = db.prepare<Pick<typeof conversations.$inferSelect, 'visitor' | 'messageCount'>>(
    `SELECT visitor, message_count AS messageCount FROM conversations
      WHERE account_id = :accountId AND id = :conversationId`,
  );
  const rangeReader = (accountId: string): RangeReader<MessageRange, MessageRow, Message> => ({
    rows(asked, areFew) {
      const list = jsonList(asked.map(({ conversationId, from, to }) => [conversationId, from, to]));
      return ranges[areFew ? 'all' : 'each']({ accountId, ranges: list });
    },
    numberOf: ({ sequence }) => sequence,
    textsOf: ({ content, metadata }) => [content, metadata],
    toItem: (row, { conversationId }) => toMessage(row, conversationId),
  });
  return {
    findMany: (accountId, ids) => {
      const rows = findMany.all({ accountId, ids: jsonList(ids) });
      return alignToIds(
        ids,
        rows.map((row) => toMessage(row, row.conversationId)),
      );
    },
    ranges: (accountId, asked, onRead) => readRanges(accountId, asked, rangeReader(accountId), onRead),
    page: async (accountId, conversationId, page) => {
      const row = conversation.get({ accountId, conversationId });
      if (row === undefined) return undefined;
      const { visitor, messageCount } = row;
      const { from, to } = sequencesOf(messageCount, page);
      const asked = from > to ? [] : [{ conversationId, from, to }];
      const [messages = []] = await readRanges(accountId, asked, rangeReader(accountId));
      return { conversation: { id: conversationId, visitor: fromJson(visitor), messageCount }, messages };
    },
  };
}

export function messageWrites(db: Statements, texts: TextWrites): MessageWrites {
  const insert = db.prepare(
    insertInto('messages', messageColumns, {
      conversationKey: '(SELECT key FROM conversations WHERE account_id = :accountId AND id = :conversationId)',
    }),
  );
  return {
    insert: (accountId, message) => {
      insert.run({
        ...toMessageRow(message),
        accountId,
      });
      texts.add(accountId, { ...message, createdAt: toMs(message.createdAt) });
    },
  };
}
