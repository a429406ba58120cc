import {
  type EventPage,
  type EventType,
  eventTypes,
  getEventCursor,
  type LogEvent,
  listEvents,
  streamEvents,
} from '../domain/events.ts';
import { builder, calls, type GraphQLContext, withoutNulls } from './builder.ts';
import { listInput, PageInfo, pageArgs } from './connection.ts';
import { Conversation, type ShownConversation } from './conversations.ts';
import { EventIterator } from './event-iterator.ts';
import { Lead } from './leads.ts';
import { MessageType } from './messages.ts';

/** `conversation.started` is CONVERSATION_STARTED, as GraphQL spells enumerations. */
export const EventTypeEnum = builder.enumType('EventType', {
  description: 'The kinds of event that there are. An agent’s reply and a reopening are none.',
  values: Object.fromEntries(
    eventTypes.map((type) => [
      type.toUpperCase().replace('.', '_'),
      { value: type, description: `The event \`${type}\`.` },
    ]),
  ) as Record<string, { value: EventType; description: string }>,
});

const typeNames: Readonly<Record<EventType, string>> = {
  'conversation.started': 'ConversationStartedEvent',
  'message.received': 'MessageReceivedEvent',
  'conversation.closed': 'ConversationClosedEvent',
  'lead.captured': 'LeadCapturedEvent',
};

const Event = builder.interfaceRef<LogEvent>('Event').implement({
  description: 'Something that happened, as the log has it. It reads the same on every face.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id, the same in every delivery of it.' }),
    type: t.expose('type', { type: EventTypeEnum, description: 'What happened.' }),
    timestamp: t.expose('timestamp', { type: 'DateTime', description: 'When it happened.' }),
    sequence: t.exposeInt('sequence', { description: 'Its place in the account’s log: 1, 2, 3 … without gaps.' }),
    cursor: t.exposeString('cursor', {
      description: 'The place just after it: give it as `after` to go on from there.',
    }),
    apiVersion: t.exposeString('apiVersion', { description: 'The version of the form that it has.' }),
    accountId: t.exposeID('accountId', { description: 'The account that it happened in.' }),
    erased: t.exposeBoolean('erased', {
      description: 'Whether its conversation was deleted since: then nothing is left of what it told.',
    }),
  }),
  resolveType: ({ type }) => typeNames[type],
});

const cacheWarning =
  'It has the id of the conversation, so a cache by id must not put it in the place of a newer `version`.';
const conversationSnapshot = `The conversation after it: a snapshot, whose \`messages\` are those of now. ${cacheWarning} Null when it was erased.`;

const snapshotOf = ({ data: { conversation } }: LogEvent): ShownConversation | null =>
  conversation == null ? null : { ...conversation, isSnapshot: true };

const ConversationStartedEvent = builder.objectRef<LogEvent>('ConversationStartedEvent').implement({
  description: 'A conversation was started.',
  interfaces: [Event],
  fields: (t) => ({
    conversation: t.field({
      type: Conversation,
      nullable: true,
      description: conversationSnapshot,
      resolve: snapshotOf,
    }),
  }),
});

const MessageReceivedEvent = builder.objectRef<LogEvent>('MessageReceivedEvent').implement({
  description: 'A visitor has sent a message.',
  interfaces: [Event],
  fields: (t) => ({
    message: t.field({
      type: MessageType,
      nullable: true,
      description: 'The message. Null when it was erased.',
      resolve: ({ data }) => data.message ?? null,
    }),
    conversation: t.field({
      type: Conversation,
      nullable: true,
      description: conversationSnapshot,
      resolve: snapshotOf,
    }),
  }),
});

const ConversationClosedEvent = builder.objectRef<LogEvent>('ConversationClosedEvent').implement({
  description: 'A conversation was closed.',
  interfaces: [Event],
  fields: (t) => ({
    conversation: t.field({
      type: Conversation,
      nullable: true,
      description: conversationSnapshot,
      resolve: snapshotOf,
    }),
  }),
});

const LeadCapturedEvent = builder.objectRef<LogEvent>('LeadCapturedEvent').implement({
  description: 'A lead was captured.',
  interfaces: [Event],
  fields: (t) => ({
    lead: t.field({
      type: Lead,
      nullable: true,
      description: 'The lead. Null when it was erased.',
      resolve: ({ data }) => data.lead ?? null,
    }),
    conversation: t.field({
      type: Conversation,
      nullable: true,
      description: `The conversation that it was left in, if it was in one: a snapshot. ${cacheWarning}`,
      resolve: snapshotOf,
    }),
  }),
});

