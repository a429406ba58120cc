import { randomUUID } from 'node:crypto';
import { createClient, fetchExchange, gql, subscriptionExchange } from '@urql/core';
import { type CacheExchangeOpts, cacheExchange } from '@urql/exchange-graphcache';
import { expect, onTestFinished, test } from 'vitest';
import { commandLine, serve } from './cli/program.ts';
import { openWidget } from './support/chat-widget.ts';
import { type Client, clientOf, type Json } from './support/client.ts';
import { temporaryFolder } from './support/files.ts';
import { cacheSettings, openInbox } from './support/inbox.ts';
import { readLog } from './support/log.ts';
import { socketClient } from './support/subscribe.ts';
import { eventually, until } from './support/wait.ts';

// One conversation in three pages of stock clients: its visitor's (graphql-ws) and those of two agents (Apollo Client
// and urql, with their caches). Whatever one of them does, the others show it, and none of them asks for it again.

/** What a page shows and does, whichever client it is made of. */
interface Page {
  /** The contents of the messages, in the order in which they are shown. */
  messages(): string[];
  state(): { status: string; assignee: string | null };
  send(content: string, clientId: string): Promise<unknown>;
  /** The ids of all events that it has been given. */
  events(): string[];
  dispose(): Promise<unknown>;
}

const change = gql`mutation ($input: UpdateConversationInput!) { updateConversation(input: $input) { eventCursor } }`;
const sending = gql`mutation ($input: SendMessageInput!) { sendMessage(input: $input) { eventCursor } }`;
const text = 'id sequence content';
const now = 'id status version assignee { id name }';
const thread = gql`query ($id: ID!) { eventCursor conversation(id: $id) { ${now} messages(last: 100) { nodes { ${text} } } } }`;
const live = gql`subscription ($id: ID!, $after: String) {
  conversationChanged(conversationId: $id, after: $after) {
    id cursor
    ... on ConversationStartedEvent { conversation { current { ${now} } } }
    ... on ConversationUpdatedEvent { conversation { current { ${now} } } }
    ... on ConversationClosedEvent { conversation { current { ${now} } } }
    ... on ConversationReopenedEvent { conversation { current { ${now} } } }
    ... on MessageReceivedEvent { conversation { current { ${now} } } message { ${text} } }
    ... on MessageSentEvent { conversation { current { ${now} } } message { ${text} } }
  }
}`;
/** A subscription that goes on after its last event whenever its socket is connected again. */
function follow(
  socket: ReturnType<typeof socketClient>,
  { query, variables }: { query: string; variables: Json },
  take: (event: Json, result: Json) => void,
): () => void {
  let { after } = variables;
  const resuming = {
    ...variables,
    get after() {
      return after;
    },
  };
  return socket.subscribe<Json>(
    { query, variables: resuming },
    {
      next(result) {
        after = result.data.conversationChanged.cursor;
        take(result.data.conversationChanged, result);
      },
      error: (error) => expect.unreachable(JSON.stringify(error)),
      complete: () => {},
    },
  );
}

async function tokenFor(account: Client, token: object = {}): Promise<string> {
  const scopes = ['conversations:read', 'conversations:write', 'events:read'];
  return (await account.rest('POST', '/tokens', { body: { scopes, ...token } })).body.token;
}

const ada = { id: 'customer-7', name: 'Ada' };

/** The visitor's page, as the GUIDE builds it, with a conversation that it starts. */
async function visitorPage(url: string, secret: string, content: string) {
  const widget = await openWidget(url, secret, ada);
  await widget.start(content);
  const row = () => widget.list()[0];
  return {
    id: row().id as string,
    messages: () => widget.shown().map((message) => message.content as string),
    state: () => ({ status: row().status, assignee: row().assignee?.name ?? null }),
    send: (content: string, clientId: string) => widget.send(content, clientId),
    events: () => widget.received.map(({ id }) => id),
    dispose: () => widget.dispose(),
  };
}

async function urqlPage(url: string, account: Client, id: string) {
  const token = await tokenFor(account);
  const socket = socketClient(url, token);
  const events: string[] = [];
  const settings = await cacheSettings<CacheExchangeOpts>('{ schema: introspection, keys }');
  const client = createClient({
    url: `${url}/graphql`,
    preferGetMethod: false,
    fetchOptions: { headers: { authorization: `Bearer ${token}` } },
    exchanges: [
      cacheExchange({
        ...settings,
        updates: {
          Subscription: {
            conversationChanged({ conversationChanged: { message } }: Json, _, cache) {
              if (!message) return;
              cache.updateQuery({ query: thread, variables: { id } }, (data: Json) => {
                const { nodes } = data.conversation.messages;
                return {
                  ...data,
                  conversation: {
                    ...data.conversation,
                    messages: { ...data.conversation.messages, nodes: [...nodes, message] },
                  },
                };
              });
            },
          },
        },
      }),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query = '', variables }) => ({
          subscribe: (sink) => ({
            unsubscribe: follow(socket, { query, variables }, (_, result) => sink.next(result)),
          }),
        }),
      }),
    ],
  });
  const run = async (document: typeof live, input: Json): Promise<void> => {
    const { error } = await client.mutation(document, { input }).toPromise();
    if (error) throw error;
  };
  const { data } = await client.query(thread, { id }).toPromise();
  client.subscription(live, { id, after: data.eventCursor }).subscribe(({ data: event }) => {
    events.push(event.conversationChanged.id);
  });
  const shown = (): Json => client.readQuery(thread, { id }, { requestPolicy: 'cache-only' })?.data?.conversation;
  const author = { id: 'agent-4', name: 'Linus' };
  return {
    messages: (): string[] => shown().messages.nodes.map(({ content }: Json) => content),
    state: () => ({ status: shown().status, assignee: shown().assignee?.name ?? null }),
    send: (content: string, clientId: string) =>
      run(sending, { conversationId: id, sender: 'AGENT', author, content, clientId, idempotencyKey: clientId }),
    take: () => run(change, { id, assignee: author }),
    events: () => events,
    dispose: async () => await socket.dispose(),
  };
}

