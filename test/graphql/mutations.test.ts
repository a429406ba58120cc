import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { anywhere } from '../support/webhook-policy.ts';

// The mutations of a document run one after the other, and the result of each shows the state right after it.

let server: TestServer;
let client: TestAccount;
let socket: RawSocket;
let id: string;

beforeAll(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
  client = await server.account();
  socket = await new RawSocket(server.url).init(client.secret);
});
afterAll(async () => {
  socket.socket.terminate();
  await server.close();
});
beforeEach(async () => {
  id = (await client.rest('POST', '/conversations', { body: {} })).body.id;
});

async function byHttp(query: string): Promise<Json> {
  const { data, errors } = await client.graphql(query);
  expect(errors).toBeUndefined();
  return data;
}

let asked = 0;
async function bySocket(query: string): Promise<Json> {
  const name = `${++asked}`;
  socket.subscribe(name, query);
  const { payload } = await socket.first(name, 'next');
  expect(payload.errors).toBeUndefined();
  return payload.data;
}

describe.each([
  ['over HTTP', byHttp],
  ['on a socket', bySocket],
])('each mutation of a document returns the state after it, %s', (_, run) => {
  test('for the conversation of a message, and its messages', async () => {
    const send = (
      content: string,
    ) => `sendMessage(input: { conversationId: "${id}", content: "${content}", sender: AGENT }) {
      message { sequence conversation { messageCount version messages(last: 5) { nodes { content } } } }
      conversation { messageCount version messages(last: 5) { nodes { content } } }
    }`;
    const data = await run(`mutation { a: ${send('one')} b: ${send('two')} c: ${send('three')} }`);
    for (const [key, count] of [
      ['a', 1],
      ['b', 2],
      ['c', 3],
    ] as const) {
      const { message, conversation } = data[key];
      expect(message.conversation).toEqual(conversation);
      expect(conversation.messageCount).toBe(count);
      expect(conversation.messages.nodes).toHaveLength(count);
    }
  });

  test('for the conversation of existing messages', async () => {
    await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'x', sender: 'agent' } });
    const update = (subject: string) => `updateConversation(input: { id: "${id}", subject: "${subject}" }) {
      conversation { messages(first: 1) { nodes { conversation { subject } } } }
    }`;
    const data = await run(`mutation { a: ${update('one')} b: ${update('two')} }`);
    const subjectOf = ({ conversation }: Json) => conversation.messages.nodes[0].conversation.subject;
    expect([subjectOf(data.a), subjectOf(data.b)]).toEqual(['one', 'two']);
  });

  test('for the conversation of a lead', async () => {
    const lead = `captureLead(input: { email: "a@b.example", conversationId: "${id}" }) { lead { conversation { status } } }`;
    const data = await run(
      `mutation { a: ${lead} b: closeConversation(input: { id: "${id}" }) { eventCursor } c: ${lead} }`,
    );
    expect([data.a, data.c]).toEqual([
      { lead: { conversation: { status: 'ACTIVE' } } },
      { lead: { conversation: { status: 'CLOSED' } } },
    ]);
  });

  test('for the webhook of a delivery', async () => {
    const { body } = await client.rest('POST', '/webhooks', {
      body: { url: 'http://127.0.0.1:9/', description: 'one' },
    });
    const tried = `testWebhook(input: { id: "${body.id}" }) { delivery { webhook { description } } }`;
    const data = await run(
      `mutation { a: ${tried} b: updateWebhook(input: { id: "${body.id}", description: "two" }) { eventCursor } c: ${tried} }`,
    );
    expect([data.a, data.c]).toEqual([
      { delivery: { webhook: { description: 'one' } } },
      { delivery: { webhook: { description: 'two' } } },
    ]);
  });
});
