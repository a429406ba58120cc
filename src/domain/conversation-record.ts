import * as z from 'zod';
import { type Caller, maySee, shownTo } from './caller.ts';
import { DomainError, notFound } from './errors.ts';
import { idShape } from './ids.ts';
import { statuses } from './lifecycle.ts';
import { lastMessageShape } from './message-record.ts';
import { metadataShape } from './metadata.ts';
import type { Context } from './operation.ts';
import { countShape, nullableText, nullableTime } from './shapes.ts';
import type { Reads } from './storage-port.ts';
import { type Timestamp, timeShape } from './time.ts';

// These bound the response that holds a conversation with all its messages. A message's sequence has to fit into its id
// (see `Ids`).
export const maxMessages = 10_000;
export const maxContentBytes = 8 * 1024 * 1024;

export const visitorShape = z
  .object({
    id: nullableText('The visitor’s id in the client’s system.', 'customer-7'),
    name: nullableText('The visitor’s name.', 'Ada'),
    email: nullableText('The visitor’s email address.', 'ada@example.com'),
  })
  .meta({ id: 'Visitor', description: 'The visitor, as given by the client.' });

export type Visitor = Readonly<z.output<typeof visitorShape>>;

export const assigneeShape = z
  .object({
    id: nullableText('The agent’s id in the client’s system. Null when read with a bound token.', 'agent-3'),
    name: nullableText('Display name.', 'Grace'),
  })
  .meta({ id: 'Assignee', description: 'The agent who has a conversation.' });

export type Assignee = Readonly<z.output<typeof assigneeShape>>;

export const conversationShape = z
  .object({
    id: idShape('conversation').describe('Its id.'),
    status: z.enum(statuses).describe('Its status; `pending` means that it waits for an agent.'),
    subject: nullableText('Its topic.', 'Parcel 1042'),
    visitor: visitorShape.nullable().describe('The visitor, if given.'),
    externalId: nullableText(
      'Its id in the client’s system, unique in the account. Null when read with a bound token.',
      'ticket-1042',
    ),
    assignee: assigneeShape.nullable().describe('Which agent has it, if one does.'),
    tags: z
      .array(z.string())
      .readonly()
      .describe('Its tags, without doubles and sorted by code point. Empty when read with a bound token.')
      .meta({ examples: [['delivery', 'urgent']] }),
    metadata: metadataShape.describe('Arbitrary client data. Empty when read with a bound token.'),
    messageCount: countShape('Number of messages.', 1),
    lastMessage: lastMessageShape.nullable().describe('Its last message, if it has one.'),
    lastActivityAt: timeShape.describe('Time of its last message, or of its creation if it has none.'),
    firstResponseAt: nullableTime('Time of the first agent message after a visitor message; null until then.'),
    closedAt: nullableTime('When it was closed; null while it is open.'),
    version: z
      .int()
      .min(1)
      .describe(
        'Starts at 1 and grows by one with each operation that changes the conversation, including new messages.',
      ),
    createdAt: timeShape.describe('When it was created.'),
    updatedAt: timeShape.describe('When it last changed.'),
  })
  .meta({ id: 'Conversation', description: 'A conversation with a visitor, without its messages.' });

export type Conversation = Readonly<z.output<typeof conversationShape>>;

/** A conversation with the internal fields that the rules need. */
export interface StoredConversation extends Conversation {
  readonly firstVisitorMessageAt: Timestamp | null;
  /** When it was last reopened. */
  readonly reopenedAt: Timestamp | null;
  /** Total size of its messages: their content in bytes of UTF-8, their metadata and authors in bytes of JSON. */
  readonly contentBytes: number;
}

/** The conversation as the caller may see it, without its internal fields. */
export function conversationView(stored: StoredConversation, caller?: Caller): Conversation {
  return shownTo(caller, {
    id: stored.id,
    status: stored.status,
    subject: stored.subject,
    visitor: stored.visitor,
    externalId: stored.externalId,
    assignee: stored.assignee,
    tags: stored.tags,
    metadata: stored.metadata,
    messageCount: stored.messageCount,
    lastMessage: stored.lastMessage,
    lastActivityAt: stored.lastActivityAt,
    firstResponseAt: stored.firstResponseAt,
    closedAt: stored.closedAt,
    version: stored.version,
    createdAt: stored.createdAt,
    updatedAt: stored.updatedAt,
  });
}

/** For optimistic concurrency control. REST can name several versions (`If-Match`), of which one has to match. */
export const expectedVersionInput = z
  .union([z.int(), z.array(z.int()).readonly()], { error: 'must be an integer' })
  .nullish()
  .describe(
    'The `version` that the change is based on: if the conversation has another, nothing changes and the code is VERSION_CONFLICT.',
  );

/**
 * @param expectedVersion one or several versions, if the caller named any
 * @throws NOT_FOUND, also for a conversation that the caller may not see; VERSION_CONFLICT
 */
export async function findConversation(
  reads: Pick<Reads, 'conversations'>,
  caller: Caller,
  id: string,
  expectedVersion?: number | readonly number[] | null,
): Promise<StoredConversation> {
  const conversation = await reads.conversations.find(caller.account.id, id);
  if (conversation === undefined || !maySee(caller, conversation)) throw notFound('conversation');
  if (expectedVersion != null && ![expectedVersion].flat().includes(conversation.version)) {
    throw new DomainError(
      'VERSION_CONFLICT',
      `The conversation has changed: its version is ${conversation.version} now. Read it again before changing it.`,
    );
  }
  return conversation;
}

/**
 * The context for a change within its transaction, with the time there: that of the call may be earlier than changes
 * which were committed since. It is a millisecond after the conversation's last change where that was made by a clock
 * that is ahead: otherwise all events would have one time until then, and erasure, which finds the deliveries of an event
 * by its time, would read those of all for each.
 */
export function momentAfter(context: Context, previous: StoredConversation | null = null): Context {
  const { clock } = context;
  const lastMs = previous === null ? 0 : Math.max(Date.parse(previous.updatedAt), Date.parse(previous.lastActivityAt));
  const now = clock.now();
  return { ...context, now: now < lastMs ? lastMs + 1 : now };
}
