import { gql } from '@apollo/client';
import type { ConcreteRequest, NormalizationSelection } from 'relay-runtime';
import {
  ConnectionHandler,
  commitMutation,
  Environment,
  fetchQuery,
  Network,
  RecordSource,
  Store,
} from 'relay-runtime';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { compileForRelay, withIds } from '../support/relay.ts';
import { apiKey, conversation, document, lead, message, webhook } from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { anywhere } from '../support/webhook-policy.ts';

// What a mutation adds to a list, it also gives as an edge of that list, with which a client extends the one in its cache.

let server: TestServer;
let client: TestAccount;
let conversationId: string;
let webhookId: string;
beforeAll(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
  client = await server.account();
  conversationId = (await client.rest('POST', '/conversations', { body: {} })).body.id;
  webhookId = (await client.rest('POST', '/webhooks', { body: { url: 'http://127.0.0.1:9/' } })).body.id;
});
afterAll(() => server.close());

interface Adding {
  readonly field: string;
  /** The name of what it makes, in its payload. */
  readonly name: string;
  readonly fields: string;
  readonly input: () => object;
  readonly list: (args: string, selection: string) => string;
  /** Whether the newest comes first. */
  readonly isNewestFirst: boolean;
}

const root = (field: string) => (args: string, selection: string) => `{ list: ${field}${args} ${selection} }`;
const listed = { isNewestFirst: true };

const adding: Adding[] = [
  {
    ...listed,
    field: 'createConversation',
    name: 'conversation',
    fields: conversation,
    input: () => ({ subject: 'Parcel', message: { content: 'Where is it?', sender: 'VISITOR' } }),
    list: root('conversations'),
  },
  {
    field: 'sendMessage',
    name: 'message',
    fields: message,
    input: () => ({ conversationId, content: 'On its way.', sender: 'AGENT' }),
    list: (args, selection) =>
      `{ parent: conversation(id: "${conversationId}") { list: messages${args} ${selection} } }`,
    isNewestFirst: false,
  },
  {
    ...listed,
    field: 'captureLead',
    name: 'lead',
    fields: lead,
    input: () => ({ email: 'ada@example.com' }),
    list: root('leads'),
  },
  {
    ...listed,
    field: 'createWebhook',
    name: 'webhook',
    fields: webhook,
    input: () => ({ url: 'http://127.0.0.1:9/' }),
    list: root('webhooks'),
  },
  {
    ...listed,
    field: 'createApiKey',
    name: 'apiKey',
    fields: apiKey,
    input: () => ({ name: 'dashboard' }),
    list: root('apiKeys'),
  },
  {
    ...listed,
    field: 'testWebhook',
    name: 'delivery',
    fields: 'id webhookId eventId eventType test createdAt', // the others change with each attempt
    input: () => ({ id: webhookId }),
    list: (args, selection) => `{ parent: webhook(id: "${webhookId}") { list: deliveries${args} ${selection} } }`,
  },
];

/** The payload of a mutation: what it made, and its edge. */
async function madeBy({ field, name, fields }: Adding, input: object): Promise<Json> {
  const type = `${field.replace(/^./, (first) => first.toUpperCase())}Input`;
  const query = `mutation ($input: ${type}!) {
    made: ${field}(input: $input) { thing: ${name} { ${fields} } edge: ${name}Edge { cursor node { ${fields} } } }
  }`;
  const { data, errors } = await client.graphql(query, { input });
  expect(errors).toBeUndefined();
  return data.made;
}

async function edgesOf({ list, fields }: Adding, args = ''): Promise<Json[]> {
  const { data, errors } = await client.graphql(list(args, `{ edges { cursor node { ${fields} } } }`));
  expect(errors).toBeUndefined();
  return (data.parent ?? data).list.edges;
}

test.each(adding)('the payload of $field has the edge that the list has from then on', async (each) => {
  await madeBy(each, each.input());
  const { thing, edge } = await madeBy(each, each.input());
  expect(edge.node).toEqual(thing);
  expect((await edgesOf(each)).at(each.isNewestFirst ? 0 : -1)).toEqual(edge);
});

test.each(adding)('the list continues after the edge in the payload of $field', async (each) => {
  const first = await madeBy(each, each.input());
  const second = await madeBy(each, each.input());
  const [start, next] = each.isNewestFirst ? [second, first] : [first, second];
  expect(await edgesOf(each, `(first: 1, after: "${start.edge.cursor}")`)).toEqual([next.edge]);
});

const repeatable = adding.filter(({ field }) => field !== 'createApiKey');
test.each(repeatable)('$field repeated with its idempotency key gives the same edge', async (each) => {
  const input = { ...each.input(), idempotencyKey: `edge-of-${each.field}` };
  const first = await madeBy(each, input);
  expect(await madeBy(each, input)).toEqual(first);
});

