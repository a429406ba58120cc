import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorOf } from '../src/domain/caller.ts';
import { sendMessage } from '../src/domain/messages.ts';
import { sampleConversation, sampleHash, sampleKey, sampleMessage } from './support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const maxMessages = 10_000;

/** A conversation with a message of each of these contents, stored as it would be if they had been sent one by one. */
async function fill(client: TestAccount, messages: readonly string[]): Promise<string> {
  const contentBytes = Buffer.byteLength(messages.join(''));
  const conversation = sampleConversation({ messageCount: messages.length, contentBytes });
  await server.storage.write(async (tx) => {
    await tx.conversations.insert(client.account.id, conversation);
    for (const [index, content] of messages.entries()) {
      await tx.messages.insert(client.account.id, sampleMessage(conversation.id, index + 1, { content }));
    }
  });
  return conversation.id;
}

async function send(client: TestAccount, conversationId: string, messages: readonly string[]): Promise<void> {
  const caller = operatorOf(client.account);
  await Promise.all(
    messages.map((content) =>
      sendMessage.execute(server.app.ports, caller, { conversationId, content, sender: 'agent' }),
    ),
  );
}

test('a conversation holds 10,000 messages and refuses the next on both faces', async () => {
  const client = await server.account();
  // All but the last ten are stored as they would be, without being sent one by one.
  const conversation = sampleConversation({ messageCount: maxMessages - 10 });
  const { id } = conversation;
  await server.storage.write(async (tx) => await tx.conversations.insert(client.account.id, conversation));
  const atOnce = 1_000; // ten thousand rows of one statement can take longer than a statement may
  for (let stored = 0; stored < conversation.messageCount; stored += atOnce) {
    await server.storage.write(async (tx) => {
      for (let sequence = stored + 1; sequence <= Math.min(stored + atOnce, conversation.messageCount); sequence++) {
        await tx.messages.insert(client.account.id, sampleMessage(id, sequence));
      }
    });
  }
  await send(
    client,
    id,
    Array.from({ length: 10 }, (_, index) => `message ${index}`),
  );
  const refused = await client.rest('POST', `/conversations/${id}/messages`, {
    body: { content: 'x', sender: 'visitor' },
  });
  expect([refused.status, refused.body.code]).toEqual([409, 'QUOTA_EXCEEDED']);
  const { errors } = await client.graphql(
    'mutation ($id: ID!) { sendMessage(input: { conversationId: $id, content: "x", sender: VISITOR }) { eventCursor } }',
    { id },
  );
  expect(errors?.[0]?.extensions.code).toBe('QUOTA_EXCEEDED');
  const { body } = await client.rest('GET', `/conversations/${id}`);
  expect(body.messages).toHaveLength(maxMessages);
  expect(body.messages.map(({ sequence }: { sequence: number }) => sequence)).toEqual(
    body.messages.map((_: object, index: number) => index + 1),
  );
});

test('a conversation holds 8 MiB of content, counted in bytes of UTF-8', async () => {
  const client = await server.account();
  const largest = '🚚'.repeat(16_384); // 64 KiB
  const id = await fill(
    client,
    Array.from({ length: 127 }, () => largest),
  );
  const send = (content: string) =>
    client.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'agent' } });
  expect((await send(largest.slice(2))).status).toBe(201); // 4 bytes are left
  expect((await send('12345')).body.code).toBe('QUOTA_EXCEEDED');
  expect((await send('1234')).status).toBe(201);
});

test('the metadata and the author of a message count like its content, as JSON', async () => {
  const client = await server.account();
  const largest = '🚚'.repeat(16_384);
  const id = await fill(
    client,
    Array.from({ length: 127 }, () => largest),
  );
  const send = (content: string, beside: object = {}) =>
    client.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'agent', ...beside } });
  const beside = { metadata: { note: '🚚'.repeat(2_000) }, author: { id: 'agent-3', name: 'Gräfin' } };
  const bytes = Buffer.byteLength(JSON.stringify(beside.metadata) + JSON.stringify(beside.author));
  expect((await send('ä'.repeat(5_000), beside)).status).toBe(201);
  const left = 64 * 1024 - 10_000 - 2 * bytes - 4; // so that there is room for the like, and 4 bytes of text
  expect((await send('🚚'.repeat(left / 4) + 'x'.repeat(left % 4))).status).toBe(201);
  expect((await send('12345', beside)).body.code).toBe('QUOTA_EXCEEDED');
  expect((await send('1234', beside)).status).toBe(201);
  expect((await send('x')).body.code).toBe('QUOTA_EXCEEDED');
});

test('an account has at most a hundred keys that are not revoked', async () => {
  const client = await server.account();
  await server.storage.write(async (tx) => {
    for (let made = 1; made < 99; made++) await tx.apiKeys.insert(client.account.id, sampleKey(), sampleHash());
  });
  expect((await client.rest('POST', '/api-keys', { body: { name: 'the last' } })).status).toBe(201);
  const refused = await client.rest('POST', '/api-keys', { body: { name: 'one too many' } });
  expect([refused.status, refused.body.code]).toEqual([409, 'QUOTA_EXCEEDED']);
  const { data } = await client.graphql('{ apiKeys(first: 1) { totalCount nodes { id } } }');
  expect(data.apiKeys.totalCount).toBe(100);
  await client.rest('DELETE', `/api-keys/${data.apiKeys.nodes[0].id}`);
  expect((await client.rest('POST', '/api-keys', { body: { name: 'in its place' } })).status).toBe(201);
});
