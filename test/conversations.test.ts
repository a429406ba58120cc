import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

let server: TestServer;
let client: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

describe('a conversation', () => {
  test('started over REST is the same over GraphQL', async () => {
    const created = await client.rest('POST', '/conversations', {
      body: { subject: 'Parcel', visitor: { name: 'Ada' } },
    });
    expect(created.status).toBe(201);
    expect(created.headers['location']).toBe(`/v1/conversations/${created.body.id}`);
    const { data } = await client.graphql(
      `query ($id: ID!) { conversation(id: $id) { id status subject visitor { id name email } externalId metadata messageCount
        lastActivityAt firstResponseAt closedAt version createdAt updatedAt messages { nodes { id } totalCount } } }`,
      { id: created.body.id },
    );
    const { messages, ...conversation } = created.body;
    expect(messages).toEqual([]);
    expect(data.conversation).toEqual({ ...conversation, status: 'ACTIVE', messages: { nodes: [], totalCount: 0 } });
  });
});
