import type { Conversation } from './conversation.ts';
import type { Message } from './messages.ts';
import type { Transaction } from './ports.ts';
import type { Timestamp } from './time.ts';

export const eventTypes = ['conversation.started', 'message.received', 'conversation.closed', 'lead.captured'] as const;
export type EventType = (typeof eventTypes)[number];

/** What a change tells about itself: written to the log in the change's own transaction. */
export interface NewEvent {
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: Timestamp;
  readonly conversationId: string;
  /** A snapshot after the change. */
  readonly data: { readonly conversation: Conversation; readonly message?: Message };
}

/** A place in an account's log: opaque to callers, it names the log and the last event before it. */
export function eventCursor(epoch: string, sequence: number): string {
  return Buffer.from(`${epoch}.${sequence}`).toString('base64url');
}

/** The end of the account's log as this transaction sees it. */
export async function currentEventCursor(tx: Transaction, accountId: string): Promise<string> {
  const { eventSequence } = await tx.accounts.totals(accountId);
  return eventCursor(await tx.events.epoch(), eventSequence);
}

/** Appends events to the account's log, if there are any, and returns the end of the log. */
export async function appendEvents(tx: Transaction, accountId: string, events: readonly NewEvent[]): Promise<string> {
  if (events.length === 0) return await currentEventCursor(tx, accountId);
  return eventCursor(await tx.events.epoch(), await tx.events.append(accountId, events));
}
