import type { Message } from '../../domain/message-record.ts';
import type { MessageReads, MessageWrites } from '../../domain/storage-port.ts';
import { type MessageRow, messageColumns, toMessage, toMessageRow } from '../rows/messages.ts';
import { alignToIds, toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { readRanges } from './ranges.ts';
import { textWrites } from './search-index.ts';
import { arrayOf, columnsOf, type Statements } from './statements.ts';

type OwnRow = MessageRow & Pick<Message, 'conversationId'>;

const toOwnMessage = (row: OwnRow): Message => toMessage(row, row.conversationId);

// A conversation that is being erased has no row any more: so its messages are not found, either.
export function messageReads(db: Statements): MessageReads {
  const select = `SELECT ${columnsOf('messages', [...messageColumns, 'conversationId'])}`;
  const ofConversation = `conversations.account_id = messages.account_id AND conversations.id = messages.conversation_id`;
  const findMany = db.prepare<OwnRow>(
    `${select} FROM messages JOIN conversations ON ${ofConversation}
      WHERE messages.account_id = :accountId AND messages.id = ANY(:ids::text[])`,
  );
  // One statement for any number of ranges.
  const ranges = db.prepare<OwnRow & { range: number }>(
    `${select}, range.at - 1 AS range
      FROM unnest(:conversationIds::text[], :froms::integer[], :tos::integer[])
        WITH ORDINALITY AS range (conversation_id, first, last, at)
      JOIN conversations ON conversations.account_id = :accountId AND conversations.id = range.conversation_id
      JOIN messages ON ${ofConversation} AND messages.sequence BETWEEN range.first AND range.last
      ORDER BY range.at, messages.sequence`,
  );
  return {
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toOwnMessage)),
    ranges: (accountId, asked, onRead) =>
      readRanges(accountId, asked, {
        rows: (left) =>
          ranges.all({
            accountId,
            conversationIds: arrayOf(left.map(({ conversationId }) => conversationId)),
            froms: arrayOf(left.map(({ from }) => from)),
            tos: arrayOf(left.map(({ to }) => to)),
          }),
        textsOf: ({ content, metadata }) => [content, metadata],
        toItem: toOwnMessage,
        onRead,
      }),
  };
}

export function messageWrites(db: Statements): MessageWrites {
  const texts = textWrites(db);
  // Null, which is refused, where there is no such conversation.
  const conversationId = '(SELECT id FROM conversations WHERE account_id = :accountId AND id = :conversationId)';
  const insert = db.prepare(insertInto('messages', ['accountId', ...messageColumns], { conversationId }));
  return {
    insert: async (accountId, message) => {
      await insert.send({
        ...toMessageRow(message),
        accountId,
      });
      await texts.add(accountId, {
        conversationId: message.conversationId,
        sequence: message.sequence,
        createdAt: toMs(message.createdAt),
        text: message.content,
      });
    },
  };
}
