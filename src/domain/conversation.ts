import { z } from 'zod';
import { type Caller, maySee } from './caller.ts';
import { DomainError, notFound } from './errors.ts';
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

/** The version that a change is made for: a change that somebody else has made since is not overlooked. */
export const expectedVersionInput = z
  .int({ error: 'must be an integer' })
  .nullish()
  .describe(
    'The `version` that the caller has seen: with any other, nothing is changed and the code is VERSION_CONFLICT.',
  );

/**
 * @param expectedVersion the version that the caller expects, if it does
 * @throws NOT_FOUND, also for what the caller may not see; VERSION_CONFLICT
 */
export async function findConversation(
  reads: Pick<Reads, 'conversations'>,
  caller: Caller,
  id: string,
  expectedVersion?: number | null,
): Promise<StoredConversation> {
  const conversation = maySee(caller, id) ? await reads.conversations.find(caller.account.id, id) : undefined;
  if (conversation === undefined) throw notFound('conversation');
  if (expectedVersion != null && expectedVersion !== conversation.version) {
    throw new DomainError(
      'VERSION_CONFLICT',
      `The conversation has changed: its version is ${conversation.version} now. Read it again and decide anew.`,
    );
  }
  return conversation;
}
