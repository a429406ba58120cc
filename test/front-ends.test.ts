import { randomUUID } from 'node:crypto';
import { createClient, fetchExchange, gql, subscriptionExchange } from '@urql/core';
import { type CacheExchangeOpts, cacheExchange } from '@urql/exchange-graphcache';
import { expect, onTestFinished } from 'vitest';
import { commandLine, serve } from './cli/program.ts';
import { openWidget } from './support/chat-widget.ts';
import { type Client, clientOf, type Json } from './support/client.ts';
import { longTest as test } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { cacheSettings, openInbox, type Received } from './support/inbox.ts';
import { readLog } from './support/log.ts';
import { slownessOf } from './support/slowness.ts';
import { socketClient } from './support/subscribe.ts';
import { eventually, until } from './support/wait.ts';

// One conversation in three pages of stock clients: its visitor's (graphql-ws) and those of two agents (Apollo Client
// and urql, with their caches). Whatever one of them does, the others show it, and none of them asks for it again.

/** How many messages each reader has not read, of those that a page knows of. */
type Unread = Partial<Record<'visitor' | 'agent-3' | 'agent-4', number | null>>;

/** What a page shows and does, whichever client it is made of. */
interface Page {
  /** The contents of the messages, in the order in which they are shown. */
  messages(): string[];
  state(): { status: string; assignee: string | null; unread: Unread };
  send(content: string, clientId: string): Promise<unknown>;
  /** Marks what is shown as read, if it is not yet. */
  seen(): Promise<unknown>;
  /** All events that it has been given. */
  events(): readonly Received[];
  dispose(): Promise<unknown>;
}

const change = gql`mutation ($input: UpdateConversationInput!) { updateConversation(input: $input) { eventCursor } }`;
const sending = gql`mutation ($input: SendMessageInput!) { sendMessage(input: $input) { eventCursor } }`;
const reading = gql`mutation ($input: MarkReadInput!) { markRead(input: $input) { eventCursor } }`;
const text = 'id sequence content';
const now = `id status version messageCount assignee { id name }
  ofVisitor: unreadCount(reader: "visitor") ofGrace: unreadCount(reader: "agent-3") ofLinus: unreadCount(reader: "agent-4")`;
const thread = gql`query ($id: ID!) { eventCursor conversation(id: $id) { ${now} messages(last: 100) { nodes { ${text} } } } }`;
const live = gql`subscription ($id: ID!, $after: String) {
  conversationChanged(conversationId: $id, after: $after) {
    id cursor
    ... on ConversationStartedEvent { conversation { current { ${now} } } }
    ... on ConversationUpdatedEvent { conversation { current { ${now} } } }
    ... on ConversationClosedEvent { conversation { current { ${now} } } }
    ... on ConversationReopenedEvent { conversation { current { ${now} } } }
    ... on ConversationReadEvent { readPosition { reader sequence } }
    ... on MessageReceivedEvent { conversation { current { ${now} } } message { ${text} } }
    ... on MessageSentEvent { conversation { current { ${now} } } message { ${text} } }
  }
}`;
const unreadOf = gql`fragment Unread on Conversation { id messageCount unreadCount(reader: $reader) }`;

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
    state: () => ({
      status: row().status,
      assignee: row().assignee?.name ?? null,
      unread: { visitor: row().unreadCount },
    }),
    send: (content: string, clientId: string) => widget.send(content, clientId),
    seen: () => widget.seen(),
    events: () => widget.received,
    dispose: () => widget.dispose(),
  };
}

