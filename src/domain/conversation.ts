import { type Caller, maySee } from './caller.ts';
import { notFound } from './errors.ts';
import type { Status } from './lifecycle.ts';
import type { Metadata } from './metadata.ts';
import type { Reads } from './ports.ts';
import type { Timestamp } from './time.ts';

/** Bounds that keep one answer, with all its messages, small enough to send. */
export const maxMessages = 10_000;
export const maxContentBytes = 8 * 1024 * 1024;

/** Whom the conversation is with. */
export interface Visitor {
  readonly id: string | null;
  readonly name: string | null;
  readonly email: string | null;
}

export interface Conversation {
  readonly id: string;
  readonly status: Status;
  readonly subject: string | null;
  readonly visitor: Visitor | null;
  /** The client's own id of it, unique in the account. */
  readonly externalId: string | null;
  readonly metadata: Metadata;
  readonly messageCount: number;
  /** The time of its last message, or else of its creation. */
  readonly lastActivityAt: Timestamp;
  /** The first agent message after a visitor message. */
  readonly firstResponseAt: Timestamp | null;
  readonly closedAt: Timestamp | null;
  /** 1, then one more for each operation that changes anything of it. */
  readonly version: number;
  readonly createdAt: Timestamp;
  readonly updatedAt: Timestamp;
}

/** A conversation with what the rules need to know of it and nobody is shown. */
export interface StoredConversation extends Conversation {
  readonly firstVisitorMessageAt: Timestamp | null;
  /** When it was last reopened. */
  readonly reopenedAt: Timestamp | null;
  /** Bytes of UTF-8 in all its messages' content. */
  readonly contentBytes: number;
}

/** The conversation as this caller may see it: one bound to it sees no metadata. */
export function conversationView(stored: StoredConversation, caller?: Caller): Conversation {
  return {
    id: stored.id,
    status: stored.status,
    subject: stored.subject,
    visitor: stored.visitor,
    externalId: stored.externalId,
    metadata: caller?.conversationId === undefined ? stored.metadata : {},
    messageCount: stored.messageCount,
    lastActivityAt: stored.lastActivityAt,
    firstResponseAt: stored.firstResponseAt,
    closedAt: stored.closedAt,
    version: stored.version,
    createdAt: stored.createdAt,
    updatedAt: stored.updatedAt,
  };
}

/** @throws NOT_FOUND, also for what the caller may not see */
export async function findConversation(
  reads: Pick<Reads, 'conversations'>,
  caller: Caller,
  id: string,
): Promise<StoredConversation> {
  const conversation = maySee(caller, id) ? await reads.conversations.find(caller.account.id, id) : undefined;
  if (conversation === undefined) throw notFound('conversation');
  return conversation;
}
