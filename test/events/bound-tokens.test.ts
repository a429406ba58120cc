import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type Caller, operatorOf, scopes } from '../../src/domain/caller.ts';
import type { DomainError } from '../../src/domain/errors.ts';
import { streamEvents } from '../../src/domain/events.ts';
import { timestamp } from '../../src/domain/time.ts';
import type { Client, Json } from '../support/client.ts';
import { minuteMs } from '../support/clock.ts';
import { sampleEvent } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

// What a token bound to a conversation reads of the event log: a page of a visitor must learn nothing from it of other
// conversations, of leads, or of how busy the account is.

let server: TestServer;
let account: TestAccount;
let conversationId: string;

beforeAll(async () => {
  server = await startTestServer({ timings: { heartbeatMs: 50 } });
});
afterAll(() => server.close());
beforeEach(async () => {
  server.clock.advance(minuteMs);
  account = await server.account();
  const input = {
    externalId: `secret ${account.account.id}`,
    metadata: { note: 'secret' },
    assignee: { id: 'secret agent', name: 'Grace' },
    tags: ['secret'],
    message: { content: 'Hello', sender: 'visitor', metadata: { note: 'secret' } },
  };
  conversationId = (await account.rest('POST', '/conversations', { body: input })).body.id;
});

async function tokenFor(id = conversationId): Promise<string> {
  return (await account.rest('POST', '/tokens', { body: { scopes, conversationId: id } })).body.token;
}

async function bound(id = conversationId): Promise<Client> {
  return server.clientFor(await tokenFor(id));
}

const write = (content: string, by: Client = account): Promise<Json> =>
  by.rest('POST', `/conversations/${conversationId}/messages`, { body: { content, sender: 'visitor' } });

const captureLead = (): Promise<Json> =>
  account.rest('POST', '/leads', { body: { conversationId, email: 'ada@example.com' } });

/** Other conversations of the account, with two events each. */
async function beBusy(times = 3): Promise<void> {
  for (let count = 0; count < times; count++) {
    await account.rest('POST', '/conversations', { body: { message: { content: 'other', sender: 'visitor' } } });
  }
}

const fields = `__typename id type sequence cursor
  ... on ConversationStartedEvent { conversation { id: conversationId metadata externalId assignee { id name } tags } }
  ... on MessageReceivedEvent { message { content metadata } conversation { id: conversationId metadata externalId assignee { id name } tags } }
  ... on ConversationClosedEvent { conversation { id: conversationId metadata externalId assignee { id name } tags } }
  ... on LeadCapturedEvent { lead { email } }`;
const page = `nodes { ${fields} } edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }`;

/** The events of a page on each face, with their cursors. */
async function pages(client: Client, after?: string): Promise<{ events: Json[]; hasMore: boolean; next: string }[]> {
  const rest = await client.rest('GET', `/events${after === undefined ? '' : `?after=${after}`}`);
  const graphql = await client.graphql(`query ($after: String) { events(after: $after) { ${page} } }`, { after });
  expect([rest.status, graphql.errors]).toEqual([200, undefined]);
  const { nodes, pageInfo } = graphql.data.events;
  const { pagination } = rest.body;
  return [
    { events: rest.body.data, hasMore: pagination.hasMore, next: pagination.nextCursor },
    { events: nodes, hasMore: pageInfo.hasNextPage, next: pageInfo.endCursor },
  ];
}

async function openStream(token: string, query = '', headers: Record<string, string> = {}): Promise<SseReader> {
  const reader = await SseReader.open(`${server.url}/v1/events/stream${query}`, {
    authorization: `Bearer ${token}`,
    ...headers,
  });
  onTestFinished(() => reader.close());
  return reader;
}

/** From here on all is told to what follows the log, however late it begins to. */
async function cursorOf(token: string): Promise<string> {
  return (await server.clientFor(token).graphql('{ eventCursor }')).data.eventCursor;
}