async function urqlPage(url: string, account: Client, id: string) {
  const token = await tokenFor(account);
  const socket = socketClient(url, token);
  const events: Received[] = [];
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
            conversationChanged({ conversationChanged: { message, readPosition } }: Json, _, cache) {
              if (readPosition) {
                const { reader, sequence } = readPosition;
                const known: Json = cache.readFragment(unreadOf, { id }, { reader });
                const unreadCount = Math.min(known.unreadCount ?? Infinity, known.messageCount - sequence);
                cache.writeFragment(unreadOf, { ...known, unreadCount }, { reader });
              }
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
    events.push({ ...event.conversationChanged, receivedMs: performance.now() });
  });
  const shown = (): Json => client.readQuery(thread, { id }, { requestPolicy: 'cache-only' })?.data?.conversation;
  const author = { id: 'agent-4', name: 'Linus' };
  const seen = async () => {
    const { ofLinus, messages } = shown();
    const input = { conversationId: id, reader: author.id, sequence: messages.nodes.at(-1).sequence };
    if (ofLinus !== 0) await run(reading, input);
  };
  await seen();
  return {
    messages: (): string[] => shown().messages.nodes.map(({ content }: Json) => content),
    state: () => {
      const { status, assignee, ofVisitor, ofGrace, ofLinus } = shown();
      const unread: Unread = { visitor: ofVisitor, 'agent-3': ofGrace, 'agent-4': ofLinus };
      return { status, assignee: assignee?.name ?? null, unread };
    },
    send: (content: string, clientId: string) =>
      run(sending, { conversationId: id, sender: 'AGENT', author, content, clientId, idempotencyKey: clientId }),
    seen,
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
    state: () => {
      const { status, assignee, unreadCount, unseen } = row();
      return { status, assignee: assignee?.name ?? null, unread: { visitor: unseen, 'agent-3': unreadCount } };
    },
    send: (content: string, clientId: string) => inbox.send(id, content, clientId),
    seen: () => inbox.seen(id),
    take: () => inbox.take(id),
    close: () => inbox.close(id),
    events: () => inbox.received,
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

test('a visitor and two agents see each other’s messages once, in order and soon, and agree on who has it, what is unread and whether it is closed, also when the server was killed', {
  retry: 1, // beside other tests, the machine itself may keep the pages waiting
}, async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { apiKey } = await commandLine(databasePath).jsonHere<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'shop', '--plan', 'business', '--requests-per-hour', '1000000'],
  );
  let server = await serve(databasePath);
  const { url } = server;
  const slowness = [slownessOf(server.pid), slownessOf('thread-self')];
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

  /** When each message was sent, and when each of the other pages was given it. */
  const deliveries: { readonly sentMs: number; readonly receivedMs: number }[] = [];
  /** Sends, and waits until all pages show it. */
  const converse = async (page: Page, content: string): Promise<void> => {
    const clientId = randomUUID();
    const sentMs = performance.now();
    await Promise.all([
      persist(() => page.send(content, clientId)),
      ...pages.map((each) => until(() => each.messages().includes(content))),
    ]);
    for (const other of pages.filter((each) => each !== page)) {
      const given = other.events().find(({ message }) => message?.content === content);
      deliveries.push({ sentMs, receivedMs: given?.receivedMs ?? Infinity });
    }
  };
  const agreed = (status: string, assignee: string | null, unread: Required<Unread>) =>
    until(() =>
      pages.every((page) => {
        const state = page.state();
        const counts = Object.entries(state.unread) as [keyof Unread, number | null][];
        const isRead = counts.every(([reader, count]) => count === unread[reader]);
        return state.status === status && state.assignee === assignee && isRead;
      }),
    );
  const allRead = { visitor: 0, 'agent-3': 0, 'agent-4': 0 };

  // Nobody polls: nothing is spent but what they send, take and mark as read.
  const remaining = async (): Promise<number> =>
    Number((await account.rest('GET', '/account')).headers['x-ratelimit-remaining']);
  await converse(visitor, 'Is anybody there?'); // all have subscribed
  await agreed('PENDING', null, { visitor: 0, 'agent-3': 1, 'agent-4': 1 });
  const before = await remaining();
  await grace.take();
  await grace.seen();
  await agreed('PENDING', 'Grace', { visitor: 0, 'agent-3': 0, 'agent-4': 1 });
  await converse(grace, 'It was sent today.');
  await agreed('ACTIVE', 'Grace', { visitor: 1, 'agent-3': 0, 'agent-4': 2 });
  await visitor.seen();
  await converse(linus, 'I packed it.');
  await linus.seen(); // who has sent the last message has read it
  await agreed('ACTIVE', 'Grace', { visitor: 1, 'agent-3': 1, 'agent-4': 0 });
  expect(before - (await remaining())).toBe(5 + 1);

  const rounds = 6;
  const talking = pages.map(async (page, index) => {
    for (let round = 0; round < rounds; round++) {
      await converse(page, `${index}, ${round}`);
      await persist(() => page.seen());
    }
  });
  await until(() => visitor.messages().length > 4 + rounds);
  const killedMs = performance.now();
  const ofKilled = slowness.shift()?.() ?? 1;
  server.signal('SIGKILL');
  await server.ended;
  const givenBefore = pages.map((page) => page.events().length);
  server = await serve(databasePath, { PORT: new URL(url).port });
  slowness.push(slownessOf(server.pid));
  // Only a page that has been given something since is connected again.
  await until(() => pages.every((page, index) => page.events().length > (givenBefore[index] ?? 0)));
  const reconnectedMs = performance.now();
  await Promise.all(talking);
  const beforeTurns = await remaining();
  // One at a time, so that a message that is late does not come along with a later one.
  const turns = [...pages, ...pages];
  for (const [turn, page] of turns.entries()) await converse(page, `turn ${turn}`);
  await Promise.all(pages.map((page) => persist(() => page.seen())));
  await agreed('ACTIVE', 'Grace', allRead);

  await persist(() => grace.close());
  await agreed('CLOSED', 'Grace', allRead);
  await converse(visitor, 'It is broken.');
  await agreed('PENDING', 'Grace', { visitor: 0, 'agent-3': 1, 'agent-4': 1 });
  await persist(() => linus.take());
  await persist(() => linus.seen());
  await agreed('PENDING', 'Linus', { visitor: 0, 'agent-3': 1, 'agent-4': 0 });
  // Nor since the kill: there are the turns, those who have read the last, a close, a message, who took it and read it.
  expect(beforeTurns - (await remaining())).toBe(turns.length + (pages.length - 1) + 4 + 1);
  const { readPositions, messageCount } = (await account.rest('GET', `/conversations/${id}?messages=none`)).body;
  expect(readPositions.map(({ reader, sequence }: Json) => [reader, messageCount - sequence])).toEqual([
    ['agent-3', 1],
    ['agent-4', 0],
    ['visitor', 0],
  ]);

  const { data } = (await account.rest('GET', `/conversations/${id}/messages?limit=100`)).body;
  expect(data).toHaveLength(4 + 3 * rounds + turns.length + 1);
  const asVisitor = clientOf(url, await tokenFor(account, { visitor: ada }));
  const idsOf = async (client: Client) => (await readLog(client)).map((event) => event.id as string);
  const [ids, idsForVisitor] = [await idsOf(account), await idsOf(asVisitor)];
  for (const page of pages) {
    expect(page.messages()).toEqual(data.map(({ content }: Json) => content));
    const log = page === visitor ? idsForVisitor : ids;
    const given = () => page.events().map((event) => event.id);
    await until(() => given().at(-1) === log.at(-1));
    const since = page === visitor ? 0 : log.indexOf(given()[0] ?? '');
    expect(given()).toEqual(log.slice(since));
  }

  const waitsMs = deliveries
    .filter(({ sentMs, receivedMs }) => receivedMs < killedMs || sentMs > reconnectedMs)
    .map(({ sentMs, receivedMs }) => receivedMs - sentMs)
    .sort((a, b) => a - b);
  const quantile = (share: number): number => waitsMs[Math.ceil(share * waitsMs.length) - 1] ?? Infinity;
  const [medianMs, mostMs, worstMs] = [quantile(0.5), quantile(0.9), quantile(1)];
  const rounded = [medianMs, mostMs, worstMs].map(Math.round).join(', ');
  const timesAsSlow = Math.min(5, Math.max(ofKilled, ...slowness.map((of) => of())));
  console.log(
    `${waitsMs.length} messages reached another page in (median, 9 of 10, worst): ${rounded} ms, ` +
      `on a machine that others made ${timesAsSlow.toFixed(1)} times as slow`,
  );
  expect(waitsMs.length).toBeGreaterThan(20);
  // 200 ms are promised. One in ten may be late on a machine that does other work, but none very late.
  expect(mostMs).toBeLessThan(200 * timesAsSlow);
  expect(worstMs).toBeLessThan(2_000 * timesAsSlow);
});
