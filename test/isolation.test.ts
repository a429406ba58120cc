import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OperationName, operations } from '../src/domain/operations.ts';
import type { Json } from './support/client.ts';
import { postMcp, toolCall } from './support/mcp.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

// Two accounts try every operation on each other's ids. Another account's thing must look exactly like
// nothing: the answer to its id is compared, word for word, with the answer to an id that never was.

interface Things {
  readonly conversation: string;
  readonly message: string;
  readonly lead: string;
  readonly apiKey: string;
  readonly account: string;
  readonly webhook: string;
  readonly delivery: string;
  readonly document: string;
}

const nothing: Things = {
  conversation: 'conv_01m7yzcf3tfz1aan3df712nas7',
  message: 'msg_01m7yzcf3tfz1aan3df712nas7',
  lead: 'lead_01m7yzcf3tfz1aan3df712nas7',
  apiKey: 'key_01m7yzcf3tfz1aan3df712nas7',
  account: 'acct_01m7yzcf3tfz1aan3df712nas7',
  webhook: 'whk_01m7yzcf3tfz1aan3df712nas7',
  delivery: 'dlv_01m7yzcf3tfz1aan3df712nas7',
  document: 'doc_01m7yzcf3tfz1aan3df712nas7',
};

/** The id of a document of the owner, as a tool could have made it. */
const ownDocument = 'doc_01m7yzcf3tfz1aan3df712nas8';

type Attempt = (client: TestAccount, things: Things, at: Pick<TestServer, 'url'>) => Promise<Json>;

