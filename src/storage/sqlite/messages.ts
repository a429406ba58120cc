import { and, asc, eq, sql } from 'drizzle-orm';
import type { Message, MessageRange } from '../../domain/messages.ts';
import type { MessageReads, MessageWrites } from '../../domain/storage-port.ts';
import { bindings, inList, jsonList, type Queries } from './queries.ts';
import { alignToIds, toMs, toTimestamp } from './rows.ts';
import { conversations, messages } from './tables.ts';

type Row = typeof messages.$inferSelect;

function toMessage(row: Row, conversationId: string): Message {
  return {
    id: row.id,
    conversationId,
    sequence: row.sequence,
    sender: row.sender,
    content: row.content,
    author: row.author,
    metadata: row.metadata,
    createdAt: toTimestamp(row.createdAt),
  };
}

/** Reads all the messages of a conversation, oldest first. */
export function allMessages(db: Queries): (conversation: { key: number; id: string }) => Message[] {
  const statement = db
    .select()
    .from(messages)
    .where(eq(messages.conversationKey, sql.placeholder('key')))
    .orderBy(asc(messages.sequence))
    .prepare();
  return ({ key, id }) => statement.all({ key }).map((row) => toMessage(row, id));
}

export function messageReads(db: Queries) {
  // CROSS JOIN makes SQLite begin with the requested messages. Left to itself, it would begin with all the account's
  // conversations.
  const findMany = db
    .select()
    .from(messages)
    .crossJoin(conversations)
    .where(
      and(
        eq(conversations.key, messages.conversationKey),
        eq(conversations.accountId, sql.placeholder('accountId')),
        inList(messages.id, 'ids'),
      ),
    )
    .prepare();
  // One statement for any number of ranges. CROSS JOIN keeps them in the given order.
  const ranges = db
    .select({ index: sql<number>`range.key`, message: messages })
    .from(sql`json_each(${sql.placeholder('ranges')}) AS range`)
    .crossJoin(conversations)
    .crossJoin(messages)
    .where(
      sql`${conversations.accountId} = ${sql.placeholder('accountId')} AND ${conversations.id} = range.value ->> 0
        AND ${messages.conversationKey} = ${conversations.key}
        AND ${messages.sequence} BETWEEN range.value ->> 1 AND range.value ->> 2`,
    )
    .prepare();
  return {
    findMany: (accountId: string, ids: readonly string[]) =>
      alignToIds(
        ids,
        findMany.all({ accountId, ids: jsonList(ids) }).map((row) => toMessage(row.messages, row.conversations.id)),
      ),
    ranges: (accountId: string, asked: readonly MessageRange[]) => {
      const pages: Message[][] = asked.map(() => []);
      const list = jsonList(asked.map(({ conversationId, from, to }) => [conversationId, from, to]));
      for (const { index, message } of ranges.all({ accountId, ranges: list })) {
        pages[index]?.push(toMessage(message, asked[index]?.conversationId as string));
      }
      return pages;
    },
  } satisfies MessageReads;
}

/** The values of a message's row, without the key of its conversation. */
export function messageValues(message: Message) {
  return {
    sequence: message.sequence,
    id: message.id,
    sender: message.sender,
    content: message.content,
    author: message.author && JSON.stringify(message.author),
    metadata: JSON.stringify(message.metadata),
    createdAt: toMs(message.createdAt),
  };
}

export function messageWrites(db: Queries): MessageWrites {
  const insert = db
    .insert(messages)
    .values({
      conversationKey: sql`(SELECT ${conversations.key} FROM ${conversations}
        WHERE ${conversations.accountId} = ${sql.placeholder('accountId')} AND ${conversations.id} = ${sql.placeholder('conversationId')})`,
      sequence: sql.placeholder('sequence'),
      id: sql.placeholder('id'),
      sender: sql.placeholder('sender'),
      content: sql.placeholder('content'),
      ...bindings('author', 'metadata'),
      createdAt: sql.placeholder('createdAt'),
    })
    .prepare();
  return {
    insert: (accountId, message) => {
      insert.run({ ...messageValues(message), accountId, conversationId: message.conversationId });
    },
  };
}
