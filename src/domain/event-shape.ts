import { z } from 'zod';
import { conversationShape } from './conversation.ts';
import { exampleEventCursor } from './event-cursor.ts';
import { type EventType, eventTypes } from './event-types.ts';
import { idShape } from './ids.ts';
import { leadShape } from './leads.ts';
import { messageShape } from './messages.ts';
import { timeShape } from './time.ts';

// What an event looks like, wherever it is read. It lies apart from the log because it is made of the
// resources, and these write to the log.

const erasedShape = z
  .object({ erased: z.literal(true).describe('That there was more.') })
  .meta({ id: 'Erased', description: 'What is left of an event whose conversation was deleted.' });

function eventOf<Type extends EventType, Data extends z.ZodType>(
  type: Type,
  data: Data,
  { name, description }: { name: string; description: string },
) {
  return z
    .object({
      id: idShape('event').describe('Its id, the same in every delivery of it.'),
      type: z.literal(type).describe('What happened.'),
      timestamp: timeShape.describe('When it happened.'),
      sequence: z.int().min(1).describe('Its place in the account’s log: 1, 2, 3 … without gaps.'),
      cursor: z
        .string()
        .describe('The place just after it: give it as `after` to go on from there.')
        .meta({ examples: [exampleEventCursor] }),
      apiVersion: z.literal('v1').describe('The version of the form that it has.'),
      accountId: idShape('account').describe('The account that it happened in.'),
      data: z.union([data, erasedShape]).describe('What it was about, as it was right after it.'),
    })
    .meta({ id: name, description });
}

const conversation = conversationShape.describe('The conversation after it.');

export const eventShape = z
  .discriminatedUnion('type', [
    eventOf('conversation.started', z.object({ conversation }), {
      name: 'ConversationStartedEvent',
      description: 'A conversation was started.',
    }),
    eventOf('message.received', z.object({ message: messageShape.describe('The message.'), conversation }), {
      name: 'MessageReceivedEvent',
      description: 'A visitor has sent a message.',
    }),
    eventOf('conversation.closed', z.object({ conversation }), {
      name: 'ConversationClosedEvent',
      description: 'A conversation was closed.',
    }),
    eventOf(
      'lead.captured',
      z.object({
        lead: leadShape.describe('The lead.'),
        conversation: conversationShape.nullable().describe('The conversation that it was left in, if it was in one.'),
      }),
      { name: 'LeadCapturedEvent', description: 'A lead was captured.' },
    ),
  ])
  .meta({
    id: 'Event',
    description: 'Something that happened, as the log has it. An agent’s reply and a reopening are none.',
  });

const [started, received, closed, captured] = eventShape.options;

type OneEventShape = (typeof eventShape.options)[number];

function commonOf(event: OneEventShape) {
  const [, erased] = event.shape.data.options;
  return (event as z.ZodObject).omit({ data: true }).extend(erased.shape);
}

function flat(event: OneEventShape): z.ZodObject {
  const [told] = event.shape.data.options;
  return commonOf(event).extend(told.shape);
}

/** What testWebhook sends. */
export const sampleEventShape = started
  .extend({
    type: z.enum(eventTypes).describe('What could have happened.'),
    sequence: z.literal(0).describe('None: the log does not have it.'),
    data: z
      .union([started.shape.data.options[0], received.shape.data.options[0], captured.shape.data.options[0]])
      .describe('What an event of its type has. Its ids name nothing.'),
    test: z.literal(true).describe('That it is a sample.'),
  })
  .meta({ id: 'SampleEvent', description: 'An event that never happened, for a receiver to be tried with.' });

/** The events for a face on which what lies within `data` is the event's own: what all have, and each kind. */
export const flatEventShapes = {
  common: commonOf(started),
  started: flat(started),
  received: flat(received),
  closed: flat(closed),
  captured: flat(captured),
};