async function openSocket(token: string): Promise<RawSocket> {
  const socket = await new RawSocket(server.url).init(token);
  onTestFinished(() => socket.socket.terminate());
  return socket;
}

/** Every text of base64url in an answer that could be a cursor, decoded. */
function decoded(answer: unknown): string[] {
  const texts = JSON.stringify(answer).match(/[\w-]{16,}/g) ?? [];
  return texts.map((text) => Buffer.from(text, 'base64url').toString('latin1'));
}

const plainCursor = /^[0-9a-f]{16}\.\d+$/;

test('it reads no lead, asked for or not, by page, stream or subscription', async () => {
  const token = await tokenFor();
  const client = server.clientFor(token);
  const after = await cursorOf(token);
  const [stream, socket] = [await openStream(token, `?after=${after}`), await openSocket(token)];
  socket.subscribe('all', `subscription { events(after: "${after}") { ${fields} } }`);
  socket.subscribe('leads', `subscription { leadCaptured(after: "${after}") { id lead { email } } }`);
  socket.subscribe('asked', `subscription { events(after: "${after}", types: [LEAD_CAPTURED]) { id } }`);
  await until(() => server.app.liveLog.followers === 4);
  await captureLead();
  await write('after the lead');
  await until(() => socket.of('all').length === 1 && stream.events.length === 1);
  for (const { events } of await pages(client)) {
    expect(events.map(({ type }) => type.toLowerCase().replace('_', '.'))).toEqual([
      'conversation.started',
      'message.received',
      'message.received',
    ]);
  }
  const asked = await client.rest('GET', '/events?types=lead.captured');
  expect(asked.body).toMatchObject({ data: [], pagination: { hasMore: false } });
  expect([socket.of('leads'), socket.of('asked')]).toEqual([[], []]);
  expect(`${stream.body} ${JSON.stringify(socket.messages)}`).not.toContain('ada@example.com');
  // The account still reads it.
  expect((await account.rest('GET', '/events?types=lead.captured')).body.data).toHaveLength(1);
});

test('it sees of an event neither its sequence nor what is the client’s own', async () => {
  const token = await tokenFor();
  const after = await cursorOf(token);
  const [stream, socket] = [await openStream(token, `?after=${after}`), await openSocket(token)];
  socket.subscribe('all', `subscription { events(after: "${after}") { ${fields} } }`);
  await until(() => server.app.liveLog.followers === 2);
  await write('Hello');
  await until(() => socket.of('all').length === 1 && stream.events.length === 1);
  const seen = [
    ...(await pages(server.clientFor(token))).flatMap(({ events }) => events),
    ...stream.events,
    socket.of('all')[0].payload.data.events,
  ];
  expect(seen).toHaveLength(8);
  for (const event of seen) {
    expect(event.sequence).toBeNull();
    const { conversation } = event.data ?? event;
    expect(conversation).toMatchObject({ id: conversationId, ...shown });
  }
  expect(JSON.stringify(seen)).not.toContain('secret');
});

const own = 'externalId metadata assignee { id name } tags';
/** What it is shown in place of what is the client's own. */
const shown = { externalId: null, metadata: {}, assignee: { id: null, name: 'Grace' }, tags: [] };

test('it sees the same of its conversation itself, on both faces', async () => {
  const client = await bound();
  const answers = [
    (await client.rest('GET', `/conversations/${conversationId}`)).body,
    (await client.graphql(`{ conversation(id: "${conversationId}") { ${own} } }`)).data.conversation,
    (await client.graphql(`{ node(id: "${conversationId}") { ... on Conversation { ${own} } } }`)).data.node,
    (
      await client.graphql(`mutation { sendMessage(input: { conversationId: "${conversationId}", content: "x",
        sender: VISITOR }) { conversation { ${own} } } }`)
    ).data.sendMessage.conversation,
  ];
  for (const answer of answers) expect(answer).toMatchObject(shown);
  const { body } = await account.rest('GET', `/conversations/${conversationId}`);
  expect(body).toMatchObject({
    externalId: expect.stringContaining('secret'),
    metadata: { note: 'secret' },
    tags: ['secret'],
  });
});

