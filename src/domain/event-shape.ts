import { z } from 'zod';
import { conversationShape } from './conversation.ts';
import { type EventType, exampleEventCursor } from './events.ts';
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
