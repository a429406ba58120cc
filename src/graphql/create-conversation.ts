import { createConversation } from '../domain/conversations.ts';
import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import { tagsRule } from '../domain/tags.ts';
import { addMutation, builder } from './builder.ts';
import { AssigneeInput, CreateConversationPayload, VisitorInput } from './conversations.ts';
import { FirstMessageInput } from './messages.ts';

// Not in conversations.ts: the input contains a message, and messages.ts imports conversations.ts.

const NewConversationStatus = builder.enumType('NewConversationStatus', {
  description: 'The status with which a conversation begins.',
  values: {
    ACTIVE: { value: 'active', description: 'Being handled.' },
    PENDING: { value: 'pending', description: 'Waiting for an agent.' },
  } as const,
});

const CreateConversationInput = builder.inputType('CreateConversationInput', {
  description: 'A new conversation; every field is optional.',
  fields: (t) => ({
    subject: t.string({ description: 'Its topic: at most 200 characters.' }),
    status: t.field({
      type: NewConversationStatus,
      description:
        'The initial status. Defaults to ACTIVE, or to PENDING if the first message is from a visitor. With a message from an agent it is always ACTIVE.',
    }),
    visitor: t.field({ type: VisitorInput, description: 'The visitor.' }),
    externalId: t.string({
      description: 'Its id in the client’s system, unique in the account: 1 to 128 characters.',
    }),
    assignee: t.field({ type: AssigneeInput, description: 'Which agent has it.' }),
    tags: t.stringList({ description: `Its tags: ${tagsRule}` }),
    metadata: t.field({
      type: 'Metadata',
      description: 'Arbitrary client data: a flat object of at most 50 keys and 8 KiB.',
    }),
    message: t.field({ type: FirstMessageInput, description: 'The first message.' }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

addMutation(createConversation, CreateConversationPayload, CreateConversationInput, 'The conversation.');
