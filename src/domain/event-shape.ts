import * as z from 'zod';
import { changesShape } from './conversation-events.ts';
import { conversationShape } from './conversation-record.ts';
import { exampleEventCursor } from './event-cursor.ts';
import { type EventType, eventTypes } from './event-types.ts';
import { idShape } from './ids.ts';
import { leadShape } from './leads.ts';
import { messageShape } from './message-record.ts';
import { readPositionShape } from './read-position-record.ts';
import { textShape } from './shapes.ts';
import { timeShape } from './time.ts';

// The form of events in both APIs, in streams and in deliveries. Not in events.ts, which the resources import to write
// to the log: these shapes import the resources.

const erasedShape = z
  .object({ erased: z.literal(true).describe('Always true: the data was erased.') })
  .meta({ id: 'Erased', description: 'The data of an event whose conversation was deleted.' });

function eventOf<Type extends EventType, Data extends z.ZodType>(
  type: Type,
  data: Data,
  { name, description }: { name: string; description: string },
) {
  return z
    .object({
      id: idShape('event').describe('Its id, the same in every delivery.'),
      type: z.literal(type).describe('Type of the event.'),
      timestamp: timeShape.describe('When it happened.'),
      sequence: z
        .int()
        .min(1)
        .nullable()
        .describe('Position in the account’s log: 1, 2, 3 … without gaps. Null when read with a bound token.'),
      cursor: textShape(
        'Position just after this event: pass it as `after` to continue from there.',
        exampleEventCursor,
      ),
      apiVersion: z.literal('v1').describe('Payload format version.'),
      accountId: idShape('account').describe('The account it belongs to.'),
      data: z.union([data, erasedShape]).describe('State right after the event.'),
    })
    .meta({ id: name, description });
}

const conversation = conversationShape.describe('The conversation right after the event.');

const started = eventOf('conversation.started', z.object({ conversation }), {
  name: 'ConversationStartedEvent',
  description: 'A conversation was started.',
});

const received = eventOf(
  'message.received',
  z.object({ message: messageShape.describe('The message.'), conversation }),
  { name: 'MessageReceivedEvent', description: 'A visitor sent a message.' },
);

const updated = eventOf(
  'conversation.updated',
  z.object({ conversation, changes: changesShape.describe('What was changed.') }),
  { name: 'ConversationUpdatedEvent', description: 'A client changed fields of a conversation.' },
);

const captured = eventOf(
  'lead.captured',
  z.object({
    lead: leadShape.describe('The lead.'),
    conversation: conversationShape.nullable().describe('The conversation in which it was captured, if any.'),
  }),
  { name: 'LeadCapturedEvent', description: 'A lead was captured.' },
);

const read = eventOf(
  'conversation.read',
  z.object({
    conversationId: idShape('conversation').describe('The conversation.'),
    readPosition: readPositionShape.describe('The position after its move.'),
  }),
  { name: 'ConversationReadEvent', description: 'A reader has read further in a conversation.' },
);

/** Holds nothing that could be erased. */
const deleted = eventOf(
  'conversation.deleted',
  z.object({ conversationId: idShape('conversation').describe('The id that the conversation had.') }),
  { name: 'ConversationDeletedEvent', description: 'A conversation was deleted.' },
);

export const eventShapes = {
  'conversation.started': started,
  'message.received': received,
  'conversation.closed': eventOf('conversation.closed', z.object({ conversation }), {
    name: 'ConversationClosedEvent',
    description: 'A conversation was closed.',
  }),
  'lead.captured': captured,
  'message.sent': eventOf('message.sent', received.shape.data.options[0], {
    name: 'MessageSentEvent',
    description: 'An agent or a bot sent a message.',
  }),
  'conversation.reopened': eventOf('conversation.reopened', z.object({ conversation }), {
    name: 'ConversationReopenedEvent',
    description: 'A conversation was reopened.',
  }),
  'conversation.updated': updated,
  'conversation.read': read,
  'conversation.deleted': deleted,
} as const satisfies Record<EventType, z.ZodType>;

export const eventShape = z
  .discriminatedUnion('type', [
    started,
    received,
    eventShapes['conversation.closed'],
    captured,
    eventShapes['message.sent'],
    eventShapes['conversation.reopened'],
    updated,
    read,
    deleted,
  ])
  .meta({
    id: 'Event',
    description:
      'An entry of the event log, which tells of every change of a conversation. The events of one operation have the same snapshot.',
  });

/** The payload of testWebhook. */
export const sampleEventShape = started
  .extend({
    type: z.enum(eventTypes).describe('Type of the sample.'),
    sequence: z.literal(0).describe('Always 0: a sample is not in the log.'),
    data: z
      .union([started, received, updated, read, captured, deleted].map((event) => event.shape.data.options[0]))
      .describe('Data as in an event of this type. Its ids refer to nothing.'),
    test: z.literal(true).describe('Always true: this is a sample.'),
  })
  .meta({ id: 'SampleEvent', description: 'A made-up event for testing a receiver.' });
