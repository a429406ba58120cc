import { DomainError, quoting } from './errors.ts';
import type { Sender } from './message-record.ts';

/** `pending` waits for an agent, `active` is being handled, `closed` is finished. */
export const statuses = ['active', 'closed', 'pending'] as const;
export type Status = (typeof statuses)[number];
/** With which a conversation can begin. */
export const newStatuses = ['active', 'pending'] as const satisfies readonly Status[];
type NewStatus = (typeof newStatuses)[number];

// The lifecycle of a conversation, as pure functions of its status and the request:
//
//   (new) ──────────────▶ active ◀──────────▶ pending ◀── (new, opened by a visitor)
//                           ▲ │                │   ▲
//         requested: reopen │ │ requested      │   │ a visitor writes
//                           │ ▼                ▼   │
//                           └──────  closed  ──────┘

/**
 * The status of a new conversation.
 * @param asked the requested status, if any
 * @param firstSender the sender of its first message, if it has one
 */
export function initialStatus(asked: NewStatus | undefined, firstSender: Sender | undefined): NewStatus {
  if (firstSender === 'agent') return 'active';
  return asked ?? (firstSender === 'visitor' ? 'pending' : 'active');
}

/**
 * The status after a requested change. Requesting the current status is not an error and changes nothing.
 * @throws INVALID_TRANSITION
 */
export function requestedStatus(current: Status, asked: Status): Status {
  if (current === 'closed' && asked === 'pending') {
    throw new DomainError(
      'INVALID_TRANSITION',
      quoting`A closed conversation can be reopened as ${'active'}; it becomes ${'pending'} only when its visitor writes.`,
    );
  }
  return asked;
}

/**
 * The status after a message.
 * @throws CONVERSATION_CLOSED when an agent or a bot writes to a closed conversation
 */
export function statusAfterMessage(current: Status, sender: Sender): Status {
  if (current === 'closed') {
    if (sender === 'visitor') return 'pending';
    throw new DomainError('CONVERSATION_CLOSED', 'The conversation is closed; reopen it before sending to it.');
  }
  return sender === 'agent' ? 'active' : current;
}
