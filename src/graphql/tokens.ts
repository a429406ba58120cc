import { createToken, type NewToken, newTokenShape } from '../domain/tokens.ts';
import { Scope } from './api-keys.ts';
import { addMutation, builder, fieldsOf, payloadType, type ResultOf } from './builder.ts';
import { VisitorInput, VisitorType } from './conversations.ts';
import { Sender } from './messages.ts';

const Token = builder.objectRef<NewToken>('Token').implement({
  description:
    'A short-lived credential for a browser page. It is returned only once, and becomes invalid with its API key.',
  fields: (t) =>
    fieldsOf(t, newTokenShape, {
      token: 'String',
      expiresAt: 'DateTime',
      scopes: [Scope],
      conversationId: 'ID',
      visitor: VisitorType,
      sender: Sender,
      requestsPerHour: 'Int',
      trustedDocumentsOnly: 'Boolean',
    }),
});

const CreateTokenInput = builder.inputType('CreateTokenInput', {
  description: 'A new token.',
  fields: (t) => ({
    scopes: t.field({
      type: [Scope],
      required: true,
      description: 'The scopes of the token: at most those of the calling API key.',
    }),
    conversationId: t.id({
      description:
        'Binds the token to this conversation: it can only read it, send messages to it and follow its events.',
    }),
    visitor: t.field({
      type: VisitorInput,
      description:
        'Binds the token to this visitor, whose `id` is required: it can only list and read its conversations, follow their events, start new ones, send messages and capture leads in them, and move the read position of `visitor`. Not together with `conversationId`.',
    }),
    sender: t.field({
      type: Sender,
      description:
        'Restricts the token to sending messages as this sender. A token bound to a conversation sends as VISITOR unless another is given, and one bound to a visitor always does.',
    }),
    requestsPerHour: t.int({
      description:
        'For a token bound to a conversation or a visitor: how many requests it may send in any 60 minutes, together with other tokens that are bound to the same. By default the larger of 60 and a fiftieth of the account’s limit, and never more than half of that limit.',
    }),
    trustedDocumentsOnly: t.boolean({
      description:
        'Restricts the token to running registered documents, by their ids: it can send no other document, and cannot call REST.',
    }),
    expiresInSeconds: t.int({ description: 'The lifetime of the token in seconds: 60 to 3600, by default 900.' }),
  }),
});

const CreateTokenPayload = payloadType<ResultOf<typeof createToken>>('createToken', (t) => ({
  token: t.expose('token', { type: Token, description: 'The new token.' }),
}));

addMutation(createToken, CreateTokenPayload, CreateTokenInput, 'The token to create.');