test.each(['the account’s own page', 'its visitor'])(
  'subscriptions that are alike but for whom they are of show each what it may see, where the first is of %s',
  async (first) => {
    const other = (await account.rest('POST', '/conversations', { body: { externalId: 'another secret' } })).body.id;
    const asked = { scopes: ['conversations:read', 'events:read'], sender: 'visitor' };
    const tokenOf = async (binding: object): Promise<string> =>
      (await account.rest('POST', '/tokens', { body: { ...asked, ...binding } })).body.token;
    const [own, its, others] = (await Promise.all(
      [{}, { conversationId }, { conversationId: other }].map(async (binding) => openSocket(await tokenOf(binding))),
    )) as [RawSocket, RawSocket, RawSocket];
    const query = `subscription { messageReceived {
      conversation { current { id externalId metadata tags assignee { id name } } }
    } }`;
    const sockets = first === 'its visitor' ? [others, its, own] : [own, its, others];
    for (const [index, socket] of sockets.entries()) {
      socket.subscribe('s', query);
      await until(() => server.app.liveLog.followers === index + 1);
    }
    await write('Hello');
    await account.rest('POST', `/conversations/${other}/messages`, { body: { content: 'Hi', sender: 'visitor' } });
    await until(() => own.of('s').length === 2 && its.of('s').length === 1 && others.of('s').length === 1);
    const seen = (socket: RawSocket): Json[] =>
      socket.of('s').map(({ payload }) => payload.data.messageReceived.conversation.current);
    const nothing = { metadata: {}, externalId: null, tags: [] };
    expect(seen(own)).toMatchObject([
      {
        id: conversationId,
        externalId: `secret ${account.account.id}`,
        metadata: { note: 'secret' },
        tags: ['secret'],
      },
      { id: other, externalId: 'another secret' },
    ]);
    expect(seen(own)[0]?.assignee).toEqual({ id: 'secret agent', name: 'Grace' });
    expect(seen(its)).toEqual([{ id: conversationId, ...nothing, assignee: { id: null, name: 'Grace' } }]);
    expect(seen(others)).toEqual([{ id: other, ...nothing, assignee: null }]);
  },
);

test('it sees the names of the agents who write, and not their ids', async () => {
  const [token, path] = [await tokenFor(), `/conversations/${conversationId}/messages`];
  const stream = await openStream(token);
  const author = { id: 'secret agent', name: 'Grace' };
  await account.rest('POST', path, { body: { content: 'Hi', sender: 'agent', author } });
  await until(() => stream.events.length === 2); // the conversation has become active, too
  const client = server.clientFor(token);
  const { body: whole } = await client.rest('GET', `/conversations/${conversationId}`);
  const { body: list } = await client.rest('GET', path);
  const { message, conversation } = stream.events[1].data;
  for (const written of [whole.messages[1], whole.lastMessage, list.data[1], message, conversation.lastMessage]) {
    expect(written.author).toEqual({ id: null, name: 'Grace' });
  }
  expect((await account.rest('GET', path)).body.data[1].author).toEqual(author);
});

