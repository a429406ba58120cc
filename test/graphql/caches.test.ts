import { type DocumentNode, parse, print } from 'graphql';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { apolloClient, relayClient, urqlClient } from '../support/caching-clients.ts';
import type { Json } from '../support/client.ts';
import { withIds } from '../support/relay.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// The caches of front-ends that show conversations and follow events: an old state never stands over a newer one, no
// two states become one, and people with the same id in the client's system stay apart.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const document = (text: string) => withIds(parse(text));

const state = `status subject version tags messageCount visitor { name email } assignee { name }
  lastMessage { sequence preview author { name } }`;
const events = `type sequence cursor
  ... on ConversationStartedEvent { conversation { conversationId ${state} } }
  ... on MessageReceivedEvent { message { content author { name } } conversation { conversationId ${state} } }
  ... on MessageSentEvent { message { content author { name } } conversation { conversationId ${state} } }
  ... on ConversationUpdatedEvent { changes { field key from to } conversation { conversationId ${state} } }
  ... on ConversationClosedEvent { conversation { conversationId ${state} } }
  ... on ConversationReopenedEvent { conversation { conversationId ${state} } }
  ... on ConversationReadEvent { conversationId readPosition { reader sequence } }`;
const kinds = [
  'ConversationStarted',
  'MessageReceived',
  'MessageSent',
  'ConversationUpdated',
  'ConversationClosed',
  'ConversationReopened',
];
const current = kinds.map((kind) => `... on ${kind}Event { conversation { current { ${state} } } }`).join(' ');

const inbox = document(`query Inbox { conversations { nodes { ${state} } } }`);
const thread = document(
  `query Thread($id: ID!) { conversation(id: $id) { ${state} messages { nodes { content author { name } } } } }`,
);
const log = document(`query Log { events(first: 100) { nodes { ${events} } } }`);
const replay = document(`subscription Replay($after: String) { events(after: $after) { ${events} } }`);
const live = document(`subscription Live($after: String) { conversationChanged(after: $after) { cursor ${current} } }`);

/** The changes that a conversation goes through, each an event or more. */
const changes: ((account: TestAccount, id: string) => Promise<unknown>)[] = [
  (account, id) =>
    account.rest('POST', `/conversations/${id}/messages`, {
      body: { sender: 'agent', content: 'Hello', author: { id: '7', name: 'Grace' } },
    }),
  (account, id) => account.rest('PATCH', `/conversations/${id}`, { body: { subject: 'Two', addTags: ['b', 'a'] } }),
  (account, id) =>
    account.rest('PATCH', `/conversations/${id}`, { body: { assignee: { id: '7', name: 'Linus' }, subject: 'Three' } }),
  (account, id) =>
    account.rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content: 'Thank you' } }),
  (account, id) => account.rest('PUT', `/conversations/${id}/read-positions/7`, { body: { sequence: 3 } }),
  (account, id) => account.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed', metadata: { a: 1 } } }),
  (account, id) => account.rest('PATCH', `/conversations/${id}`, { body: { status: 'active' } }),
  (account, id) => account.rest('PATCH', `/conversations/${id}`, { body: { visitor: { id: '7', name: 'Ada L.' } } }),
];

const clients = { 'Apollo Client': apolloClient, 'urql’s graphcache': urqlClient, Relay: relayClient };

describe.each(Object.entries(clients))('the cache of %s', (_, clientOf) => {
  /** Two conversations whose people all have the same id, and a client that may not complain about its cache. */
  async function setup() {
    const complaints = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error')];
    const account = await server.account();
    const client = await clientOf(server.url, account.secret);
    onTestFinished(async () => {
      await client.dispose();
      const said = complaints.flatMap(({ mock }) => mock.calls);
      vi.restoreAllMocks();
      expect(said).toEqual([]);
    });
    /** What a client without a cache is told. */
    const told = async (query: DocumentNode, variables = {}): Promise<Json> => {
      const { data, errors } = await account.graphql(print(query), variables);
      expect(errors).toBeUndefined();
      return data;
    };
    const start = (await account.graphql('{ eventCursor }')).data.eventCursor;
    const converse = (name: string): Promise<Json> =>
      account.rest('POST', '/conversations', {
        body: {
          subject: 'One',
          visitor: { id: '7', name, email: `${name}@example.com` },
          assignee: { id: '7', name: `agent of ${name}` },
          message: { sender: 'visitor', content: `I am ${name}.`, author: { id: '7', name } },
        },
      });
    const { id } = (await converse('Ada')).body;
    await converse('Bob');
    return { account, client, told, start, id };
  }

  test('keeps people apart who have the same id in the client’s system', async () => {
    const { client, told } = await setup();
    const { conversations } = await client.query(inbox);
    expect(
      conversations.nodes.map(({ visitor, assignee, lastMessage }: Json) => [
        visitor.name,
        assignee.name,
        lastMessage.author.name,
      ]),
    ).toEqual([
      ['Bob', 'agent of Bob', 'Bob'],
      ['Ada', 'agent of Ada', 'Ada'],
    ]);
    expect({ conversations }).toEqual(await told(inbox));
  });

  test('holds each state that was, and beside them the one that is, while events are replayed and queries sent', async () => {
    const { account, client, told, start, id } = await setup();
    for (const [index, change] of changes.entries()) {
      await change(account, id);
      if (index % 2 === 0 && index + 1 < changes.length) continue; // what was after it is replayed after the next one
      const now = await told(thread, { id });
      expect(await client.query(thread, { id })).toEqual(now);

      const logged = (await told(log)).events.nodes;
      const replayed: Json[] = [];
      const shown: Json[] = [];
      const { stop } = client.subscribe(replay, { after: start }, ({ events: event }) => {
        replayed.push(event);
        shown.push(client.cached(thread, { id }));
      });
      await until(() => replayed.length === logged.length);
      expect(replayed).toEqual(logged);
      for (const each of shown) expect(each).toEqual(now);

      expect((await client.query(log)).events.nodes).toEqual(logged);
      stop();
      expect(client.cached(log).events.nodes).toEqual(logged);
      expect(client.cached(thread, { id })).toEqual(now);
    }
  });

  test('shows each change as soon as its event has arrived, with no further query', async () => {
    const { account, client, told, id } = await setup();
    const { eventCursor } = (await account.graphql('{ eventCursor }')).data;
    await client.query(inbox);
    let last = '';
    client.subscribe(live, { after: eventCursor }, ({ conversationChanged }) => (last = conversationChanged.cursor));
    for (const change of changes) {
      await change(account, id);
      const { nodes } = (await told(log)).events;
      await until(() => last === nodes.at(-1).cursor);
      expect(client.cached(inbox)).toEqual(await told(inbox));
    }
  });
});