test('the payload of registerDocuments has the edges that the list has from then on, also of what was registered before', async () => {
  const register = async (...ids: string[]): Promise<Json[]> => {
    const { data, errors } = await client.graphql(
      `mutation ($input: RegisterDocumentsInput!) {
        registerDocuments(input: $input) { documents { id } documentEdges { cursor node { ${document} } } }
      }`,
      { input: { documents: ids.map((id) => ({ id, text: '{ __typename }' })) } },
    );
    expect(errors).toBeUndefined();
    const { documents, documentEdges } = data.registerDocuments;
    expect(documentEdges.map(({ node: { id } }: Json) => ({ id }))).toEqual(documents);
    return documentEdges;
  };
  const edges = async (args: string): Promise<Json[]> =>
    (await client.graphql(`{ documents${args} { edges { cursor node { ${document} } } } }`)).data.documents.edges;
  const [one, two] = await register('one', 'two');
  const [again, three] = await register('two', 'three');
  expect(again).toEqual(two);
  expect(await edges('')).toEqual([three, two, one]);
  expect(await edges(`(after: "${three.cursor}")`)).toEqual([two, one]);
  expect(await edges(`(after: "${two.cursor}")`)).toEqual([one]);
});

test('a token bound to a visitor gets edges that its own lists continue from', async () => {
  const { body } = await client.rest('POST', '/tokens', {
    body: { scopes: ['conversations:read', 'conversations:write'], visitor: { id: 'customer-7' } },
  });
  const page = server.clientFor(body.token);
  const { data } = await page.graphql(
    `mutation ($input: CreateConversationInput!) {
      one: createConversation(input: $input) { conversationEdge { cursor node { id } } }
      two: createConversation(input: $input) { conversationEdge { cursor node { id } } }
    }`,
    { input: { message: { content: 'Hello' } } },
  );
  const { cursor } = data.two.conversationEdge;
  const listed = await page.graphql(
    'query ($after: String) { conversations(after: $after) { edges { cursor node { id } } } }',
    {
      after: cursor,
    },
  );
  expect(listed.data.conversations.edges).toEqual([data.one.conversationEdge]);
});

/** A document as Relay's compiler makes it, with the handle that a directive asks for beside the field of that name. */
function withHandle(document: Parameters<typeof withIds>[0], name: string, handle: object): ConcreteRequest {
  const request = compileForRelay(withIds(document));
  const extended = (selections: readonly NormalizationSelection[]): NormalizationSelection[] =>
    selections.flatMap((selection) => {
      if (selection.kind !== 'LinkedField') return [selection];
      const inner = { ...selection, selections: extended(selection.selections) };
      if (selection.name !== name) return [inner];
      const { alias, args } = selection;
      return [inner, { kind: 'LinkedHandle', name, alias, args, filters: null, key: '', ...handle } as Json];
    });
  const { operation } = request;
  return { ...request, operation: { ...operation, selections: extended(operation.selections) } };
}

test('Relay’s `@appendEdge` puts a sent message at the end of the list in its store', async () => {
  const { id } = (await client.rest('POST', '/conversations', { body: {} })).body;
  await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'one', sender: 'agent' } });
  const network = Network.create(async ({ text }, variables) => (await client.post({ query: text, variables })).body);
  const store = new Store(new RecordSource());
  const environment = new Environment({ network, store });
  const thread = gql`query Thread($id: ID!) {
    conversation(id: $id) {
      messages(first: 50) { edges { cursor node { content } } pageInfo { endCursor hasNextPage hasPreviousPage startCursor } }
    }
  }`;
  const key = 'Thread_messages';
  const asked = withHandle(thread, 'messages', { handle: 'connection', key });
  await fetchQuery(environment, asked, { id }).toPromise();
  const connections = [ConnectionHandler.getConnectionID(id, key, null)];
  const sending = gql`mutation Send($input: SendMessageInput!) {
    sendMessage(input: $input) { messageEdge { cursor node { content } } }
  }`;
  const handleArgs = [{ kind: 'Literal', name: 'connections', value: connections }];
  const mutation = withHandle(sending, 'messageEdge', { handle: 'appendEdge', handleArgs });
  const variables = { input: { conversationId: id, content: 'two', sender: 'AGENT' } };
  await new Promise((resolve, reject) =>
    commitMutation(environment, { mutation, variables, onCompleted: resolve, onError: reject }),
  );
  const source = store.getSource() as Json;
  const { edges } = source.get(connections[0]);
  const contents = edges.__refs.map((ref: string) => source.get(source.get(ref).node.__ref).content);
  expect(contents).toEqual(['one', 'two']);
});