describe('its cursors', () => {
  /** A cursor from each place that gives one. */
  async function allCursors(client: Client, token: string): Promise<string[]> {
    const [stream, socket] = [await openStream(token), await openSocket(token)];
    await stream.until(({ blocks }) => blocks.filter(({ id }) => id !== undefined).length >= 2); // and a heartbeat
    socket.subscribe('all', `subscription { events(after: "${await cursorOf(token)}") { ${fields} } }`);
    socket.subscribe('cursor', '{ eventCursor }');
    await socket.first('cursor', 'complete');
    const sent = await client.graphql(`mutation { sendMessage(input: { conversationId: "${conversationId}",
      content: "x", sender: VISITOR, idempotencyKey: "k" }) { eventCursor } }`);
    const again = await client.graphql(`mutation { sendMessage(input: { conversationId: "${conversationId}",
      content: "x", sender: VISITOR, idempotencyKey: "k" }) { eventCursor } }`);
    await until(() => socket.of('all').length === 1 && stream.events.length === 1);
    const { data } = await client.graphql(`{ eventCursor events { ${page} } }`);
    const { body } = await client.rest('GET', '/events?limit=1');
    expect(body.pagination.hasMore).toBe(true);
    return [
      data.eventCursor,
      sent.data.sendMessage.eventCursor,
      again.data.sendMessage.eventCursor,
      data.events.pageInfo.startCursor,
      data.events.pageInfo.endCursor,
      ...data.events.edges.map(({ cursor }: Json) => cursor),
      ...data.events.nodes.map(({ cursor }: Json) => cursor),
      body.pagination.nextCursor,
      body.data[0].cursor,
      ...stream.blocks.flatMap(({ id }) => (id === undefined ? [] : [id])),
      stream.events[0].cursor,
      socket.of('all')[0].payload.data.events.cursor,
      socket.of('cursor')[0].payload.data.eventCursor,
    ];
  }

  test('tell nothing of the account, wherever they come from', async () => {
    await beBusy();
    const token = await tokenFor();
    const cursors = await allCursors(server.clientFor(token), token);
    expect(cursors.length).toBeGreaterThan(15);
    for (const cursor of cursors) expect(cursor).toMatch(/^[\w-]{102}$/);
    expect(decoded(cursors).filter((text) => plainCursor.test(text))).toEqual([]);
    // The same place looks different each time, so that two looks do not tell whether anything has happened.
    const client = server.clientFor(token);
    const looks = await Promise.all(Array.from({ length: 5 }, () => client.graphql('{ eventCursor }')));
    expect(new Set(looks.map(({ data }) => data.eventCursor)).size).toBe(5);
    // What was found in plain cursors is what the account itself is given.
    const { data } = await account.graphql('{ eventCursor }');
    expect(decoded(data).filter((text) => plainCursor.test(text))).toHaveLength(1);
  });

  test('are good with every token of the same conversation, and with no other credential', async () => {
    const { data } = await (await bound()).graphql('{ eventCursor }');
    const own: string = data.eventCursor;
    const other = (await account.rest('POST', '/conversations')).body.id;
    const plain = (await account.graphql('{ eventCursor }')).data.eventCursor;
    const changed = `${own.slice(0, 50)}${own[50] === 'A' ? 'B' : 'A'}${own.slice(51)}`;
    await write('later');
    for (const { events } of await pages(await bound(), own)) {
      expect(events.map(({ type }) => type)).toHaveLength(1);
    }
    const strangers = await server.account();
    const attempts: [Client, string][] = [
      [await bound(), plain],
      [await bound(), changed],
      [await bound(), own.slice(0, -1)],
      [await bound(other), own],
      [account, own],
      [strangers, own],
    ];
    for (const [client, after] of attempts) {
      const rest = await client.rest('GET', `/events?after=${after}`);
      const graphql = await client.graphql('query ($after: String) { events(after: $after) { nodes { id } } }', {
        after,
      });
      const detail = 'is not a cursor of the event log';
      expect(rest).toMatchObject({ status: 400, body: { errors: [{ parameter: 'after', detail }] } });
      expect(graphql.errors).toMatchObject([{ extensions: { code: 'VALIDATION_FAILED', errors: [{ detail }] } }]);
      const stream = await client.rest('GET', '/events/stream', { headers: { 'last-event-id': after } });
      expect(stream).toMatchObject({ status: 400, body: { errors: [{ header: 'Last-Event-ID', detail }] } });
    }
  });

  test('lead on without a gap and without a repeat, through pages, streams and sockets', async () => {
    const token = await tokenFor();
    const client = server.clientFor(token);
    const start: string = (await client.graphql('{ eventCursor }')).data.eventCursor;
    for (let count = 1; count <= 5; count++) {
      await beBusy(1);
      await write(`${count}`);
      await captureLead();
    }
    const contents = ['1', '2', '3', '4', '5'];
    const paged: string[] = [];
    for (let after = start, hasMore = true; hasMore; ) {
      const { body } = await client.rest('GET', `/events?limit=2&after=${after}`);
      paged.push(...body.data.map(({ data }: Json) => data.message.content));
      ({ hasMore, nextCursor: after } = body.pagination);
    }
    expect(paged).toEqual(contents);
    const first = await openStream(token, `?after=${start}`);
    await first.until(({ events }) => events.length === 5);
    const second = await openStream(token, '', { 'last-event-id': first.events[1].cursor });
    await second.until(({ events }) => events.length === 3);
    expect([...first.events.slice(0, 2), ...second.events].map(({ data }) => data.message.content)).toEqual(contents);
    const socket = await openSocket(token);
    socket.subscribe(
      'rest',
      'subscription ($after: String) { messageReceived(after: $after) { message { content } } }',
      {
        after: first.events[2].cursor,
      },
    );
    await until(() => socket.of('rest').length === 2);
    expect(socket.of('rest').map(({ payload }) => payload.data.messageReceived.message.content)).toEqual(['4', '5']);
  });

  test('that the log no longer reaches back to give another that it does, and this tells nothing either', async () => {
    const token = await tokenFor();
    const client = server.clientFor(token);
    const old: string = (await client.graphql('{ eventCursor }')).data.eventCursor;
    await beBusy();
    const { body: before } = await account.rest('GET', '/account');
    await server.storage.write(async (tx) => tx.events.prune(server.clock.now() + minuteMs, 100));
    await write('after it');
    const rest = await client.rest('GET', `/events?after=${old}`);
    expect(rest).toMatchObject({ status: 410, body: { code: 'CURSOR_EXPIRED' } });
    const graphql = await client.graphql(`{ events(after: "${old}") { nodes { id } } }`);
    const socket = await openSocket(token);
    socket.subscribe('late', `subscription { events(after: "${old}") { id } }`);
    const late = await socket.first('late');
    const oldest = [
      rest.body.oldestCursor,
      graphql.errors?.[0]?.extensions.oldestCursor,
      (late.payload.errors ?? late.payload)[0].extensions.oldestCursor,
    ];
    for (const cursor of oldest) {
      expect(cursor).toMatch(/^[\w-]{102}$/);
      expect(cursor).not.toBe(before.eventCursor);
      for (const { events } of await pages(client, cursor)) expect(events).toHaveLength(1);
    }
  });

  test('that the log no longer reaches back to once a subscription has begun give such another, too', async () => {
    const client = await bound();
    const { eventCursor: after } = (await client.graphql('{ eventCursor }')).data;
    await write('before');
    const caller: Caller = { ...operatorOf(account.account), credential: 'token', conversationId, sender: 'visitor' };
    const stream = (await streamEvents.execute(server.app.ports, caller, { after })).follow();
    onTestFinished(() => stream.end());
    await server.storage.write(async (tx) => tx.events.prune(server.clock.now() + minuteMs, 100));
    await write('after it');
    const expired = await stream[Symbol.asyncIterator]()
      .next()
      .catch((error: unknown) => error);
    expect(expired).toMatchObject({ code: 'CURSOR_EXPIRED' });
    const { oldestCursor } = (expired as DomainError).facts;
    expect(oldestCursor).toMatch(/^[\w-]{102}$/);
    for (const { events } of await pages(client, oldestCursor)) expect(events).toHaveLength(1);
  });
});

