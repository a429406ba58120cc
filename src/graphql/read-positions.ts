import { descriptionOf, descriptionsOf } from '../domain/descriptions.ts';
import { type ReadPosition as ReadPositionShape, readPositionShape } from '../domain/read-position-record.ts';
import { type MarkedRead, markRead } from '../domain/read-positions.ts';
import { builder, calls, payloadType } from './builder.ts';
import { Conversation } from './conversations.ts';

const described = descriptionsOf(readPositionShape);

export const ReadPosition = builder.objectRef<ReadPositionShape>('ReadPosition').implement({
  description: descriptionOf(readPositionShape),
  fields: (t) => ({
    reader: t.exposeString('reader', { description: described.reader }),
    sequence: t.exposeInt('sequence', { description: described.sequence }),
    readAt: t.expose('readAt', { type: 'DateTime', description: described.readAt }),
  }),
});

const MarkReadInput = builder.inputType('MarkReadInput', {
  description: 'How far a reader has read a conversation.',
  fields: (t) => ({
    conversationId: t.id({ required: true, description: 'The id of the conversation.' }),
    reader: t.string({
      required: true,
      description:
        'Who has read: an agent’s id in your system, or `visitor`. 1 to 128 letters, digits and characters of `_.:@+-`.',
    }),
    sequence: t.int({
      required: true,
      description: 'The sequence of the last message that it has read; before the present position, nothing changes.',
    }),
  }),
});

const MarkReadPayload = payloadType<MarkedRead>('markRead', (t) => ({
  readPosition: t.expose('readPosition', { type: ReadPosition, description: 'The position afterwards.' }),
  conversation: t.expose('conversation', { type: Conversation, description: 'The conversation.' }),
}));

builder.mutationField('markRead', (t) =>
  t.field({
    type: MarkReadPayload,
    nullable: true,
    description: markRead.summary,
    extensions: calls(markRead),
    args: { input: t.arg({ type: MarkReadInput, required: true, description: 'The reader and how far it has read.' }) },
    resolve: (_, { input }, context) => context.call(markRead, input),
  }),
);
