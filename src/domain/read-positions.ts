import * as z from 'zod';
import type { Caller } from './caller.ts';
import {
  type Conversation,
  conversationView,
  findConversation,
  momentAfter,
  type StoredConversation,
} from './conversation-record.ts';
import { DomainError, validationFailed } from './errors.ts';
import { cursorFormOf } from './event-cursor.ts';
import { appendEvents, type NewEvent } from './events.ts';
import { idInput } from './ids.ts';
import type { Message } from './message-record.ts';
import { type Moment, operation } from './operation.ts';
import {
  isReader,
  positionsShownTo,
  type ReadPosition,
  type ReadPositions,
  readerInput,
  visitorReader,
} from './read-position-record.ts';
import type { Reads, Transaction } from './storage-port.ts';
import { timestamp } from './time.ts';

export interface MarkedRead {
  readonly readPosition: ReadPosition;
  readonly conversation: Conversation;
  /** The end of the event log after this move. */
  readonly eventCursor: string;
}

export const markRead = operation({
  name: 'markRead',
  summary: 'Moves the position up to which a reader has read a conversation forward.',
  scope: 'conversations:write',
  openToBound: 'visitor',
  input: z.strictObject({
    conversationId: idInput('conversation').describe('The conversation’s id.'),
    reader: readerInput.describe(
      'Who has read: an agent’s id in your system, or `visitor`. 1 to 128 letters, digits and characters of `_.:@+-`.',
    ),
    sequence: z
      .int({ error: 'must be an integer' })
      .min(0, { error: 'must be at least 0' })
      .describe('The sequence of the last message that it has read; before the present position, nothing changes.'),
  }),
  errors: ['NOT_FOUND'],
  async run(context, { conversationId, reader, sequence }): Promise<MarkedRead> {
    const { caller } = context;
    if (caller.visitor !== undefined && reader !== visitorReader) {
      throw new DomainError('FORBIDDEN', `This token may move the position of the reader \`${visitorReader}\` only.`);
    }
    const { show } = await cursorFormOf(context);
    const about = [conversationId];
    const marked = await context.once(async (tx) => {
      const [webhooks, conversation] = await Promise.all([
        tx.webhooks.enabled(caller.account.id),
        findConversation(tx, caller, conversationId),
      ]);
      const { messageCount } = conversation;
      if (sequence > messageCount) {
        const detail = `must be at most ${messageCount}: the conversation has no further messages`;
        throw validationFailed([{ path: ['sequence'], detail }]);
      }
      const moment = momentAfter(context, conversation);
      const asked = { reader, sequence, readAt: timestamp(moment.now) };
      const { position, hasMoved } = await tx.readPositions.move(caller.account.id, conversation, asked);
      const events = hasMoved ? [readEvent(conversation, position, moment)] : [];
      return {
        readPosition: position,
        conversation: conversationView(conversation, caller),
        eventCursor: await appendEvents(tx, moment, events, webhooks),
      };
    }, about);
    return { ...marked, eventCursor: show(marked.eventCursor) };
  },
});

/**
 * The read positions of conversations that the caller has been allowed to see, in the order of the ids; none for unknown
 * ones.
 * @param along what was read along with the conversations
 */
export async function readPositionsOf(
  reads: Pick<Reads, 'readPositions'>,
  caller: Caller,
  ids: readonly string[],
  along?: readonly ReadPositions[],
): Promise<readonly ReadPositions[]> {
  const found = along ?? (await reads.readPositions.ofConversations(caller.account.id, ids));
  return found.map((all) => positionsShownTo(caller, all));
}

/** Read positions as they fit a conversation that was read before them: they may be ahead of it by then. */
export function positionsUpTo(messageCount: number, positions: readonly ReadPosition[]): readonly ReadPosition[] {
  return positions.map((position) =>
    position.sequence > messageCount ? { ...position, sequence: messageCount } : position,
  );
}

function readEvent(
  { id: conversationId, visitor }: StoredConversation,
  readPosition: ReadPosition,
  { ids, now }: Moment,
): NewEvent {
  return {
    id: ids.next('event', now),
    type: 'conversation.read',
    timestamp: timestamp(now),
    conversationId,
    visitorId: visitor?.id ?? null,
    data: { conversationId, readPosition },
  };
}

/** Moves the position of who has sent a message to it. The message’s event tells of that, so it has none of its own. */
export async function moveSender(
  tx: Transaction,
  accountId: string,
  conversation: StoredConversation,
  { sender, author, createdAt }: Message,
): Promise<void> {
  const reader = sender === 'visitor' ? visitorReader : author?.id;
  if (isReader(reader)) await tx.readPositions.moveToEnd(accountId, conversation, reader, createdAt);
}

/**
 * Gives whoever is assigned a position, unless there is one. The event of the assignment tells of that.
 * @returns whether there may be another position than before
 */
export async function addAssignee(
  tx: Transaction,
  accountId: string,
  previous: StoredConversation | undefined,
  next: StoredConversation,
): Promise<boolean> {
  const reader = next.assignee?.id;
  if (next.assignee === previous?.assignee || !isReader(reader)) return false;
  await tx.readPositions.move(accountId, next, { reader, sequence: 0, readAt: next.updatedAt });
  return true;
}
