/** The types of event. An agent's reply and a reopening produce none. */
export const eventTypes = ['conversation.started', 'message.received', 'conversation.closed', 'lead.captured'] as const;
export type EventType = (typeof eventTypes)[number];
