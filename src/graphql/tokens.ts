import { descriptionsOf } from '../domain/descriptions.ts';
import { createToken, type NewToken, newTokenShape } from '../domain/tokens.ts';
import { Scope } from './api-keys.ts';
import { builder, calls, payloadType, type ResultOf } from './builder.ts';
import { Sender } from './messages.ts';

const described = descriptionsOf(newTokenShape);

const Token = builder.objectRef<NewToken>('Token').implement({
  description: 'A short-lived credential for a browser page. It is shown this once, and ends with its API key.',
  fields: (t) => ({
    token: t.exposeString('token', { description: described.token }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime', description: described.expiresAt }),
    scopes: t.expose('scopes', { type: [Scope], description: described.scopes }),
    conversationId: t.exposeID('conversationId', { nullable: true, description: described.conversationId }),
    sender: t.expose('sender', { type: Sender, nullable: true, description: described.sender }),
  }),
});

const CreateTokenInput = builder.inputType('CreateTokenInput', {
  description: 'A new token.',
  fields: (t) => ({
    scopes: t.field({
      type: [Scope],
      required: true,
      description: 'What it may do: nothing that the calling API key may not.',
    }),
    conversationId: t.id({
      description: 'Binds it to this conversation: it can read that one, write into it and follow its events, only.',
    }),
    sender: t.field({ type: Sender, description: 'Lets it send messages as this sender only.' }),
    expiresInSeconds: t.int({ description: 'How long it is valid: 60 to 3600, by default 900.' }),
  }),
});

const CreateTokenPayload = payloadType<ResultOf<typeof createToken>>('createToken', (t) => ({
  token: t.expose('token', { type: Token, description: 'The token, which is shown this once.' }),
}));

builder.mutationField('createToken', (t) =>
  t.field({
    type: CreateTokenPayload,
    nullable: true,
    description: createToken.summary,
    extensions: calls(createToken),
    args: { input: t.arg({ type: CreateTokenInput, required: true, description: 'The token.' }) },
    resolve: (_, { input }, context) => context.call(createToken, input),
  }),
);
