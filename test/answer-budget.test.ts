import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Caller } from '../src/domain/caller.ts';
import { createConversation } from '../src/domain/conversations.ts';
import type { Json } from './support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

/** A query for the same text again and again. */
const again = (times: number, field: string) =>
  Array.from({ length: times }, (_, index) => `f${index}: ${field}`).join(' ');

test('an answer holds at most 16 MiB of text, however often it is asked for', async () => {
  const { body } = await client.rest('POST', '/conversations', { body: { metadata: { note: 'x'.repeat(8_000) } } });
  const content = 'x'.repeat(16_384);
  for (let sent = 0; sent < 20; sent++) {
    await client.rest('POST', `/conversations/${body.id}/messages`, { body: { content, sender: 'agent' } });
  }
  const query = (times: number) => ({
    query: `query ($id: ID!) { conversation(id: $id) { messages { nodes { ${again(times, 'content')} } } } }`,
    variables: { id: body.id },
  });
  const allowed = await client.post(query(51)); // 20 × 51 × 16 KiB
  expect(allowed.body.errors).toBeUndefined();
  const refused = await client.post(query(52));
  expect(refused.body.errors[0].extensions.code).toBe('QUERY_TOO_COMPLEX');
  expect(JSON.stringify(refused.body).length).toBeLessThan(100_000);
  // The operations of a batch share one answer.
  const batch = await client.post([query(30), query(30)]);
  expect(batch.body.flatMap(({ errors = [] }: Json) => errors)[0].extensions.code).toBe('QUERY_TOO_COMPLEX');
  const metadata = `{ conversations(first: 1) { nodes { ${again(600, 'metadata')} } } }`;
  expect((await client.post({ query: metadata })).status).toBe(200);
  const { errors } =
    await client.graphql(`{ a: conversation(id: "${body.id}") { ...M } ${again(4, `conversation(id: "${body.id}") { ...M }`)} }
    fragment M on Conversation { ${again(450, 'metadata')} }`);
  expect(errors?.[0]?.extensions.code).toBe('QUERY_TOO_COMPLEX');
});

test('a caller bound to a sender cannot speak as another, in a first message neither', async () => {
  const visitor: Caller = {
    account: client.account,
    keyId: 'test',
    credential: 'token',
    scopes: new Set(['conversations:write']),
    sender: 'visitor',
  };
  const create = (sender: string) =>
    createConversation.execute(server.app.world, visitor, { message: { content: 'hi', sender } });
  await expect(create('agent')).rejects.toMatchObject({ code: 'FORBIDDEN' });
  await expect(create('bot')).rejects.toMatchObject({ code: 'FORBIDDEN' });
  expect((await create('visitor')).conversation.status).toBe('pending');
});
