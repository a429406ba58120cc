import type { FieldMap } from '@pothos/core';
import { descriptionOf, descriptionsOf } from '../domain/descriptions.ts';
import { eventShapes } from '../domain/event-shape.ts';
import { type EventType, eventTypes } from '../domain/event-types.ts';
import { type EventPage, getEventCursor, type LogEvent, listEvents, streamEvents } from '../domain/events.ts';
import { lazily } from '../runtime/lazily.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { answeredFirst, answering, builder, calls, type SchemaTypes, withoutNulls } from './builder.ts';
import { listInput, PageInfo, pageArgs } from './connection.ts';
import type { OperationContext } from './context.ts';
import { ConversationSnapshot } from './conversations.ts';
import { ConversationChange, changeList, maxChanges } from './event-changes.ts';
import { Lead } from './leads.ts';
import { listOfAtMost } from './measure.ts';
import { MessageType } from './messages.ts';
import { ReadPosition } from './read-positions.ts';
import { EventIterator } from './subscriptions.ts';

/** An event type as an enum value: `conversation.started` is CONVERSATION_STARTED. */
export function inCapitals(type: EventType): string {
  return type.toUpperCase().replace('.', '_');
}

export const EventTypeEnum = builder.enumType('EventType', {
  description: 'The type of an event.',
  values: Object.fromEntries(
    eventTypes.map((type) => [inCapitals(type), { value: type, description: `The event \`${type}\`.` }]),
  ) as Record<string, { value: EventType; description: string }>,
});

const typeNames: Readonly<Record<EventType, string>> = {
  'conversation.started': 'ConversationStartedEvent',
  'message.received': 'MessageReceivedEvent',
  'conversation.closed': 'ConversationClosedEvent',
  'lead.captured': 'LeadCapturedEvent',
  'message.sent': 'MessageSentEvent',
  'conversation.reopened': 'ConversationReopenedEvent',
  'conversation.updated': 'ConversationUpdatedEvent',
  'conversation.read': 'ConversationReadEvent',
  'conversation.deleted': 'ConversationDeletedEvent',
};

const described = descriptionsOf(eventShapes['conversation.started']);

const Event = builder.interfaceRef<LogEvent>('Event').implement({
  description: 'An event of the log, the same in GraphQL, REST, streams and webhooks.',
  fields: (t) => ({
    id: t.exposeID('id', { description: described.id }),
    type: t.expose('type', { type: EventTypeEnum, description: described.type }),
    timestamp: t.expose('timestamp', { type: 'DateTime', description: described.timestamp }),
    sequence: t.exposeInt('sequence', { nullable: true, description: described.sequence }),
    cursor: t.exposeString('cursor', { description: described.cursor }),
    apiVersion: t.exposeString('apiVersion', { description: described.apiVersion }),
    accountId: t.exposeID('accountId', { description: described.accountId }),
    erased: t.exposeBoolean('erased', {
      description: 'Whether the conversation has since been deleted, and the data of the event with it.',
    }),
  }),
  resolveType: ({ type }) => typeNames[type],
});

const snapshot = (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, LogEvent>, description: string) =>
  t.field({
    type: ConversationSnapshot,
    nullable: true,
    description,
    resolve: ({ data: { conversation } }) => conversation ?? null,
  });
const afterwards = 'The conversation right after the event; null if it was erased.';

type EventFields = Parameters<typeof snapshot>[0];

/** Defines the type of an event. Its fields are null once the event was erased. */
function eventType(type: EventType, fields: (t: EventFields) => FieldMap) {
  return builder.objectRef<LogEvent>(typeNames[type]).implement({
    description: descriptionOf(eventShapes[type]),
    interfaces: [Event],
    fields,
  });
}

const ofConversation = (t: EventFields) => ({ conversation: snapshot(t, afterwards) });

const ofMessage = (t: EventFields) => ({
  message: t.field({
    type: MessageType,
    nullable: true,
    description: 'The message; null if it was erased.',
    resolve: ({ data }) => data.message ?? null,
  }),
  ...ofConversation(t),
});

const ConversationStartedEvent = eventType('conversation.started', ofConversation);
const MessageReceivedEvent = eventType('message.received', ofMessage);
const ConversationClosedEvent = eventType('conversation.closed', ofConversation);
const LeadCapturedEvent = eventType('lead.captured', (t) => ({
  lead: t.field({
    type: Lead,
    nullable: true,
    description: 'The lead; null if it was erased.',
    resolve: ({ data }) => data.lead ?? null,
  }),
  conversation: snapshot(t, 'The conversation in which it was captured, if any; null if it was erased.'),
}));
eventType('message.sent', ofMessage);
eventType('conversation.reopened', ofConversation);
eventType('conversation.updated', (t) => ({
  ...ofConversation(t),
  changes: t.field({
    type: [ConversationChange],
    nullable: true,
    description: 'What was changed; null if it was erased.',
    extensions: listOfAtMost(maxChanges),
    resolve: ({ data }) => (data.changes === undefined ? null : changeList(data.changes)),
  }),
}));
eventType('conversation.read', (t) => ({
  conversationId: t.id({
    description: 'The id of the conversation.',
    resolve: ({ conversationId }) => conversationId as string,
  }),
  readPosition: t.field({
    type: ReadPosition,
    nullable: true,
    description: 'The position after its move; null if it was erased.',
    resolve: ({ data }) => data.readPosition ?? null,
  }),
}));
eventType('conversation.deleted', (t) => ({
  conversationId: t.id({
    description: 'The id that the conversation had.',
    resolve: ({ conversationId }) => conversationId as string,
  }),
}));