/** Each operation on both faces, with the ids that it takes; those that take none are compared by what they list. */
const attempts: Record<OperationName, Attempt[]> = {
  getConversation: [
    (client, { conversation }) => client.rest('GET', `/conversations/${conversation}`),
    (client, { conversation }) =>
      client.graphql('query ($id: ID!) { conversation(id: $id) { id subject } }', { id: conversation }),
    (client, { conversation, message }) =>
      client.graphql('query ($ids: [ID!]!) { nodes(ids: $ids) { id } }', { ids: [conversation, message] }),
    (client, { message }) => client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: message }),
  ],
  updateConversation: [
    (client, { conversation }) => client.rest('PATCH', `/conversations/${conversation}`, { body: { subject: 'mine' } }),
    ...['updateConversation', 'closeConversation', 'reopenConversation'].map(
      (field): Attempt =>
        (client, { conversation }) =>
          client.graphql(`mutation ($id: ID!) { ${field}(input: { id: $id }) { conversation { id } } }`, {
            id: conversation,
          }),
    ),
  ],
  deleteConversation: [
    (client, { conversation }) => client.rest('DELETE', `/conversations/${conversation}`),
    (client, { conversation }) =>
      client.graphql('mutation ($id: ID!) { deleteConversation(input: { id: $id }) { deletedConversationId } }', {
        id: conversation,
      }),
  ],
  listMessages: [
    (client, { conversation }) => client.rest('GET', `/conversations/${conversation}/messages`),
    (client, { conversation }) =>
      client.graphql('query ($id: ID!) { conversation(id: $id) { messages { totalCount } } }', { id: conversation }),
  ],
  getMessage: [
    (client, { message }) => client.rest('GET', `/messages/${message}`),
    (client, { message }) => client.graphql('query ($id: ID!) { message(id: $id) { id content } }', { id: message }),
  ],
  sendMessage: [
    (client, { conversation }) =>
      client.rest('POST', `/conversations/${conversation}/messages`, { body: { content: 'x', sender: 'visitor' } }),
    (client, { conversation }) =>
      client.graphql(
        'mutation ($id: ID!) { sendMessage(input: { conversationId: $id, content: "x", sender: AGENT }) { message { id } } }',
        {
          id: conversation,
        },
      ),
  ],
  markRead: [
    (client, { conversation }) =>
      client.rest('PUT', `/conversations/${conversation}/read-positions/agent-3`, { body: { sequence: 0 } }),
    (client, { conversation }) =>
      client.graphql(
        'mutation ($id: ID!) { markRead(input: { conversationId: $id, reader: "agent-3", sequence: 0 }) { readPosition { sequence } } }',
        { id: conversation },
      ),
  ],
  search: [
    (client) => client.rest('GET', '/search?q=private'),
    (client) => client.rest('GET', '/search?q=private&assigneeId=private&tags=private'),
    (client) =>
      client.graphql('{ search(q: "private") { totalCount nodes { conversation { id } excerpt { text } } } }'),
  ],
  revokeApiKey: [
    (client, { apiKey }) => client.rest('DELETE', `/api-keys/${apiKey}`),
    (client, { apiKey }) =>
      client.graphql('mutation ($id: ID!) { revokeApiKey(input: { id: $id }) { revokedApiKeyId } }', { id: apiKey }),
  ],
  captureLead: [
    (client, { conversation }) =>
      client.rest('POST', '/leads', { body: { conversationId: conversation, email: 'a@example.com' } }),
    (client, { conversation }) =>
      client.graphql(
        'mutation ($id: ID!) { captureLead(input: { conversationId: $id, phone: "1" }) { lead { id } } }',
        { id: conversation },
      ),
  ],
  getLead: [
    (client, { lead }) => client.rest('GET', `/leads/${lead}`),
    (client, { lead }) => client.graphql('query ($id: ID!) { lead(id: $id) { id } }', { id: lead }),
    (client, { lead }) => client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: lead }),
  ],
  listLeads: [
    (client) => client.rest('GET', '/leads'),
    (client) => client.rest('GET', '/leads?email=private@example.com'),
    (client, { conversation }) => client.rest('GET', `/leads?conversationId=${conversation}`),
    (client) => client.graphql('{ leads { totalCount } }'),
  ],
  listEvents: [
    (client, { conversation }) => client.rest('GET', `/events?conversationId=${conversation}`),
    (client, { conversation }) =>
      client.graphql('query ($id: ID!) { events(conversationId: $id) { nodes { id } } eventCursor }', {
        id: conversation,
      }),
  ],
  // The streams of two accounts side by side have a test of their own.
  streamEvents: [(client) => client.rest('GET', '/events/stream?after=nonsense')],
  listConversations: [
    (client) => client.rest('GET', '/conversations?externalId=secret-order'),
    (client) => client.rest('GET', '/conversations'),
    ...[
      'visitorId=private',
      'visitorEmail=private@example.com',
      'assigneeId=private',
      'unassigned=false',
      'tags=private',
      'unreadBy=private',
      'updatedAfter=2026-01-01T00:00:00Z',
      'status=active,pending&sort=lastActivityAt',
    ].map((filter) => (client: TestAccount) => client.rest('GET', `/conversations?${filter}`)),
    (client) => client.graphql('{ conversations { totalCount nodes { id } } }'),
  ],
  createConversation: [
    // An id of the client's own that another account uses already is free here.
    (client) => client.rest('POST', '/conversations', { body: { externalId: 'secret-order' } }),
    (client) =>
      client.graphql(
        'mutation { createConversation(input: { externalId: "secret-order-2" }) { conversation { externalId } } }',
      ),
  ],
  createWebhook: [
    (client) => client.rest('POST', '/webhooks', { body: { url: 'https://example.com/hooks' } }),
    (client) => client.graphql('mutation { createWebhook(input: { url: "https://example.com" }) { webhook { url } } }'),
  ],
  listWebhooks: [
    (client) => client.rest('GET', '/webhooks'),
    (client) => client.graphql('{ webhooks { totalCount } }'),
  ],
  getWebhook: [
    (client, { webhook }) => client.rest('GET', `/webhooks/${webhook}`),
    (client, { webhook }) => client.graphql('query ($id: ID!) { webhook(id: $id) { id url } }', { id: webhook }),
    (client, { webhook }) => client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: webhook }),
  ],
  updateWebhook: [
    (client, { webhook }) => client.rest('PATCH', `/webhooks/${webhook}`, { body: { enabled: false } }),
    (client, { webhook }) =>
      client.graphql('mutation ($id: ID!) { updateWebhook(input: { id: $id, enabled: false }) { webhook { id } } }', {
        id: webhook,
      }),
  ],
  deleteWebhook: [
    (client, { webhook }) => client.rest('DELETE', `/webhooks/${webhook}`),
    (client, { webhook }) =>
      client.graphql('mutation ($id: ID!) { deleteWebhook(input: { id: $id }) { deletedWebhookId } }', { id: webhook }),
  ],
  rotateWebhookSecret: [
    (client, { webhook }) => client.rest('POST', `/webhooks/${webhook}/rotate-secret`),
    (client, { webhook }) =>
      client.graphql('mutation ($id: ID!) { rotateWebhookSecret(input: { id: $id }) { webhook { secret } } }', {
        id: webhook,
      }),
  ],
  testWebhook: [
    (client, { webhook }) => client.rest('POST', `/webhooks/${webhook}/test`),
    (client, { webhook }) =>
      client.graphql('mutation ($id: ID!) { testWebhook(input: { id: $id }) { delivery { id } } }', { id: webhook }),
  ],
  recoverWebhook: [
    (client, { webhook }) =>
      client.rest('POST', `/webhooks/${webhook}/recover`, { body: { since: '2026-01-01T00:00:00Z' } }),
    (client, { webhook }) =>
      client.graphql(
        'mutation ($id: ID!) { recoverWebhook(input: { id: $id, since: "2026-01-01T00:00:00Z" }) { count } }',
        { id: webhook },
      ),
  ],
  listDeliveries: [
    (client, { webhook }) => client.rest('GET', `/webhooks/${webhook}/deliveries`),
    (client, { webhook }) =>
      client.graphql('query ($id: ID!) { webhook(id: $id) { deliveries { totalCount } } }', { id: webhook }),
  ],
  getDelivery: [
    (client, { webhook, delivery }) => client.rest('GET', `/webhooks/${webhook}/deliveries/${delivery}`),
    (client, { delivery }) =>
      client.graphql('query ($id: ID!) { delivery(id: $id) { id attempts { totalCount } } }', { id: delivery }),
    (client, { delivery }) => client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: delivery }),
    // Through a webhook of one's own.
    async (client, { delivery }) => {
      const { body } = await client.rest('POST', '/webhooks', { body: { url: 'https://example.com' } });
      return await client.rest('GET', `/webhooks/${body.id}/deliveries/${delivery}`);
    },
  ],
  redeliver: [
    (client, { webhook, delivery }) => client.rest('POST', `/webhooks/${webhook}/deliveries/${delivery}/redeliver`),
    (client, { delivery }) =>
      client.graphql('mutation ($id: ID!) { redeliver(input: { id: $id }) { delivery { id } } }', { id: delivery }),
  ],
  getAnalytics: [
    (client) => client.rest('GET', '/analytics'),
    (client) => client.graphql('{ analytics { openNow { active pending } totals { conversationsStarted leads } } }'),
  ],
  getAccount: [
    (client) => client.rest('GET', '/account'),
    (client) => client.graphql('{ account { id eventCursor } }'),
    (client, { account }) => client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: account }),
  ],
  createApiKey: [(client) => client.rest('POST', '/api-keys', { body: { name: 'own' } })],
  listApiKeys: [
    (client) => client.rest('GET', '/api-keys'),
    (client) => client.graphql('{ apiKeys { totalCount } }'),
    (client, { apiKey }) => client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: apiKey }),
  ],
  createToken: [
    (client, { conversation }) =>
      client.rest('POST', '/tokens', { body: { scopes: ['events:read'], conversationId: conversation } }),
    (client, { conversation }) =>
      client.graphql(
        'mutation ($id: ID!) { createToken(input: { scopes: [EVENTS_READ], conversationId: $id }) { token { token } } }',
        { id: conversation },
      ),
  ],
  registerDocuments: [
    // An id that another account uses already is free here.
    (client) =>
      client.rest('POST', '/documents', { body: { documents: [{ id: ownDocument, text: '{ __typename }' }] } }),
    (client) =>
      client.graphql(
        'mutation ($id: ID!) { registerDocuments(input: { documents: [{ id: $id, text: "{ a }" }] }) { documents { text } } }',
        { id: ownDocument },
      ),
    // It is called as if there were none.
    (client, { document }) => client.post({ documentId: document }),
    (client, { document }) => client.post({ extensions: { persistedQuery: { version: 1, sha256Hash: document } } }),
  ],
  listDocuments: [
    (client) => client.rest('GET', '/documents'),
    (client) => client.graphql('{ documents { totalCount nodes { id text } } }'),
  ],
  deleteDocument: [
    (client, { document }) => client.rest('DELETE', `/documents/${document}`),
    (client, { document }) =>
      client.graphql('mutation ($id: ID!) { deleteDocument(input: { id: $id }) { deletedDocumentId } }', {
        id: document,
      }),
  ],
};

