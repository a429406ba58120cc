import { createConversation } from '../domain/conversations.ts';
import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import { builder, calls } from './builder.ts';
import { ConversationStatus, CreateConversationPayload, VisitorInput } from './conversations.ts';
import { FirstMessageInput } from './messages.ts';

// In a file of its own, since its input holds a message, and messages are built on conversations.

const CreateConversationInput = builder.inputType('CreateConversationInput', {
  description: 'A new conversation; everything of it can be left out.',
  fields: (t) => ({
    subject: t.string({ description: 'What it is about: at most 200 characters.' }),
    status: t.field({
      type: ConversationStatus,
      description:
        'ACTIVE by default, or PENDING when its first message is a visitor’s. With an agent’s message it is ACTIVE in any case; CLOSED is refused.',
    }),
    visitor: t.field({ type: VisitorInput, description: 'Whom it is with.' }),
    externalId: t.string({ description: 'The client’s own id of it, unique in the account: at most 128 characters.' }),
    metadata: t.field({ type: 'Metadata', description: 'The client’s own data.' }),
    message: t.field({ type: FirstMessageInput, description: 'Its first message.' }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

builder.mutationField('createConversation', (t) =>
  t.field({
    type: CreateConversationPayload,
    nullable: true,
    description: createConversation.summary,
    extensions: calls(createConversation),
    args: { input: t.arg({ type: CreateConversationInput, required: true, description: 'The conversation.' }) },
    resolve: (_, { input }, context) => context.call(createConversation, input),
  }),
);
