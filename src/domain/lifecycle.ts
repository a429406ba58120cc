import { DomainError } from './errors.ts';
import type { Sender } from './messages.ts';

/** `pending` waits for an agent, `active` is being handled, `closed` is finished. */
export const statuses = ['active', 'closed', 'pending'] as const;
export type Status = (typeof statuses)[number];

// The lifecycle of a conversation, as pure functions of what is and what is asked for:
//
//   (new) ──────────────▶ active ◀──────────▶ pending ◀── (new, opened by a visitor)
//                           ▲ │                │   ▲
//         asked for: reopen │ │ asked for      │   │ a visitor writes
//                           │ ▼                ▼   │
//                           └──────  closed  ──────┘

/**
 * The status of a new conversation.
 * @param asked the status asked for, if any
 * @param firstSender who sends its first message, if it has one
 * @throws INVALID_TRANSITION for `closed`
 */
export function initialStatus(asked: Status | undefined, firstSender: Sender | undefined): Status {
  if (asked === 'closed') {
    throw new DomainError(
      'INVALID_TRANSITION',
      'A conversation cannot be created closed; it starts `active` or `pending`.',
    );
  }
  if (firstSender === 'agent') return 'active';
  return asked ?? (firstSender === 'visitor' ? 'pending' : 'active');
}

/**
 * The status after a change was asked for. Asking for the status that it has is no change.
 * @throws INVALID_TRANSITION
 */
export function requestedStatus(current: Status, asked: Status): Status {
  if (current === 'closed' && asked === 'pending') {
    throw new DomainError(
      'INVALID_TRANSITION',
      'A closed conversation can be reopened as `active`; it becomes `pending` only when its visitor writes.',
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