/** The ids that tools take. */
const toolArguments: Partial<Record<OperationName, (things: Things) => object>> = {
  getConversation: ({ conversation: id }) => ({ id }),
  updateConversation: ({ conversation: id }) => ({ id, subject: 'mine' }),
  listMessages: ({ conversation: conversationId }) => ({ conversationId }),
  getMessage: ({ message: id }) => ({ id }),
  sendMessage: ({ conversation: conversationId }) => ({ conversationId, content: 'x', sender: 'visitor' }),
  markRead: ({ conversation: conversationId }) => ({ conversationId, reader: 'agent-3', sequence: 0 }),
  search: () => ({ q: 'private' }),
  captureLead: ({ conversation: conversationId }) => ({ conversationId, email: 'a@example.com' }),
  listLeads: ({ conversation: conversationId }) => ({ conversationId }),
  getLead: ({ lead: id }) => ({ id }),
  listEvents: ({ conversation: conversationId }) => ({ conversationId }),
};

/** The attempt through the tool of an operation, if it takes an id. */
function throughTool(name: OperationName): Attempt[] {
  const args = toolArguments[name];
  if (args === undefined) return [];
  return [
    async ({ secret }, things, { url }) => {
      const { status, body } = await postMcp(url, secret, toolCall(name, args(things)));
      const { isError, content } = body.result;
      return { status, body: { isError, answer: JSON.parse(content[0].text) } };
    },
  ];
}

