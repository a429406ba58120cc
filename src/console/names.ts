import type { EventType } from '../client/index.ts';

// The names of the API, as GraphQL spells them and as people and REST do.

export const eventTypes = [
  'CONVERSATION_STARTED',
  'CONVERSATION_UPDATED',
  'CONVERSATION_CLOSED',
  'CONVERSATION_REOPENED',
  'CONVERSATION_READ',
  'CONVERSATION_DELETED',
  'MESSAGE_RECEIVED',
  'MESSAGE_SENT',
  'LEAD_CAPTURED',
] as const;
export type EventTypeName = (typeof eventTypes)[number];

export const scopes = [
  'CONVERSATIONS_READ',
  'CONVERSATIONS_WRITE',
  'LEADS_READ',
  'LEADS_WRITE',
  'EVENTS_READ',
  'WEBHOOKS_MANAGE',
  'ANALYTICS_READ',
  'KEYS_MANAGE',
] as const;
export type ScopeName = (typeof scopes)[number];

/** `MESSAGE_RECEIVED` as `message.received`. */
export function eventTypeOf(name: EventTypeName): EventType {
  return name.toLowerCase().replace('_', '.') as EventType;
}

/** `LEADS_READ` as `leads:read`. */
export function scopeOf(name: ScopeName): string {
  return name.toLowerCase().replace('_', ':');
}