async function apolloPage(url: string, secret: string, id: string) {
  const inbox = await openInbox(url, secret, { id: 'agent-3', name: 'Grace' });
  await inbox.open(id);
  const row = () => inbox.rows().find((each) => each.id === id);
  return {
    messages: (): string[] => inbox.shown(id).map(({ content }) => content),
    state: () => ({ status: row().status, assignee: row().assignee?.name ?? null }),
    send: (content: string, clientId: string) => inbox.send(id, content, clientId),
    take: () => inbox.take(id),
    close: () => inbox.close(id),
    events: () => inbox.received.map((event) => event.id),
    dispose: () => inbox.dispose(),
  };
}

/** Does something with a key that makes it happen once, until it has been answered. */
async function persist(work: () => Promise<unknown>): Promise<void> {
  const isDone = () =>
    work().then(
      () => true,
      () => false,
    );
  await eventually(isDone, (done) => done);
}

test('a visitor and two agents see each other’s messages once and in order, and agree on who has it and whether it is closed, also when the server was killed', async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { apiKey } = await commandLine(databasePath).json<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'shop', '--plan', 'business', '--requests-per-hour', '1000000'],
  );
  let server = await serve(databasePath);
  const { url } = server;
  const account = clientOf(url, apiKey.secret);

  const visitor = await visitorPage(url, apiKey.secret, 'Where is my tent?');
  const { id } = visitor;
  const grace = await apolloPage(url, apiKey.secret, id);
  const linus = await urqlPage(url, account, id);
  const pages: Page[] = [visitor, grace, linus];
  onTestFinished(async () => {
    // The server has ended, and a client that is disposed while it connects again rejects.
    await Promise.allSettled(pages.map((page) => page.dispose()));
  });

  /** Sends, and waits until all pages show it. */
  const converse = async (page: Page, content: string): Promise<void> => {
    const clientId = randomUUID();
    await persist(() => page.send(content, clientId));
    await until(() => pages.every((each) => each.messages().includes(content)));
  };
  const agreed = (status: string, assignee: string | null) =>
    until(() => pages.every((page) => JSON.stringify(page.state()) === JSON.stringify({ status, assignee })));

  // Nobody polls: nothing is spent but what they send.
  const remaining = async (): Promise<number> =>
    Number((await account.rest('GET', '/account')).headers['x-ratelimit-remaining']);
  await converse(visitor, 'Is anybody there?'); // all have subscribed
  const before = await remaining();
  await grace.take();
  await agreed('PENDING', 'Grace');
  await converse(grace, 'It was sent today.');
  await converse(linus, 'I packed it.');
  await agreed('ACTIVE', 'Grace');
  expect(before - (await remaining())).toBe(3 + 1);

  const rounds = 6;
  const talking = pages.map(async (page, index) => {
    for (let round = 0; round < rounds; round++) await converse(page, `${index}, ${round}`);
  });
  await until(() => visitor.messages().length > 4 + rounds);
  server.signal('SIGKILL');
  await server.ended;
  server = await serve(databasePath, { PORT: new URL(url).port });
  await Promise.all(talking);

  await persist(() => grace.close());
  await agreed('CLOSED', 'Grace');
  await converse(visitor, 'It is broken.');
  await agreed('PENDING', 'Grace');
  await persist(() => linus.take());
  await agreed('PENDING', 'Linus');

  const { data } = (await account.rest('GET', `/conversations/${id}/messages?limit=100`)).body;
  expect(data).toHaveLength(4 + 3 * rounds + 1);
  const asVisitor = clientOf(url, await tokenFor(account, { visitor: ada }));
  const idsOf = async (client: Client) => (await readLog(client)).map((event) => event.id as string);
  const [ids, idsForVisitor] = [await idsOf(account), await idsOf(asVisitor)];
  for (const page of pages) {
    expect(page.messages()).toEqual(data.map(({ content }: Json) => content));
    const log = page === visitor ? idsForVisitor : ids;
    await until(() => page.events().at(-1) === log.at(-1));
    const since = page === visitor ? 0 : log.indexOf(page.events()[0] ?? '');
    expect(page.events()).toEqual(log.slice(since));
  }
});