/** The place in the log, without the name of the log. */
const placeOf = (cursor: string): string =>
  Buffer.from(cursor, 'base64url')
    .toString()
    .replace(/^[0-9a-f]{16}\./, '');

/** What an outsider can tell from an answer: everything but what is new in each request, and in each database. */
function visible({ status, body, data, errors }: Json): Json {
  const text = JSON.stringify({ status, body, data, errors });
  return JSON.parse(
    text
      .replaceAll(/"requestId":"[^"]*"/g, '"requestId":""')
      .replaceAll(/(?<=Cursor":")[\w-]+/g, placeOf)
      .replaceAll(/(conv|msg|lead|evt|key|acct|whk|dlv|doc)_[0-9a-z]{26}/g, '$1')
      .replaceAll(/cs_[\w-]{43}/g, 'cs')
      .replaceAll(/whsec_[\w+/=]{44}/g, 'whsec')
      .replaceAll(/"prefix":"[^"]*"/g, '"prefix":""')
      .replaceAll(/"remaining":\d+/g, '"remaining":0'),
  );
}

let server: TestServer;
/** One on which nobody has anything. */
let empty: TestServer;
let owner: TestAccount;
let owned: Things;

beforeAll(async () => {
  [server, empty] = [await startTestServer(), await startTestServer()];
  owner = await server.account();
  const { body } = await owner.rest('POST', '/conversations', {
    body: {
      subject: 'private',
      externalId: 'secret-order',
      visitor: { id: 'private', email: 'private@example.com' },
      assignee: { id: 'private' },
      tags: ['private'],
      message: { content: 'private', sender: 'visitor' },
    },
  });
  await owner.rest('POST', '/conversations', { body: { externalId: 'secret-order-2' } });
  const key = await owner.rest('POST', '/api-keys', { body: { name: 'private' } });
  const lead = await owner.rest('POST', '/leads', {
    body: { name: 'private', email: 'private@example.com', conversationId: body.id },
  });
  const webhook = await owner.rest('POST', '/webhooks', { body: { url: 'https://private.example.com/hooks' } });
  const test = await owner.rest('POST', `/webhooks/${webhook.body.id}/test`);
  const documents = [{ id: ownDocument, text: 'query Private { account { name } }' }];
  await owner.rest('POST', '/documents', { body: { documents } });
  owned = {
    lead: lead.body.id,
    conversation: body.id,
    message: body.messages[0].id,
    apiKey: key.body.id,
    account: owner.account.id,
    webhook: webhook.body.id,
    delivery: test.body.id,
    document: ownDocument,
  };
});
afterAll(() => Promise.all([server.close(), empty.close()]));

async function stateOf(client: TestAccount): Promise<Json> {
  const [conversations, keys, webhooks, documents, account] = [
    await client.rest('GET', '/conversations?limit=100'),
    await client.rest('GET', '/api-keys?limit=100'),
    await client.rest('GET', '/webhooks?limit=100'),
    await client.rest('GET', '/documents?limit=100'),
    await client.graphql('{ account { eventCursor } }'),
  ];
  return [conversations.body, keys.body, webhooks.body, documents.body, account.data];
}

describe.each(Object.keys(operations) as OperationName[])('%s', (name) => {
  test('cannot tell another account’s thing from nothing, and changes nothing of it', async () => {
    const before = await stateOf(owner);
    expect(attempts[name].length).toBeGreaterThan(0);
    for (const attempt of [...attempts[name], ...throughTool(name)]) {
      // Two outsiders who have done the same, one of them where there is nothing.
      const [one, other] = [await server.account(), await empty.account()];
      const theirs = visible(await attempt(one, owned, server));
      expect(theirs).toEqual(visible(await attempt(other, nothing, empty)));
      expect(JSON.stringify(theirs)).not.toMatch(/private/i);
    }
    expect(await stateOf(owner)).toEqual(before);
  });
});
