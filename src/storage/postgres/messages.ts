import type { Message } from '../../domain/message-record.ts';
import type { MessageReads, MessageWrites } from '../../domain/storage-port.ts';
import { type MessageRow, messageColumns, toMessage, toMessageRow } from '../rows/messages.ts';
import { alignToIds, fromJson, toMs } from '../rows/values.ts';
import { readRanges } from './ranges.ts';
import type { TextWrites } from './search-index.ts';
import { arrayOf, columnsOf, insertRows, jsonRows, type Statements } from './statements.ts';
import type { conversations } from './tables.ts';

type OwnRow = MessageRow & Pick<Message, 'conversationId'>;

const toOwnMessage = (row: OwnRow): Message => toMessage(row, row.conversationId);

/** The newest messages of a conversation, to be read along with it where it is small: see `ConversationReads.open`. */
export const newestMessages = `CASE
  WHEN least(message_count, :count::integer) <= :maxCount::integer AND content_bytes <= :maxBytes::bigint
  THEN ${jsonRows('messages', messageColumns, {
    where: `messages.account_id = :accountId AND messages.conversation_id = conversations.id
      AND messages.sequence > conversations.message_count - :count::integer`,
    order: 'messages.sequence',
    json: ['author', 'metadata'],
  })} END`;

type PageRow = Pick<typeof conversations.$inferSelect, 'visitor' | 'messageCount'> &
  (OwnRow | { readonly [Name in keyof OwnRow]: null });

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
  // As `sequencesOf` says. The conversation has a row also where there are no messages on the page. The limit makes PostgreSQL
  // enter the index by what it knows of the conversation then: else it would read all its messages.
  const end = 'least(:before::bigint - 1, message_count)';
  const pageOf = (from: string, to: string) =>
    db.prepare<PageRow>(
      `${select}, visitor, message_count FROM conversations LEFT JOIN LATERAL
          (SELECT * FROM messages WHERE ${ofConversation} AND sequence BETWEEN ${from} AND ${to}
            ORDER BY sequence LIMIT :limit) AS messages ON true
        WHERE conversations.account_id = :accountId AND conversations.id = :conversationId ORDER BY messages.sequence`,
    );
  const fromBegin = ':after::bigint + 1 + :offset::bigint';
  const page = pageOf(fromBegin, `least(${end}, ${fromBegin} + :limit - 1)`);
  const pageFromEnd = pageOf(
    `greatest(:after::bigint + 1, ${end} - :offset::bigint - :limit + 1)`,
    `${end} - :offset::bigint`,
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
    page: async (
      accountId,
      conversationId,
      { after = 0, before = Number.MAX_SAFE_INTEGER, isFromEnd, limit, offset },
    ) => {
      const statement = isFromEnd ? pageFromEnd : page;
      const rows = await statement.all({ accountId, conversationId, after, before, limit, offset });
      const [first] = rows;
      if (first === undefined) return undefined;
      const { visitor, messageCount } = first;
      const messages = rows.flatMap((row) => (row.id === null ? [] : toOwnMessage(row)));
      return { conversation: { id: conversationId, visitor: fromJson(visitor), messageCount }, messages };
    },
  };
}

export function messageWrites(db: Statements, texts: TextWrites): MessageWrites {
  // Null, which is refused, where there is no such conversation.
  const insert = db.prepareForRows(
    insertRows('messages', ['accountId', ...messageColumns], {
      conversationId:
        '(SELECT id FROM conversations WHERE account_id = given.account_id AND id = given.conversation_id)',
    }),
    {
      texts: ['accountId', 'conversationId', 'id', 'sender', 'content', 'clientId'],
      numbers: ['sequence', 'createdAt'],
      json: ['author', 'metadata'],
    },
  );
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
