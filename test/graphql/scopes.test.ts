import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

const creating = `mutation { createConversation(input: { message: { content: "hi", sender: VISITOR } }) {
  conversation { id messageCount messages { totalCount } } eventCursor } }`;

test('the write scope is enough for the resource of a payload, but not for its edges', async () => {
  const writer = await client.withScopes('conversations:write');
  const { data, errors } = await writer.graphql(creating);
  expect(data.createConversation.conversation).toMatchObject({ messageCount: 1, messages: null });
  expect(data.createConversation.eventCursor).toEqual(expect.any(String));
  expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([
    [['createConversation', 'conversation', 'messages'], 'FORBIDDEN'],
  ]);
  expect(errors?.[0]?.message).toContain('conversations:read');
});

test('with both scopes a payload shows the edge', async () => {
  const both = await client.withScopes('conversations:write', 'conversations:read');
  const { data, errors } = await both.graphql(creating);
  expect(errors).toBeUndefined();
  expect(data.createConversation.conversation.messages).toEqual({ totalCount: 1 });
});

test('the conversation of a sent message needs the read scope', async () => {
  const { body } = await client.rest('POST', '/conversations');
  const writer = await client.withScopes('conversations:write');
  const { data, errors } = await writer.graphql(
    `mutation ($id: ID!) { sendMessage(input: { conversationId: $id, content: "hi", sender: AGENT }) {
      message { content conversation { id } } conversation { messageCount } } }`,
    { id: body.id },
  );
  expect(data.sendMessage).toEqual({
    message: { content: 'hi', conversation: null },
    conversation: { messageCount: 1 },
  });
  expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN']);
});

test('a page that may write and not read is shown nothing of a conversation beside its own message or position', async () => {
  const { body } = await client.rest('POST', '/conversations', {
    body: { subject: 'Order 1042', visitor: { id: 'customer-7' }, assignee: { id: 'agent-3', name: 'Grace' } },
  });
  await client.rest('POST', `/conversations/${body.id}/messages`, {
    body: { content: 'It is lost.', sender: 'agent' },
  });
  const pageWith = async (...scopes: string[]) => {
    const { body } = await client.rest('POST', '/tokens', { body: { scopes, visitor: { id: 'customer-7' } } });
    return server.clientFor(body.token);
  };
  const query = `mutation ($id: ID!) {
    markRead(input: { conversationId: $id, reader: "visitor", sequence: 0 }) { readPosition { sequence } ...Beside }
    sendMessage(input: { conversationId: $id, content: "hi" }) { message { content } conversation { ...Whole } }
  }
  fragment Beside on MarkReadPayload { conversation { ...Whole } }
  fragment Whole on Conversation {
    messageCount subject visitor { id } assignee { name } lastMessage { preview } firstResponseAt closedAt
    readPositions { sequence } unreadCount(reader: "visitor")
  }`;
  const nothing = {
    subject: null,
    visitor: null,
    assignee: null,
    lastMessage: null,
    firstResponseAt: null,
    closedAt: null,
    readPositions: null,
    unreadCount: null,
  };

  const writer = await pageWith('conversations:write');
  expect(await writer.rest('GET', `/conversations/${body.id}`)).toMatchObject({ status: 403 });
  const { data, errors } = await writer.graphql(query, { id: body.id });
  expect(data).toEqual({
    markRead: { readPosition: { sequence: 0 }, conversation: { messageCount: 1, ...nothing } },
    sendMessage: { message: { content: 'hi' }, conversation: { messageCount: 2, ...nothing } },
  });
  expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual(
    ['markRead', 'sendMessage'].flatMap((field) =>
      Object.keys(nothing).map((name) => [[field, 'conversation', name], 'FORBIDDEN']),
    ),
  );
  expect(errors?.[0]?.message).toContain('conversations:read');

  const both = await (await pageWith('conversations:write', 'conversations:read')).graphql(query, { id: body.id });
  expect(both.errors).toBeUndefined();
  expect(both.data.markRead.conversation).toMatchObject({ subject: 'Order 1042', assignee: { name: 'Grace' } });
});

test('an API key is found by its id under the scope of their list, and the account with any', async () => {
  const {
    data: { createApiKey: made },
  } = await client.graphql('mutation { createApiKey(input: { name: "dashboard" }) { apiKey { id } } }');
  const query = `query ($ids: [ID!]!) {
    nodes(ids: $ids) { __typename id ... on ApiKey { name secret } ... on Account { plan rateLimit { limit } } }
  }`;
  const ids = [made.apiKey.id, client.account.id];
  const account = { __typename: 'Account', id: client.account.id, plan: 'BUSINESS', rateLimit: { limit: 1_000_000 } };
  const manager = await client.withScopes('keys:manage');
  expect((await manager.graphql(query, { ids })).data.nodes).toEqual([
    { __typename: 'ApiKey', id: made.apiKey.id, name: 'dashboard', secret: null },
    account,
  ]);
  const reader = await client.withScopes('conversations:read');
  const { data, errors } = await reader.graphql(query, { ids });
  expect(data.nodes).toEqual([null, account]);
  expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([[['nodes', 0], 'FORBIDDEN']]);
});
