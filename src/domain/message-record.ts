import * as z from 'zod';
import { idShape } from './ids.ts';
import { metadataShape } from './metadata.ts';
import { nullableText, textShape } from './shapes.ts';
import { firstCodePoints } from './text.ts';
import { timeShape } from './time.ts';

export const senders = ['agent', 'visitor', 'bot'] as const;
export type Sender = (typeof senders)[number];

export const authorShape = z
  .object({
    id: nullableText('The author’s id in the client’s system. Null when read with a bound token.', 'agent-3'),
    name: nullableText('Display name.', 'Grace'),
  })
  .meta({ id: 'MessageAuthor', description: 'The agent or bot that wrote a message.' });

export type Author = Readonly<z.output<typeof authorShape>>;

export const messageShape = z
  .object({
    id: idShape('message').describe('Its id.'),
    conversationId: idShape('conversation').describe('The conversation it belongs to.'),
    sequence: z.int().min(1).describe('Position in the conversation: 1, 2, 3 … without gaps.'),
    sender: z.enum(senders).describe('Role of the sender.'),
    content: textShape('Its text: 1 to 16,384 characters.', 'It will be with you tomorrow.'),
    author: authorShape.nullable().describe('Who wrote it, if given.'),
    clientId: nullableText('The sender’s own mark, by which it knows its own message in the event log.', 'draft-17'),
    metadata: metadataShape.describe('Arbitrary client data. Empty when read with a bound token.'),
    createdAt: timeShape.describe('When it was sent.'),
  })
  .meta({ id: 'Message', description: 'A message in a conversation. Messages never change.' });

export type Message = Readonly<z.output<typeof messageShape>>;

/** In code points. */
const previewLength = 200;

/** The last message of a conversation, short enough for lists. */
export const lastMessageShape = messageShape
  .pick({ id: true, sequence: true, sender: true, author: true, createdAt: true })
  .extend({
    preview: textShape(`The first ${previewLength} characters of its text.`, 'It will be with you tomorrow.'),
  })
  .meta({ id: 'LastMessage', description: 'The last message of a conversation, with the beginning of its text.' });

export type LastMessage = Readonly<z.output<typeof lastMessageShape>>;

export function lastMessageOf({ id, sequence, sender, author, createdAt, content }: Message): LastMessage {
  return { id, sequence, sender, author, createdAt, preview: previewOf(content) };
}

export function previewOf(content: string): string {
  return firstCodePoints(content, previewLength);
}
