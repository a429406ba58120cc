import type { Conversation as ConversationShape } from '../domain/conversation-record.ts';
import type { ListedConversation } from '../domain/conversations.ts';
import { descriptionOf } from '../domain/descriptions.ts';
import { type Fault, validationFailed } from '../domain/errors.ts';
import { valueFaults } from '../domain/operation.ts';
import {
  maxReadPositions,
  type ReadPosition as ReadPositionShape,
  readerInput,
  readersInput,
  readPositionShape,
} from '../domain/read-position-record.ts';
import { type MarkedRead, markRead, positionsUpTo } from '../domain/read-positions.ts';
import { addMutation, builder, fieldsOf, payloadType } from './builder.ts';
import { besideDescription, Conversation, conversationBeside } from './conversations.ts';
import type { Loaders } from './loaders.ts';
import { listOfAtMost } from './measure.ts';

export const ReadPosition = builder.objectRef<ReadPositionShape>('ReadPosition').implement({
  description: descriptionOf(readPositionShape),
  fields: (t) => fieldsOf(t, readPositionShape, { reader: 'String', sequence: 'Int', readAt: 'DateTime' }),
});

/** Those that an operation has answered with the conversation, else those of now. */
async function positionsOf(
  conversation: ConversationShape | ListedConversation,
  { readPositions }: Loaders,
): Promise<readonly ReadPositionShape[]> {
  if ('readPositions' in conversation) return conversation.readPositions;
  const { positions } = await readPositions.load(conversation.id);
  return positionsUpTo(conversation.messageCount, positions);
}

builder.objectFields(Conversation, (t) => ({
  readPositions: t.field({
    type: [ReadPosition],
    nullable: true,
    description: 'How far its readers have read it: at most 50 positions, sorted by reader.',
    args: { readers: t.arg.stringList({ description: 'Only those of these readers, at most 50.' }) },
    extensions: listOfAtMost(maxReadPositions),
    // What is wrong is thrown, not rejected with: then the hundredth fault ends an operation before it finds the others.
    resolve: (conversation, { readers }, { loaders }) => {
      if (readers != null) refuseFaults(valueFaults(readersInput, readers, ['readers']));
      const asked = readers == null ? undefined : new Set(readers);
      return positionsOf(conversation, loaders).then((positions) =>
        positions.filter(({ reader }) => asked?.has(reader) ?? true),
      );
    },
  }),
  unreadCount: t.int({
    nullable: true,
    description: 'Number of messages that a reader has not read; null if it has no position in the conversation.',
    args: { reader: t.arg.string({ required: true, description: 'An agent’s id in your system, or `visitor`.' }) },
    extensions: listOfAtMost(maxReadPositions), // it is found among them
    resolve: (conversation, { reader }, { loaders }) => {
      refuseFaults(valueFaults(readerInput, reader, ['reader']));
      return positionsOf(conversation, loaders).then((positions) => {
        const position = positions.find((each) => each.reader === reader);
        return position === undefined ? null : conversation.messageCount - position.sequence;
      });
    },
  }),
}));

/** @throws VALIDATION_FAILED */
function refuseFaults(faults: readonly Fault[]): void {
  if (faults.length > 0) throw validationFailed(faults);
}

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
  conversation: t.field({
    type: Conversation,
    description: `The conversation. ${besideDescription}`,
    resolve: ({ conversation }, _, { caller }) => conversationBeside(conversation, caller),
  }),
}));

addMutation(markRead, MarkReadPayload, MarkReadInput, 'The reader and how far it has read.');