test('whether there is more before or after a page speaks of its own events only', async () => {
  await beBusy();
  const other = (await account.rest('POST', '/conversations')).body.id;
  await beBusy();
  const client = await bound(other);
  const [whole] = await pages(client);
  expect(whole).toMatchObject({ events: [{ type: 'conversation.started' }], hasMore: false });
  const query = `query ($first: Int, $after: String) { events(first: $first, after: $after) { ${page} } }`;
  const start = (await client.graphql(query, { first: 1 })).data.events;
  expect(start.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: false });
  expect(start.nodes).toHaveLength(1);
  await beBusy();
  const end = (await client.graphql(query, { after: start.pageInfo.endCursor })).data.events;
  expect(end).toMatchObject({ nodes: [], pageInfo: { hasNextPage: false, hasPreviousPage: true } });
  expect((await client.rest('GET', '/events?limit=1')).headers['link']).toBeUndefined();
  // Of its own events it is told.
  await account.rest('POST', `/conversations/${other}/messages`, { body: { content: 'x', sender: 'visitor' } });
  const more = (await client.graphql(query, { first: 1 })).data.events;
  expect(more.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: false });
  // What came before its first event is not its own, however much that was.
  const late = await bound((await account.rest('POST', '/conversations')).body.id);
  const [, page2] = await pages(late);
  expect(page2).toMatchObject({ events: [{ type: 'CONVERSATION_STARTED' }], hasMore: false });
});

