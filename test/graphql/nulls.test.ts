import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';
import { leftToYoga } from '../support/yoga.ts';

// A nullable variable may be used in a non-null position if a default replaces it when it is left out. An explicit null
// is then a mistake of the client, which validation does not detect.

let server: TestServer;
let client: TestAccount;
let socket: RawSocket;
let conversationId: string;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  conversationId = (await client.rest('POST', '/conversations', { body: {} })).body.id;
  socket = await new RawSocket(server.url).init(client.secret);
});
afterAll(async () => {
  socket.socket.terminate();
  await server.close();
});

interface Asked {
  readonly query: string;
  readonly variables: Record<string, unknown>;
}

async function get({ query, variables }: Asked): Promise<Json> {
  const parameters = new URLSearchParams({ query, variables: JSON.stringify(variables) });
  const headers = { authorization: `Bearer ${client.secret}` };
  return await (await fetch(`${server.url}/graphql?${parameters}`, { headers })).json();
}

let asked = 0;
async function onSocket({ query, variables }: Asked): Promise<Json> {
  const id = `${++asked}`;
  socket.subscribe(id, query, variables);
  const { type, payload } = await socket.first(id);
  await until(() => socket.of(id).some((message) => message.type === 'complete' || message.type === 'error'));
  return type === 'error' ? { errors: payload } : payload;
}

const refusal = (pointer: string): object => ({
  errors: [
    {
      message: expect.stringContaining('must not be null'),
      extensions: { code: 'VALIDATION_FAILED', errors: [{ pointer, detail: 'must not be null' }] },
    },
  ],
});

const queries: [place: string, pointer: string, query: string][] = [
  ['a condition', '/if', 'query ($x: Boolean = true) { a: __typename @include(if: $x) }'],
  [
    'a condition of a fragment',
    '/if',
    'query ($x: Boolean = true) { ...A @skip(if: $x) } fragment A on Query { account { name } }',
  ],
  ['an argument', '/id', 'query ($x: ID = "x") { conversation(id: $x) { id } }'],
  [
    'an argument in a fragment',
    '/id',
    'query ($x: ID = "x") { ...A } fragment A on Query { conversation(id: $x) { id } }',
  ],
  [
    'an argument, after a nullable one',
    '/id',
    'query ($x: ID = "x") { events(conversationId: $x) { nodes { id } } conversation(id: $x) { id } }',
  ],
  ['a list', '/ids', 'query ($x: [ID!] = []) { nodes(ids: $x) { id } }'],
  [
    'an item of a list',
    '/types/0',
    'query ($x: EventType = LEAD_CAPTURED) { events(first: 1, types: [$x]) { nodes { id } } }',
  ],
  ['the name of a type', '/name', 'query ($x: String = "Query") { __type(name: $x) { name } }'],
  [
    'an argument with a default of its own',
    '/includeDeprecated',
    'query ($x: Boolean) { __type(name: "Sender") { enumValues(includeDeprecated: $x) { name } } }',
  ],
];

describe('a null variable is VALIDATION_FAILED over every transport if it is used for', () => {
  test.each(queries)('%s', async (_, pointer, query) => {
    const question = { query, variables: { x: null } };
    const answers = [
      (await client.post(question)).body,
      (await client.post(question, { headers: leftToYoga() })).body,
      (await client.post([question])).body[0],
      await get(question),
      await onSocket(question),
    ];
    for (const answer of answers) {
      expect(answer).toMatchObject(refusal(pointer));
      expect(answer).not.toHaveProperty('data');
    }
  });

  test('a field of an input, and the mutation does not run', async () => {
    const question = {
      query: `mutation ($id: ID!, $x: String = "x", $y: Sender = AGENT) {
        sendMessage(input: { conversationId: $id, sender: $y, content: $x }) { eventCursor }
      }`,
      variables: { id: conversationId, x: null, y: null },
    };
    for (const answer of [(await client.post(question)).body, await onSocket(question)]) {
      const { code, errors } = answer.errors[0].extensions;
      expect(code).toBe('VALIDATION_FAILED');
      expect(errors.map(({ pointer }: Json) => pointer)).toEqual(['/input/content']); // some tokens need no sender
    }
    expect((await client.rest('GET', `/conversations/${conversationId}`)).body.messageCount).toBe(0);
  });

  test.each([
    [
      'an argument of a subscription',
      '/types/0',
      'subscription ($x: EventType = LEAD_CAPTURED) { events(types: [$x]) { id } }',
    ],
    [
      'a condition in a subscription',
      '/if',
      'subscription ($x: Boolean = true) { events { id sequence @include(if: $x) } }',
    ],
  ])('%s, which does not start', async (_, pointer, query) => {
    const question = { query, variables: { x: null } };
    expect(await onSocket(question)).toMatchObject(refusal(pointer));
    const { body } = await client.post(question, { headers: { accept: 'text/event-stream' } });
    expect(body).toContain('"code":"VALIDATION_FAILED"');
  });
});

test('a null is reported together with the other faults of the variables', async () => {
  const { errors } = await client.graphql(
    'query ($id: ID = "x", $first: Int) { conversation(id: $id) { messages(first: $first) { totalCount } } }',
    { id: null, first: 'one' },
  );
  expect(errors?.[0]?.extensions.errors.map(({ pointer }: Json) => pointer)).toEqual(['/id', '/first']);
});

test('a variable that is left out has its default, and null is accepted in a nullable position', async () => {
  const query = `query ($id: ID = "${conversationId}", $yes: Boolean = true, $first: Int = 1, $shown: Boolean) {
    conversation(id: $id) { id @include(if: $yes) messages(first: $first) { totalCount } }
    __type(name: "Sender") { enumValues(includeDeprecated: $shown) { name } }
  }`;
  const answer = (await client.graphql(query, {})).data;
  expect(answer.conversation).toEqual({ id: conversationId, messages: { totalCount: 0 } });
  expect((await client.graphql(query, { first: null })).data).toEqual(answer);
});

test('a null that only another operation of the document does not accept is no fault', async () => {
  const query =
    'query A($x: ID = "x") { conversation(id: $x) { id } } query B($x: ID = "x") { events(conversationId: $x) { nodes { id } } }';
  const answer = await client.post({ query, operationName: 'B', variables: { x: null } });
  expect(answer.body).toEqual({ data: { events: { nodes: [expect.anything()] } } });
});

test('a variable without a value leaves its key of metadata out, as it does a field of an input', async () => {
  const { id } = (await client.rest('POST', '/conversations', { body: { metadata: { kept: 1, gone: 2 } } })).body;
  const query = `mutation ($kept: Int, $gone: Int, $new: String) {
    updateConversation(input: { id: "${id}", metadata: { kept: $kept, gone: $gone, new: $new } }) {
      conversation { metadata }
    }
  }`;
  const { updateConversation } = (await client.graphql(query, { gone: null, new: 'x' })).data;
  expect(updateConversation.conversation.metadata).toEqual({ kept: 1, new: 'x' });
});

test('none of these requests was logged as a server error', () => {
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});
