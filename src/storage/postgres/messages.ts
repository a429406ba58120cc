import type { Message } from '../../domain/message-record.ts';
import type { MessageReads, MessageWrites } from '../../domain/storage-port.ts';
import { alignToIds, fromJson, toJson, toMs, toTimestamp } from '../rows.ts';
import { insertInto } from '../sql.ts';
import { readRanges } from './ranges.ts';
import { textWrites } from './search-index.ts';
import { arrayOf, columnsOf, type Statements } from './statements.ts';
import type { messages } from './tables.ts';

const columns = [
  'sequence',
  'id',
  'conversationId',
  'sender',
  'content',
  'author',
  'clientId',
  'metadata',
  'createdAt',
] as const satisfies readonly (keyof typeof messages.$inferSelect)[];

type Row = Pick<typeof messages.$inferSelect, (typeof columns)[number]>;

function toMessage(row: Row): Message {
  return {
    id: row.id,
    conversationId: row.conversationId,
    sequence: row.sequence,
    sender: row.sender,
    content: row.content,
    author: fromJson(row.author),
    clientId: row.clientId,
    metadata: fromJson(row.metadata),
    createdAt: toTimestamp(row.createdAt),
  };
}

// A conversation that is being erased has no row any more: so its messages are not found, either.
export function messageReads(db: Statements): MessageReads {
  const select = `SELECT ${columnsOf('messages', columns)}`;
  const ofConversation = `conversations.account_id = messages.account_id AND conversations.id = messages.conversation_id`;
  const findMany = db.prepare<Row>(
    `${select} FROM messages JOIN conversations ON ${ofConversation}
      WHERE messages.account_id = :accountId AND messages.id = ANY(:ids::text[])`,
  );
  // One statement for any number of ranges.
  const ranges = db.prepare<Row & { range: number }>(
    `${select}, range.at - 1 AS range
      FROM unnest(:conversationIds::text[], :froms::integer[], :tos::integer[])
        WITH ORDINALITY AS range (conversation_id, first, last, at)
      JOIN conversations ON conversations.account_id = :accountId AND conversations.id = range.conversation_id
      JOIN messages ON ${ofConversation} AND messages.sequence BETWEEN range.first AND range.last
      ORDER BY range.at, messages.sequence`,
  );
  return {
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toMessage)),
    ranges: (accountId, asked, onRead) =>
      readRanges(asked, {
        rows: (left) =>
          ranges.all({
            accountId,
            conversationIds: arrayOf(left.map(({ conversationId }) => conversationId)),
            froms: arrayOf(left.map(({ from }) => from)),
            tos: arrayOf(left.map(({ to }) => to)),
          }),
        textsOf: ({ content, metadata }) => [content, metadata],
        toItem: toMessage,
        onRead,
      }),
  };
}

export function messageWrites(db: Statements): MessageWrites {
  const texts = textWrites(db);
  const others = columns.filter((name) => name !== 'conversationId');
  // Null, which is refused, where there is no such conversation.
  const conversationId = '(SELECT id FROM conversations WHERE account_id = :accountId AND id = :conversationId)';
  const insert = db.prepare(insertInto('messages', ['accountId', ...others], { conversationId }));
  return {
    insert: async (accountId, message) => {
      await insert.send({
        ...message,
        accountId,
        author: toJson(message.author),
        metadata: toJson(message.metadata),
        createdAt: toMs(message.createdAt),
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
