import * as z from 'zod';
import { type Caller, isBound, withoutId } from './caller.ts';
import {
  type Assignee,
  assigneeShape,
  conversationShape,
  conversationView,
  type StoredConversation,
} from './conversation-record.ts';
import type { EventType } from './event-types.ts';
import type { EventData, NewEvent } from './events.ts';
import type { Message } from './message-record.ts';
import type { Metadata } from './metadata.ts';
import type { Moment } from './operation.ts';
import { timestamp } from './time.ts';

// The events of a conversation follow from what it was before an operation and what it is afterwards. So an operation
// cannot forget one, and whoever folds the log arrives at what the API shows.

function change<Value extends z.ZodType>(value: Value) {
  return z.object({ from: value.describe('Its value before.'), to: value.describe('Its value afterwards.') });
}

const { subject, visitor, externalId, tags } = conversationShape.shape;

/** Each with its values before and afterwards; those that did not change are left out. */
export const changesShape = z
  .object({
    status: change(z.enum(['active', 'pending'])).describe(
      'Its status; closing and reopening have events of their own.',
    ),
    subject: change(subject).describe('Its topic.'),
    visitor: change(visitor).describe('The visitor.'),
    externalId: change(externalId).describe('Its id in the client’s system.'),
    assignee: change(assigneeShape.nullable()).describe('Which agent has it.'),
    tags: change(tags).describe('Its tags.'),
    metadata: z
      .record(z.string(), change(z.union([z.string(), z.number(), z.boolean()]).nullable()))
      .describe('The keys of its metadata that changed; null where there was none, or is none any more.'),
  })
  .partial()
  .meta({ id: 'ConversationChanges', description: 'What a client changed of a conversation.' });

export type ConversationChanges = Readonly<z.output<typeof changesShape>>;

/** The others are compared in their own way. */
const { status: _status, metadata: _metadata, ...comparable } = changesShape.shape;
const changeable = Object.keys(comparable) as (keyof typeof comparable)[];

/** What an operation changed, but for what has events of its own and what follows from a message. */
function changesBetween(previous: StoredConversation, next: StoredConversation): ConversationChanges {
  const isOpen = previous.status !== 'closed' && next.status !== 'closed';
  const metadata = metadataChanges(previous.metadata, next.metadata);
  const fields = changeable.flatMap((name) => {
    const [from, to] = [previous[name], next[name]];
    return from === to || JSON.stringify(from) === JSON.stringify(to) ? [] : [[name, { from, to }]];
  });
  return {
    ...(isOpen && previous.status !== next.status && { status: { from: previous.status, to: next.status } }),
    ...Object.fromEntries(fields),
    ...(Object.keys(metadata).length > 0 && { metadata }),
  } as ConversationChanges;
}

function metadataChanges(from: Metadata, to: Metadata): NonNullable<ConversationChanges['metadata']> {
  if (from === to) return {};
  const keys = [...new Set([...Object.keys(from), ...Object.keys(to)])];
  const changes = keys.map((key) => [key, { from: valueIn(from, key), to: valueIn(to, key) }] as const);
  return Object.fromEntries(changes.filter(([, change]) => change.from !== change.to));
}

/** A key may be named like something that every object inherits, such as `constructor`. */
function valueIn(metadata: Metadata, key: string): string | number | boolean | null {
  return Object.hasOwn(metadata, key) ? (metadata[key] ?? null) : null;
}

/**
 * The events of one operation on a conversation, all with the same snapshot: that it was started or updated, that it was
 * reopened or closed, and the message.
 * @param previous the conversation before, unless it is new
 */
export function eventsOf(
  previous: StoredConversation | undefined,
  next: StoredConversation,
  message: Message | undefined,
  { ids, now }: Moment,
): NewEvent[] {
  const conversation = conversationView(next);
  const events: NewEvent[] = [];
  const add = (type: EventType, data: EventData): void => {
    events.push({
      id: ids.next('event', now),
      type,
      timestamp: timestamp(now),
      conversationId: next.id,
      visitorId: next.visitor?.id ?? null,
      data,
    });
  };
  if (previous === undefined) {
    add('conversation.started', { conversation });
  } else if (previous !== next) {
    const changes = changesBetween(previous, next);
    if (Object.keys(changes).length > 0) add('conversation.updated', { conversation, changes });
    if (previous.status === 'closed' && next.status !== 'closed') add('conversation.reopened', { conversation });
    if (previous.status !== 'closed' && next.status === 'closed') add('conversation.closed', { conversation });
  }
  if (message !== undefined) {
    add(message.sender === 'visitor' ? 'message.received' : 'message.sent', { message, conversation });
  }
  return events;
}

/** The event of a deletion. It holds an id only, and is not erased. */
export function deletionEvent({ id, visitor }: StoredConversation, { ids, now }: Moment): NewEvent {
  return {
    id: ids.next('event', now),
    type: 'conversation.deleted',
    timestamp: timestamp(now),
    conversationId: id,
    visitorId: visitor?.id ?? null,
    data: { conversationId: id },
  };
}

/**
 * The changes as the caller may see them; undefined if nothing is left. One who is bound sees those of the status, the
 * subject and the name of the assignee. That the conversation has come to its visitor is something to a caller, too:
 * no field, since the visitor before is none of its business.
 */
export function changesShownTo(caller: Caller, changes: ConversationChanges): ConversationChanges | undefined {
  if (!isBound(caller)) return changes;
  const { status, subject, assignee, visitor } = changes;
  const hasNewName = assignee !== undefined && nameIn(assignee.from) !== nameIn(assignee.to);
  const shown = {
    ...(status && { status }),
    ...(subject && { subject }),
    ...(hasNewName && { assignee: { from: withoutId(assignee.from), to: withoutId(assignee.to) } }),
  };
  const hasCome = caller.visitor !== undefined && visitor !== undefined && visitor.from?.id !== visitor.to?.id;
  return Object.keys(shown).length === 0 && !hasCome ? undefined : shown;
}

/** Undefined without an assignee, which is another thing than one without a name. */
function nameIn(assignee: Assignee | null): string | null | undefined {
  return assignee === null ? undefined : assignee.name;
}
