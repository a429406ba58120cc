import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import { type Case, capitals, create, unknownConversation } from './case.ts';

/** GraphQL spells `conversations:read` as CONVERSATIONS_READ. */
function minting(
  name: string,
  body: Json,
  { given = async () => ({}), ...rest }: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  // What the case has made is the conversation that the token is bound to.
  const input = ({ id }: Json) => (id === undefined ? body : { ...body, conversationId: id });
  const spelt = (made: Json) => {
    const { scopes, ...others } = capitals(input(made));
    return { ...others, scopes: scopes?.map((scope: string) => scope.toUpperCase().replace(':', '_')) };
  };
  return {
    name: `making a token ${name}`,
    given,
    rest: (made) => ['POST', '/tokens', input(made)],
    graphql: (made) => [
      `mutation ($input: CreateTokenInput!) { result: createToken(input: $input) { token { ${select.token} } } }`,
      { input: spelt(made) },
    ],
    ...rest,
  };
}

export const credentialsCases: readonly Case[] = [
  {
    name: 'getting the account',
    rest: () => ['GET', '/account'],
    graphql: () => [`{ result: account { ${select.account} } }`],
    expected: 200,
  },
  {
    name: 'creating a key with all scopes',
    rest: () => ['POST', '/api-keys', { name: 'server' }],
    graphql: () => [`mutation { result: createApiKey(input: { name: "server" }) { apiKey { ${select.apiKey} } } }`],
    expected: 201,
    check: ({ scopes }) => expect(scopes).toHaveLength(8),
  },
  {
    name: 'creating a key with one scope that expires',
    rest: () => [
      'POST',
      '/api-keys',
      { name: 'reader', scopes: ['leads:read'], expiresAt: '2030-01-01T01:00:00+01:00' },
    ],
    graphql: () => [
      `mutation { result: createApiKey(input: { name: "reader", scopes: [LEADS_READ], expiresAt: "2030-01-01T01:00:00+01:00" }) { apiKey { ${select.apiKey} } } }`,
    ],
    expected: 201,
    check: ({ expiresAt }) => expect(expiresAt).toBe('2030-01-01T00:00:00.000Z'),
  },
  {
    name: 'creating a key that expires at a time in small letters',
    rest: () => ['POST', '/api-keys', { name: 'reader', expiresAt: '2030-01-01t00:00:00z' }],
    graphql: () => [
      `mutation { result: createApiKey(input: { name: "reader", expiresAt: "2030-01-01t00:00:00z" }) { apiKey { ${select.apiKey} } } }`,
    ],
    expected: 201,
    check: ({ expiresAt }) => expect(expiresAt).toBe('2030-01-01T00:00:00.000Z'),
  },
  {
    name: 'creating a key that expires after the year 9999 of UTC is refused',
    rest: () => ['POST', '/api-keys', { name: 'far', expiresAt: '9999-12-31T23:59:59-23:59' }],
    graphql: () => [
      'mutation { result: createApiKey(input: { name: "far", expiresAt: "9999-12-31T23:59:59-23:59" }) { apiKey { id } } }',
    ],
    expected: 'VALIDATION_FAILED',
    pointers: ['/expiresAt'],
  },
  {
    name: 'creating a key that has expired already is refused',
    rest: () => ['POST', '/api-keys', { name: 'late', expiresAt: '2020-01-01T00:00:00Z' }],
    graphql: () => [
      'mutation { result: createApiKey(input: { name: "late", expiresAt: "2020-01-01T00:00:00Z" }) { apiKey { id } } }',
    ],
    expected: 'VALIDATION_FAILED',
    pointers: ['/expiresAt'],
  },
  {
    name: 'listing the keys',
    rest: () => ['GET', '/api-keys'],
    graphql: () => [
      `{ result: apiKeys { data: nodes { ${select.apiKey} } totalCount pageInfo { hasNextPage endCursor } } }`,
    ],
    expected: 200,
    check: ({ data }) => expect(data).toHaveLength(1),
  },
  {
    name: 'revoking a key',
    given: async (client) => (await client.rest('POST', '/api-keys', { body: { name: 'old' } })).body,
    rest: ({ id }) => ['DELETE', `/api-keys/${id}`],
    graphql: ({ id }) => [
      'mutation ($id: ID!) { result: revokeApiKey(input: { id: $id }) { revokedApiKeyId } }',
      { id },
    ],
    expected: 204,
  },
  {
    name: 'revoking an unknown key',
    rest: () => ['DELETE', '/api-keys/key_01m7yzcf3tfz1aan3df712nas7'],
    graphql: () => [
      'mutation { result: revokeApiKey(input: { id: "key_01m7yzcf3tfz1aan3df712nas7" }) { revokedApiKeyId } }',
    ],
    expected: 'NOT_FOUND',
  },

  minting(
    'for all conversations',
    { scopes: ['conversations:write', 'conversations:read', 'conversations:read'] },
    {
      expected: 201,
      check: ({ scopes, conversationId, sender }) =>
        expect([scopes, conversationId, sender]).toEqual([['conversations:read', 'conversations:write'], null, null]),
    },
  ),
  minting(
    'for a visitor in one conversation',
    { scopes: ['conversations:write'], sender: 'visitor', expiresInSeconds: 3_600 },
    {
      given: create,
      expected: 201,
      events: [],
      check: ({ sender, expiresAt }) => expect([sender, expiresAt]).toEqual(['visitor', '2026-11-21T07:12:00.000Z']),
    },
  ),
  minting(
    'with nulls is one without',
    { scopes: ['leads:read'], conversationId: null, sender: null, expiresInSeconds: null },
    { expected: 201, check: ({ expiresAt }) => expect(expiresAt).toBe('2026-11-21T06:27:00.000Z') },
  ),
  minting(
    'for an unknown conversation',
    { scopes: ['leads:read'], conversationId: unknownConversation },
    { expected: 'NOT_FOUND' },
  ),
  minting(
    'for a conversation, but for no sender: it speaks as the visitor',
    { scopes: ['conversations:write'] },
    {
      given: create,
      expected: 201,
      check: ({ sender, visitor }) => expect([sender, visitor]).toEqual(['visitor', null]),
    },
  ),
  minting(
    'for a visitor: it speaks as one, whatever it is made for',
    {
      scopes: ['conversations:write'],
      visitor: { id: 'customer-7', name: 'Ada' },
      sender: 'agent',
      requestsPerHour: 5,
    },
    {
      expected: 201,
      events: [],
      check: (made) =>
        expect(made).toMatchObject({
          conversationId: null,
          visitor: { id: 'customer-7', name: 'Ada', email: null },
          sender: 'visitor',
          requestsPerHour: 5,
        }),
    },
  ),
  minting(
    'for a visitor without an id is refused',
    { scopes: ['conversations:write'], visitor: { name: 'Ada' } },
    { expected: 'VALIDATION_FAILED', pointers: ['/visitor/id'] },
  ),
  minting(
    'for a visitor with an empty id is refused',
    { scopes: ['conversations:write'], visitor: { id: '' } },
    { expected: 'VALIDATION_FAILED', pointers: ['/visitor/id'] },
  ),
  minting(
    'for a visitor and a conversation is refused',
    { scopes: ['conversations:write'], visitor: { id: 'customer-7' } },
    { given: create, expected: 'VALIDATION_FAILED', pointers: ['/visitor'] },
  ),
  minting(
    'for nothing, with a share, is refused',
    { scopes: ['conversations:write'], requestsPerHour: 5 },
    { expected: 'VALIDATION_FAILED', pointers: ['/requestsPerHour'] },
  ),
  minting(
    'for registered documents only',
    { scopes: ['leads:read'], trustedDocumentsOnly: true },
    { expected: 201, check: ({ trustedDocumentsOnly }) => expect(trustedDocumentsOnly).toBe(true) },
  ),
  minting(
    'for registered documents or not, which is not said: it is not',
    { scopes: ['leads:read'], trustedDocumentsOnly: null },
    { expected: 201, check: ({ trustedDocumentsOnly }) => expect(trustedDocumentsOnly).toBe(false) },
  ),
  minting(
    'for registered documents "true" is refused',
    { scopes: ['leads:read'], trustedDocumentsOnly: 'true' },
    { expected: 'VALIDATION_FAILED', pointers: ['/trustedDocumentsOnly'] },
  ),
  minting('with no scopes is refused', {}, { expected: 'VALIDATION_FAILED', pointers: ['/scopes'] }),
  minting(
    'with an empty list of scopes is refused',
    { scopes: [] },
    { expected: 'VALIDATION_FAILED', pointers: ['/scopes'] },
  ),
  minting(
    'for longer than an hour is refused',
    { scopes: ['leads:read'], expiresInSeconds: 3_601 },
    { expected: 'VALIDATION_FAILED', pointers: ['/expiresInSeconds'] },
  ),
  minting(
    'for less than a minute is refused',
    { scopes: ['leads:read'], expiresInSeconds: 59 },
    { expected: 'VALIDATION_FAILED', pointers: ['/expiresInSeconds'] },
  ),
  {
    name: 'making a token with everything wrong: all of it is told',
    rest: () => ['POST', '/tokens', { scopes: 1.5, conversationId: {}, sender: 5, expiresInSeconds: 1.5, x: 1 }],
    graphql: () => [
      'mutation ($input: CreateTokenInput!) { result: createToken(input: $input) { eventCursor } }',
      { input: { scopes: 1.5, conversationId: {}, sender: 5, expiresInSeconds: 1.5, x: 1 } },
    ],
    expected: 'VALIDATION_FAILED',
  },
];