describe('changes that tell it nothing', () => {
  const change = (body: object) => account.rest('PATCH', `/conversations/${conversationId}`, { body });

  test('are no events to it, on pages or live, and those that tell it something name no more', async () => {
    const token = await tokenFor();
    const after = await cursorOf(token);
    const [stream, socket] = [await openStream(token, `?after=${after}`), await openSocket(token)];
    const updated = '... on ConversationUpdatedEvent { changes { field from to } }';
    socket.subscribe('all', `subscription { conversationChanged(after: "${after}") { type ${updated} } }`);
    await until(() => server.app.liveLog.followers === 2);
    await change({ tags: ['b'], metadata: { a: 1 }, externalId: 'mine' });
    await change({ assignee: { id: 'another', name: 'Grace' } });
    await change({ assignee: { id: 'another', name: 'Ada' }, tags: [], subject: 'Parcel' });
    await change({ metadata: null });
    await write('Hello');
    await until(() => socket.of('all').length === 2 && stream.events.length === 2);
    const changes = {
      subject: { from: null, to: 'Parcel' },
      assignee: { from: { id: null, name: 'Grace' }, to: { id: null, name: 'Ada' } },
    };
    expect(stream.events.map(({ type, data }) => [type, data.changes])).toEqual([
      ['conversation.updated', changes],
      ['message.received', undefined],
    ]);
    const { conversationChanged } = socket.of('all')[0].payload.data;
    expect(conversationChanged.changes).toEqual(
      Object.entries(changes).map(([field, { from, to }]) => ({ field, from, to })),
    );
    for (const { events, hasMore } of await pages(server.clientFor(token))) {
      expect(events.map(({ type }) => type.toLowerCase().replace('_', '.'))).toEqual([
        'conversation.started',
        'message.received',
        'conversation.updated',
        'message.received',
      ]);
      expect(hasMore).toBe(false);
    }
  });

  test('are passed over in any number, a thousand in a request, and none is found behind them that is not there', async () => {
    const client = await bound();
    const conversation = (await account.rest('GET', `/conversations/${conversationId}?messages=none`)).body;
    const changes = { tags: { from: [], to: ['a'] } };
    const hidden = sampleEvent(conversation, {
      type: 'conversation.updated',
      timestamp: timestamp(server.clock.nowMs),
      data: { conversation, changes },
    });
    const { storage } = server;
    await storage.write(async (tx) => {
      await tx.events.append(
        account.account.id,
        Array.from({ length: 2_500 }, (_, index) => ({ ...hidden, id: `${hidden.id}${index}` })),
      );
    });
    await write('behind');
    const found: string[][] = [];
    for (let after = '', more = true; more; ) {
      const { data, pagination } = (await client.rest('GET', `/events?limit=2${after}`)).body;
      found.push(data.map(({ type }: Json) => type));
      more = pagination.hasMore;
      after = `&after=${pagination.nextCursor}`;
    }
    expect(found).toEqual([['conversation.started', 'message.received'], [], ['message.received']]);
  });
});
