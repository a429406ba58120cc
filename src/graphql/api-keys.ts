import {
  type ApiKey as ApiKeyShape,
  apiKeyShape,
  createApiKey,
  listApiKeys,
  type NewApiKey,
  revokeApiKey,
} from '../domain/api-keys.ts';
import { scopes } from '../domain/caller.ts';
import { newestFirstCursor } from '../domain/paging.ts';
import { addMutation, answering, builder, fieldsOf, payloadType, type ResultOf } from './builder.ts';
import { connectionOf, connectionType, edgeField, listInput, pageArgs } from './connection.ts';
import { Node } from './node.ts';

/** Spelt as an enum value: `conversations:read` is CONVERSATIONS_READ. */
export const Scope = builder.enumType('Scope', {
  description: 'A permission of a credential.',
  values: Object.fromEntries(
    scopes.map((scope) => [
      scope.toUpperCase().replace(':', '_'),
      { value: scope, description: `The scope \`${scope}\`.` },
    ]),
  ) as Record<string, { value: (typeof scopes)[number]; description: string }>,
});

const ApiKey = builder.objectRef<ApiKeyShape | NewApiKey>('ApiKey').implement({
  description: 'A credential for programs that call the service.',
  interfaces: [Node],
  fields: (t) => ({
    ...fieldsOf(t, apiKeyShape, {
      name: 'String',
      prefix: 'String',
      scopes: [Scope],
      expiresAt: 'DateTime',
      lastUsedAt: 'DateTime',
      createdAt: 'DateTime',
      revokedAt: 'DateTime',
    }),
    secret: t.string({
      nullable: true,
      description: 'The secret itself: returned once, by `createApiKey`, and null afterwards.',
      resolve: (key) => ('secret' in key ? key.secret : null),
    }),
  }),
});

const { Connection: ApiKeyConnection, Edge: ApiKeyEdge } = connectionType('ApiKey', ApiKey);

builder.queryField('apiKeys', (t) =>
  t.field({
    type: ApiKeyConnection,
    ...answering(listApiKeys),
    args: pageArgs,
    resolve: (_, args, context, info) => connectionOf(context, listApiKeys, info, listInput(args)),
  }),
);

const CreateApiKeyInput = builder.inputType('CreateApiKeyInput', {
  description: 'A new API key.',
  fields: (t) => ({
    name: t.string({ required: true, description: 'What the key is for: 1 to 200 characters.' }),
    scopes: t.field({
      type: [Scope],
      description: 'The scopes of the key: at most, and by default, those of the calling credential.',
    }),
    expiresAt: t.field({
      type: 'DateTime',
      description:
        'When the key expires: no later than the calling credential, and by default at the same time, if ever.',
    }),
  }),
});

const CreateApiKeyPayload = payloadType<ResultOf<typeof createApiKey>>('createApiKey', (t) => ({
  apiKey: t.expose('apiKey', { type: ApiKey, description: 'The new key, with its secret.' }),
  apiKeyEdge: edgeField(t, ApiKeyEdge, 'apiKeys', ({ apiKey }) => ({
    node: apiKey,
    cursor: newestFirstCursor(apiKey),
  })),
}));

const RevokeApiKeyInput = builder.inputType('RevokeApiKeyInput', {
  description: 'The API key to revoke.',
  fields: (t) => ({ id: t.id({ required: true, description: 'The id of the key.' }) }),
});

const RevokeApiKeyPayload = payloadType<ResultOf<typeof revokeApiKey>>('revokeApiKey', (t) => ({
  revokedApiKeyId: t.exposeID('revokedApiKeyId', { description: 'The id of the revoked key.' }),
}));

addMutation(createApiKey, CreateApiKeyPayload, CreateApiKeyInput, 'The key to create.');
addMutation(revokeApiKey, RevokeApiKeyPayload, RevokeApiKeyInput, 'The key to revoke.');
