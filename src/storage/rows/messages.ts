import type { Message } from '../../domain/message-record.ts';
import { fromJson, toJson, toMs, toTimestamp } from './values.ts';

/** All columns but those that say of which conversation it is. */
export const messageColumns = [
  'sequence',
  'id',
  'sender',
  'content',
  'author',
  'clientId',
  'metadata',
  'createdAt',
] as const satisfies readonly (keyof Message)[];

export type MessageRow = Pick<ReturnType<typeof toMessageRow>, (typeof messageColumns)[number]>;

export function toMessage(row: MessageRow, conversationId: string): Message {
  return {
    id: row.id,
    conversationId,
    sequence: row.sequence,
    sender: row.sender,
    content: row.content,
    author: fromJson(row.author),
    clientId: row.clientId,
    metadata: fromJson(row.metadata),
    createdAt: toTimestamp(row.createdAt),
  };
}

export function toMessageRow(message: Message) {
  return {
    ...message,
    author: toJson(message.author),
    metadata: toJson(message.metadata),
    createdAt: toMs(message.createdAt),
  };
}
