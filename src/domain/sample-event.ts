import type { Conversation } from './conversation-record.ts';
import type { EventType } from './event-types.ts';
import type { EventData, NewEvent } from './events.ts';
import { lastMessageOf, type Message } from './message-record.ts';
import type { Moment } from './operation.ts';
import { timestamp } from './time.ts';

/** A made-up event for testing a receiver. Its ids refer to nothing. */
export function sampleEvent(type: EventType, { ids, now }: Moment): NewEvent {
  const at = timestamp(now);
  const visitor = { id: 'visitor-1', name: 'Ada Lovelace', email: 'ada@example.com' };
  const conversationId = ids.next('conversation', now);
  const message: Message = {
    id: ids.next('message', now),
    conversationId,
    sequence: 1,
    sender: 'visitor',
    content: 'This is a sample event.',
    author: null,
    clientId: null,
    metadata: {},
    createdAt: at,
  };
  const started: Conversation = {
    id: conversationId,
    status: 'pending',
    subject: 'A sample',
    visitor,
    externalId: null,
    assignee: null,
    tags: [],
    metadata: {},
    messageCount: 1,
    lastMessage: lastMessageOf(message),
    lastActivityAt: at,
    firstResponseAt: null,
    closedAt: null,
    version: 1,
    createdAt: at,
    updatedAt: at,
  };
  const answer: Message = { ...message, id: ids.next('message', now), sequence: 2, sender: 'agent' };
  const answered: Conversation = {
    ...started,
    status: 'active',
    messageCount: answer.sequence,
    lastMessage: lastMessageOf(answer),
    firstResponseAt: at,
    version: 2,
  };
  const lead = {
    id: ids.next('lead', now),
    conversationId,
    name: visitor.name,
    email: visitor.email,
    phone: null,
    company: null,
    metadata: {},
    createdAt: at,
  };
  const data: Record<EventType, EventData> = {
    'conversation.started': { conversation: started },
    'message.received': { message, conversation: started },
    'conversation.closed': { conversation: { ...started, status: 'closed', closedAt: at, version: 2 } },
    'lead.captured': { lead, conversation: started },
    'message.sent': { message: answer, conversation: answered },
    'conversation.reopened': { conversation: { ...started, status: 'active', version: 3 } },
    'conversation.updated': {
      conversation: { ...started, tags: ['sample'], version: 2 },
      changes: { tags: { from: [], to: ['sample'] } },
    },
    'conversation.read': { conversationId, readPosition: { reader: 'agent-3', sequence: 1, readAt: at } },
    'conversation.deleted': { conversationId },
  };
  return { id: ids.next('event', now), type, timestamp: at, conversationId, visitorId: visitor.id, data: data[type] };
}
