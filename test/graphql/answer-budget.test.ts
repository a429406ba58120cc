import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import type { Json } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

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

/** A conversation with twenty messages of 16 KiB. */
async function longConversation(): Promise<string> {
  const { body } = await client.rest('POST', '/conversations', { body: { metadata: { note: 'x'.repeat(8_000) } } });
  const content = 'x'.repeat(16_384);
  for (let sent = 0; sent < 20; sent++) {
    await client.rest('POST', `/conversations/${body.id}/messages`, { body: { content, sender: 'agent' } });
  }
  return body.id;
}

test('an answer holds at most 8 MiB, however often a text is asked for', async () => {
  const id = await longConversation();
  const query = (times: number) => ({
    query: `query ($id: ID!) { conversation(id: $id) { messages { nodes { ${again(times, 'content')} } } } }`,
    variables: { id },
  });
  const allowed = await client.post(query(25)); // 20 × 25 × 16 KiB
  expect(allowed.body.errors).toBeUndefined();
  const refused = await client.post(query(26));
  expect(refused.body.errors[0].extensions.code).toBe('QUERY_TOO_COMPLEX');
  expect(JSON.stringify(refused.body).length).toBeLessThan(100_000);
  // The operations of a batch share one answer.
  const batch = await client.post([query(15), query(15)]);
  expect(batch.body.flatMap(({ errors = [] }: Json) => errors)[0].extensions.code).toBe('QUERY_TOO_COMPLEX');
  const metadata = `{ conversations(first: 1) { nodes { ${again(600, 'metadata')} } } }`;
  expect((await client.post({ query: metadata })).status).toBe(200);
  const { errors } =
    await client.graphql(`{ a: conversation(id: "${id}") { ...M } ${again(4, `conversation(id: "${id}") { ...M }`)} }
    fragment M on Conversation { ${again(450, 'metadata')} }`);
  expect(errors?.[0]?.extensions.code).toBe('QUERY_TOO_COMPLEX');
});

test('an answer reads at most 8 MiB of texts of registered documents, and none that is not asked for', async () => {
  const account = await server.account();
  const text = '{ account { id } } #'.padEnd(16_384, 'x');
  for (let from = 0; from < 120; from += 60) {
    const documents = Array.from({ length: 60 }, (_, index) => ({ id: `d${from + index}`, text }));
    expect((await account.rest('POST', '/documents', { body: { documents } })).status).toBe(200);
  }
  const listsOf = (field: string) => ({ query: `{ ${again(5, `documents(first: 100) { nodes { ${field} } }`)} }` });
  const codesOf = async (request: object): Promise<string[]> => {
    const { body } = await account.post(request);
    const errors = [body].flat().flatMap((result: Json) => result.errors ?? []);
    return [...new Set(errors.map(({ extensions }: Json) => extensions.code))] as string[];
  };
  const texts = listsOf('text'); // 5 × 100 × 16 KiB
  expect(await codesOf(texts)).toEqual([]);
  expect(await codesOf([texts, texts])).toEqual(['QUERY_TOO_COMPLEX']);
  expect(await codesOf([listsOf('id'), listsOf('id')])).toEqual([]);
});

test('an answer reads at most 8 MiB of messages, whether it holds them or not', async () => {
  const account = await server.account();
  const caller: Caller = { account: account.account, keyId: 'test', credential: 'key', scopes: new Set(scopes) };
  for (let conversations = 0; conversations < 6; conversations++) {
    const { body } = await account.rest('POST', '/conversations', { body: {} });
    const message = { conversationId: body.id, content: 'x'.repeat(16_384), sender: 'agent' } as const;
    await Promise.all(Array.from({ length: 100 }, () => sendMessage.execute(server.app.ports, caller, message)));
  }
  const query = (count: number) => ({
    query: `{ conversations(first: ${count}) { nodes { messages(first: 100) { nodes { id } } } } }`,
  });
  const allowed = await account.post(query(5)); // 5 × 100 × 16 KiB
  expect(allowed.body.data.conversations.nodes.map(({ messages }: Json) => messages.nodes.length)).toEqual(
    Array(5).fill(100),
  );
  for (const refused of [await account.post(query(6)), await account.post([query(3), query(3)])]) {
    const errors = [refused.body].flat().flatMap((result: Json) => result.errors ?? []);
    expect(new Set(errors.map(({ extensions }: Json) => extensions.code))).toEqual(new Set(['QUERY_TOO_COMPLEX']));
  }
});

test('an answer to an event holds at most 256 KiB, whoever else is answered, and one that would be longer says where to go on', async () => {
  const conversationId = await longConversation();
  const after = (await client.rest('GET', '/account')).body.eventCursor;
  const leads = 3;
  for (let lead = 0; lead < leads; lead++) {
    await client.rest('POST', '/leads', { body: { conversationId, email: 'a@example.com' } });
  }
  const query = (times: number) => `subscription ($after: String) { leadCaptured(after: $after) {
    conversation { current { messages(first: 3) { nodes { ${again(times, 'content')} } } } } } }`;
  const socket = await new RawSocket(server.url).init(client.secret);
  onTestFinished(() => socket.socket.terminate());
  const alike = ['one', 'two', 'three'];
  for (const id of alike) socket.subscribe(id, query(5), { after });
  socket.subscribe('too long', query(6), { after });
  await until(() => [...alike, 'too long'].every((id) => socket.of(id).length === leads));
  const codes = (id: string) => socket.of(id).map(({ payload }) => payload.errors?.[0].extensions.code);
  for (const id of alike) expect(codes(id)).toEqual(Array(leads).fill(undefined));
  expect(codes('too long')).toEqual(Array(leads).fill('QUERY_TOO_COMPLEX'));
  const [first] = socket.of('too long');
  socket.subscribe('further', 'subscription ($after: String) { leadCaptured(after: $after) { sequence } }', {
    after: first?.payload.errors[0].extensions.cursor,
  });
  await until(() => socket.of('further').length === leads - 1);
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
    createConversation.execute(server.app.ports, visitor, { message: { content: 'hi', sender } });
  await expect(create('agent')).rejects.toMatchObject({ code: 'FORBIDDEN' });
  await expect(create('bot')).rejects.toMatchObject({ code: 'FORBIDDEN' });
  expect((await create('visitor')).conversation.status).toBe('pending');
});
