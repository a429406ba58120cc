import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { Author, LastMessage, Sender } from '../../domain/message-record.ts';
import { fromJson, type Json, toJson, toMs, toTimestamp } from './values.ts';

/** The columns that change with every message. Of the indexes, two contain any of them. */
export const changingByMessage = [
  'messageCount',
  'contentBytes',
  'lastMessage',
  'lastActivityAt',
  'firstVisitorMessageAt',
  'firstResponseAt',
  'version',
  'updatedAt',
] as const satisfies readonly (keyof StoredConversation)[];

/** The others that can change after creation. */
export const changingOtherwise = [
  'status',
  'subject',
  'visitor',
  'externalId',
  'assignee',
  'tags',
  'metadata',
  'reopenedAt',
  'closedAt',
] as const satisfies readonly (keyof StoredConversation)[];

/** The columns without those that only the storage knows. */
export const conversationColumns = [
  'id',
  'createdAt',
  ...changingOtherwise,
  ...changingByMessage,
] as const satisfies readonly (keyof StoredConversation)[];

/**
 * The last message beside its conversation, so that a list need not look into the messages. An array takes a third of the
 * time of an object to make and to read.
 */
export type StoredLastMessage = [
  id: string,
  sequence: number,
  sender: Sender,
  author: Author | null,
  createdAt: number,
  preview: string,
];

export type ConversationRow = ReturnType<typeof toConversationRow>;

function fromLastMessage({ id, sequence, sender, author, createdAt, preview }: LastMessage): StoredLastMessage {
  return [id, sequence, sender, author, toMs(createdAt), preview];
}

function toLastMessage(json: Json<StoredLastMessage> | null): LastMessage | null {
  if (json === null) return null;
  const [id, sequence, sender, author, createdAt, preview] = fromJson(json);
  return { id, sequence, sender, author, createdAt: toTimestamp(createdAt), preview };
}

/** Names each field: to copy a row and leave columns out takes a tenth of a list. */
export function toConversation(row: ConversationRow): StoredConversation {
  return {
    id: row.id,
    status: row.status,
    subject: row.subject,
    visitor: fromJson(row.visitor),
    externalId: row.externalId,
    assignee: fromJson(row.assignee),
    tags: fromJson(row.tags),
    metadata: fromJson(row.metadata),
    messageCount: row.messageCount,
    contentBytes: row.contentBytes,
    lastMessage: toLastMessage(row.lastMessage),
    lastActivityAt: toTimestamp(row.lastActivityAt),
    firstVisitorMessageAt: toTimestamp(row.firstVisitorMessageAt),
    firstResponseAt: toTimestamp(row.firstResponseAt),
    reopenedAt: toTimestamp(row.reopenedAt),
    closedAt: toTimestamp(row.closedAt),
    version: row.version,
    createdAt: toTimestamp(row.createdAt),
    updatedAt: toTimestamp(row.updatedAt),
  };
}

export function toConversationRow(conversation: StoredConversation) {
  return {
    ...conversation,
    visitor: toJson(conversation.visitor),
    assignee: toJson(conversation.assignee),
    tags: toJson(conversation.tags),
    metadata: toJson(conversation.metadata),
    lastMessage: toJson(conversation.lastMessage && fromLastMessage(conversation.lastMessage)),
    lastActivityAt: toMs(conversation.lastActivityAt),
    firstVisitorMessageAt: toMs(conversation.firstVisitorMessageAt),
    firstResponseAt: toMs(conversation.firstResponseAt),
    reopenedAt: toMs(conversation.reopenedAt),
    closedAt: toMs(conversation.closedAt),
    createdAt: toMs(conversation.createdAt),
    updatedAt: toMs(conversation.updatedAt),
  };
}