const EventEdge = builder.objectRef<LogEvent>('EventEdge').implement({
  description: 'One event of a page of the log.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', { description: 'The position right after the event.' }),
    node: t.field({ type: Event, description: 'The event.', resolve: (event) => event }),
  }),
});

const EventConnection = builder.objectRef<EventPage>('EventConnection').implement({
  description: 'A page of the event log, oldest first.',
  fields: (t) => ({
    edges: t.field({
      type: [EventEdge],
      description: 'The events of the page, each with its cursor.',
      resolve: ({ items }) => [...items],
    }),
    nodes: t.field({ type: [Event], description: 'The events of the page.', resolve: ({ items }) => [...items] }),
    pageInfo: t.field({
      type: PageInfo,
      description:
        'The position of the page in the log. Its `endCursor` is also set on an empty page, and moves past the events that the filter leaves out.',
      resolve: (page) => ({
        hasNextPage: page.hasMore,
        hasPreviousPage: () => page.hasEarlier(),
        startCursor: page.items[0]?.cursor ?? null,
        endCursor: page.nextCursor,
      }),
    }),
  }),
});

const readerDescriptions = {
  after: 'Start after this position: an event’s `cursor`, or an `eventCursor`.',
  types: 'Return only events of these types.',
  conversationId: 'Return only events of this conversation.',
};

builder.queryFields((t) => ({
  events: t.field({
    type: EventConnection,
    ...answering(listEvents),
    args: {
      first: pageArgs.first,
      after: t.arg.string({ description: readerDescriptions.after }),
      types: t.arg({ type: [EventTypeEnum], description: readerDescriptions.types }),
      conversationId: t.arg.id({ description: readerDescriptions.conversationId }),
    },
    resolve: async (_, args, context) => {
      // A page whose filter matches little scans thousands of events, and one query can ask for a hundred of them.
      await scheduler.step(context.caller.account.id);
      const page = await context.call(listEvents, listInput(args));
      context.budget.read(page.items.reduce((sum, { dataLength }) => sum + dataLength, 0));
      return { ...page, hasEarlier: lazily(async () => await page.hasEarlier()) }; // to find out can take long
    },
  }),
  eventCursor: t.string({
    ...answering(getEventCursor),
    extensions: { ...calls(getEventCursor), ...answeredFirst },
    resolve: (_, _args, context) => context.call(getEventCursor, {}),
  }),
}));

/** Follows the log for as long as the subscription lasts. */
async function subscribeTo(args: object, context: OperationContext): Promise<AsyncIterableIterator<LogEvent>> {
  const subscription = await context.call(streamEvents, withoutNulls(args));
  return new EventIterator(subscription, context);
}

builder.subscriptionType({
  description:
    'Follows the event log as it grows: in order, each event once. Without `after` it starts now; with it, the events since then are sent first, so that nothing is missed across any number of reconnects.',
});

const readerArgs = builder.args((t) => ({
  after: t.string({ description: readerDescriptions.after }),
  conversationId: t.id({ description: readerDescriptions.conversationId }),
}));

/** Adds a subscription to events of these types. */
function follow(
  field: string,
  type: typeof Event | ReturnType<typeof eventType>,
  { types, description }: { readonly types: readonly EventType[]; readonly description: string },
): void {
  builder.subscriptionField(field, (t) =>
    t.field({
      type,
      description,
      extensions: calls(streamEvents),
      args: readerArgs,
      subscribe: (_, args, context) => subscribeTo({ ...args, types }, context),
      resolve: (logged) => logged as LogEvent,
    }),
  );
}

follow('conversationStarted', ConversationStartedEvent, {
  types: ['conversation.started'],
  description: 'New conversations.',
});
follow('messageReceived', MessageReceivedEvent, {
  types: ['message.received'],
  description: 'Messages from visitors.',
});
follow('conversationClosed', ConversationClosedEvent, {
  types: ['conversation.closed'],
  description: 'Conversations that were closed.',
});
follow('leadCaptured', LeadCapturedEvent, { types: ['lead.captured'], description: 'New leads.' });
follow('conversationChanged', Event, {
  types: eventTypes.filter((type) => type !== 'lead.captured'),
  description: 'All that happens in conversations, or in one of them: every event except captured leads.',
});

builder.subscriptionField('events', (t) =>
  t.field({
    type: Event,
    description: 'All events, or those of the given types.',
    extensions: calls(streamEvents),
    args: {
      types: t.arg({ type: [EventTypeEnum], description: readerDescriptions.types }),
      ...readerArgs,
    },
    subscribe: (_, args, context) => subscribeTo(args, context),
    resolve: (logged) => logged as LogEvent,
  }),
);