const EventEdge = builder.objectRef<LogEvent>('EventEdge').implement({
  description: 'One event in a page of the log.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', { description: 'The place just after it.' }),
    node: t.field({ type: Event, description: 'The event itself.', resolve: (event) => event }),
  }),
});

const EventConnection = builder.objectRef<EventPage>('EventConnection').implement({
  description: 'A page of the log, oldest first.',
  fields: (t) => ({
    edges: t.field({
      type: [EventEdge],
      description: 'What is on the page, each with its cursor.',
      resolve: ({ items }) => [...items],
    }),
    nodes: t.field({ type: [Event], description: 'What is on the page.', resolve: ({ items }) => [...items] }),
    pageInfo: t.field({
      type: PageInfo,
      description:
        'Where the page lies. Its `endCursor` is there on an empty page too, and moves on with what the filter leaves out.',
      resolve: ({ items, hasMore, hasEarlier, nextCursor }) => ({
        hasNextPage: hasMore,
        hasPreviousPage: () => hasEarlier,
        startCursor: items[0]?.cursor ?? null,
        endCursor: nextCursor,
      }),
    }),
  }),
});

const readerDescriptions = {
  after: 'Start after this place: an event’s `cursor`, or an `eventCursor`.',
  types: 'Only events of these types.',
  conversationId: 'Only events of this conversation.',
};

builder.queryFields((t) => ({
  events: t.field({
    type: EventConnection,
    nullable: true,
    description: listEvents.summary,
    extensions: calls(listEvents),
    args: {
      first: pageArgs.first,
      after: t.arg.string({ description: readerDescriptions.after }),
      types: t.arg({ type: [EventTypeEnum], description: readerDescriptions.types }),
      conversationId: t.arg.id({ description: readerDescriptions.conversationId }),
    },
    resolve: (_, args, context) => context.call(listEvents, listInput(args)),
  }),
  eventCursor: t.string({
    nullable: true,
    description: getEventCursor.summary,
    resolve: (_, _args, context) => context.call(getEventCursor, {}),
  }),
}));

interface ReaderArgs {
  readonly after?: string | null | undefined;
  readonly types?: readonly EventType[] | null | undefined;
  readonly conversationId?: string | null | undefined;
}

/** One event after another from the log, for as long as the subscription lives. */
async function subscribeTo(args: ReaderArgs, context: GraphQLContext): Promise<AsyncIterableIterator<LogEvent>> {
  const subscription = await context.call(streamEvents, withoutNulls(args));
  return new EventIterator(subscription, context);
}

builder.subscriptionType({
  description:
    'Following the event log as it grows: in order, each event once. Without `after` it starts now; with it, what came since is sent first, and across any number of reconnects nothing is missing.',
});

const kinds = [
  {
    field: 'conversationStarted',
    type: ConversationStartedEvent,
    event: 'conversation.started',
    description: 'Conversations that are started.',
  },
  {
    field: 'messageReceived',
    type: MessageReceivedEvent,
    event: 'message.received',
    description: 'Messages that visitors send.',
  },
  {
    field: 'conversationClosed',
    type: ConversationClosedEvent,
    event: 'conversation.closed',
    description: 'Conversations that are closed.',
  },
  { field: 'leadCaptured', type: LeadCapturedEvent, event: 'lead.captured', description: 'Leads that are captured.' },
] as const;

for (const { field, type, event, description } of kinds) {
  builder.subscriptionField(field, (t) =>
    t.field({
      type,
      description,
      extensions: calls(streamEvents),
      args: {
        after: t.arg.string({ description: readerDescriptions.after }),
        conversationId: t.arg.id({ description: readerDescriptions.conversationId }),
      },
      subscribe: (_, args, context) => subscribeTo({ ...args, types: [event] }, context),
      resolve: (logged) => logged as LogEvent,
    }),
  );
}

builder.subscriptionField('events', (t) =>
  t.field({
    type: Event,
    description: 'Every event, or those of some types.',
    extensions: calls(streamEvents),
    args: {
      types: t.arg({ type: [EventTypeEnum], description: readerDescriptions.types }),
      after: t.arg.string({ description: readerDescriptions.after }),
      conversationId: t.arg.id({ description: readerDescriptions.conversationId }),
    },
    subscribe: (_, args, context) => subscribeTo(args, context),
    resolve: (logged) => logged as LogEvent,
  }),
);
