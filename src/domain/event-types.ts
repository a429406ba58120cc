/** The types of event: together they tell of every change that a client can see of a conversation. */
export const eventTypes = [
  'conversation.started',
  'message.received',
  'conversation.closed',
  'lead.captured',
  'message.sent',
  'conversation.reopened',
  'conversation.updated',
  'conversation.read',
  'conversation.deleted',
] as const;
export type EventType = (typeof eventTypes)[number];

/** Those that a receiver is sent unless it asks for others. */
export const defaultEventTypes: readonly EventType[] = eventTypes.slice(0, 4);
