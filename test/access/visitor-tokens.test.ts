import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { scopes } from '../../src/domain/caller.ts';
import { type OperationName, operations } from '../../src/domain/operations.ts';
import type { Client, Json } from '../support/client.ts';
import { minuteMs } from '../support/clock.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

// What a token bound to a visitor may do, and what whoever runs code in the visitor's page tries with it. Each attempt
// is made on both faces. What tokens bound to a conversation may do is in `admission.test.ts`, their events in
// `test/events/bound-tokens.test.ts`.

let server: TestServer;
let account: TestAccount;
/** Pages of two visitors. */
let ada: Client;
let bob: Client;
/** One conversation of each, and one of nobody. */
let adas: Talk;
let bobs: Talk;
let nobodys: Talk;

interface Talk {
  readonly id: string;
  readonly messageId: string;
}

const secrets = { metadata: { note: 'secret' }, tags: ['secret'], assignee: { id: 'secret-agent', name: 'Grace' } };
const visitorOf = (id: string) => ({ id, name: `The one named ${id}`, email: `${id}@example.com` });

async function tokenOf(id: string, input: object = {}): Promise<string> {
  const { status, body } = await account.rest('POST', '/tokens', {
    body: { scopes, visitor: visitorOf(id), ...input },
  });
  expect(status).toBe(201);
  return body.token;
}

async function pageOf(id: string, input: object = {}): Promise<Client> {
  return server.clientFor(await tokenOf(id, input));
}

async function talkOf(id: string | null, externalId: string, by: Client = account): Promise<Talk> {
  const { body } = await by.rest('POST', '/conversations', {
    body: {
      ...secrets,
      externalId,
      status: 'active',
      ...(id !== null && { visitor: visitorOf(id) }),
      message: { content: `Hello from ${id}`, sender: 'visitor', metadata: secrets.metadata },
    },
  });
  return { id: body.id, messageId: body.messages[0].id };
}

beforeAll(async () => {
  server = await startTestServer({ timings: { heartbeatMs: 50 } });
});
afterAll(() => server.close());
/** Whether a test changes nothing that the next one looks at. */
let isUnchanged = false;
beforeEach(() => (isUnchanged ? undefined : setUp()));

async function setUp(): Promise<void> {
  server.clock.advance(minuteMs);
  account = await server.account();
  adas = await talkOf('ada', 'secret-1');
  bobs = await talkOf('bob', 'secret-2');
  nobodys = await talkOf(null, 'secret-3');
  [ada, bob] = [await pageOf('ada'), await pageOf('bob')];
}

interface Attempt {
  readonly rest: [method: string, path: string, body?: unknown];
  readonly graphql: string;
  /** Whether it is a subscription. */
  readonly streams?: boolean;
}

/** The codes of an attempt on both faces; undefined for each that went well. */
async function codesOf(client: Client, { rest, graphql, streams = false }: Attempt): Promise<(string | undefined)[]> {
  const [method, path, body] = rest;
  const answer = await client.rest(method, path, body === undefined ? {} : { body });
  const errors = streams ? await errorsOfStream(client, graphql) : (await client.graphql(graphql)).errors;
  return [answer.status < 300 ? undefined : answer.body.code, errors?.[0]?.extensions.code];
}

async function errorsOfStream(client: Client, query: string): Promise<Json[] | undefined> {
  const { body } = await client.post({ query }, { headers: { accept: 'text/event-stream' } });
  const [, data = '{}'] = /^data: (.+)$/m.exec(String(body)) ?? [];
  return JSON.parse(data).errors;
}

const give = (field: string, input: string) => `mutation { ${field}(input: { ${input} }) { eventCursor } }`;

/** What it may call on a conversation. */
const onConversation: Partial<Record<OperationName, (talk: Talk) => Attempt>> = {
  getConversation: ({ id }) => ({
    rest: ['GET', `/conversations/${id}`],
    graphql: `{ conversation(id: "${id}") { id } }`,
  }),
  listMessages: ({ id }) => ({
    rest: ['GET', `/conversations/${id}/messages`],
    graphql: `{ conversation(id: "${id}") { messages { totalCount } } }`,
  }),
  getMessage: ({ messageId }) => ({
    rest: ['GET', `/messages/${messageId}`],
    graphql: `{ message(id: "${messageId}") { id } }`,
  }),
  sendMessage: ({ id }) => ({
    rest: ['POST', `/conversations/${id}/messages`, { content: 'x', sender: 'visitor', clientId: 'draft' }],
    graphql: give('sendMessage', `conversationId: "${id}", content: "x", sender: VISITOR, clientId: "draft"`),
  }),
  captureLead: ({ id }) => ({
    rest: ['POST', '/leads', { conversationId: id, email: 'ada@example.com' }],
    graphql: give('captureLead', `conversationId: "${id}", email: "ada@example.com"`),
  }),
  markRead: ({ id }) => ({
    rest: ['PUT', `/conversations/${id}/read-positions/visitor`, { sequence: 1 }],
    graphql: give('markRead', `conversationId: "${id}", reader: "visitor", sequence: 1`),
  }),
  listEvents: ({ id }) => ({
    rest: ['GET', `/events?conversationId=${id}`],
    graphql: `{ events(conversationId: "${id}") { nodes { id } } }`,
  }),
};

/** What it may call besides. */
const others: OperationName[] = ['listConversations', 'createConversation', 'streamEvents'];

describe('a token bound to a visitor', () => {
  const names = Object.keys(operations) as OperationName[];

  test('may call what is listed here, and nothing else', () => {
    expect(names.filter((name) => operations[name].openToBound !== undefined)).toEqual(
      names.filter((name) => name in onConversation || others.includes(name)),
    );
  });

  test.each(Object.entries(onConversation))(
    'can call %s in its conversations, and finds no other',
    async (_, attempt) => {
      expect(await codesOf(ada, attempt(adas))).toEqual([undefined, undefined]);
      const stranger = await talkOf('ada', 'secret-1', await server.account());
      for (const talk of [bobs, nobodys, stranger, { id: 'conv_1', messageId: 'msg_1' }]) {
        expect(await codesOf(ada, attempt(talk))).toEqual(['NOT_FOUND', 'NOT_FOUND']);
      }
      expect((await account.rest('GET', `/conversations/${bobs.id}`)).body).toMatchObject({
        messageCount: 1,
        version: 1,
      });
    },
  );

  test('follows no other conversation', async () => {
    for (const { id } of [bobs, nobodys, { id: 'conv_1' }]) {
      const attempt: Attempt = {
        rest: ['GET', `/events/stream?conversationId=${id}`],
        graphql: `subscription { events(conversationId: "${id}") { id } }`,
        streams: true,
      };
      expect(await codesOf(ada, attempt)).toEqual(['NOT_FOUND', 'NOT_FOUND']);
    }
  });

  test('sees null in place of every other node', async () => {
    const ids = [adas.id, bobs.id, adas.messageId, bobs.messageId, nobodys.id];
    const { data, errors } = await ada.graphql('query ($ids: [ID!]!) { nodes(ids: $ids) { id } }', { ids });
    expect(data.nodes).toEqual([{ id: adas.id }, null, { id: adas.messageId }, null, null]);
    expect(errors).toBeUndefined();
  });

  test('lists its own conversations, by status and creation, from page to page, and counts no other', async () => {
    const own = [adas.id];
    for (let count = 0; count < 4; count++) {
      server.clock.advance(minuteMs);
      own.unshift((await talkOf('ada', `more-${count}`)).id);
      await talkOf('bob', `other-${count}`);
    }
    await account.rest('PATCH', `/conversations/${own[1]}`, { body: { status: 'closed' } });
    const after = (await ada.rest('GET', `/conversations/${own[3]}`)).body.createdAt;
    for (const [query, args, expected] of [
      ['', '', own],
      ['?status=closed', '(status: CLOSED)', [own[1]]],
      ['?status=closed,active', '(statuses: [CLOSED, ACTIVE])', own],
      [`?createdAfter=${after}`, `(createdAfter: "${after}")`, own.slice(0, 3)],
      ['?sort=createdAt&offset=1', '(sort: CREATED_AT_ASC, offset: 1)', own.toReversed().slice(1)],
    ] as const) {
      const { body } = await ada.rest('GET', `/conversations${query}`);
      const { data } = await ada.graphql(`{ conversations${args} { totalCount nodes { id } } }`);
      expect(body.data.map(({ id }: Json) => id)).toEqual(expected);
      expect(data.conversations.nodes.map(({ id }: Json) => id)).toEqual(expected);
      const total = query.includes('offset') ? own.length : expected.length;
      expect([body.pagination.total, data.conversations.totalCount]).toEqual([total, total]);
    }
    for (const sort of ['-createdAt', 'lastActivityAt']) {
      const paged: string[] = [];
      for (let next: string | null = ''; next !== null; ) {
        const from = next === '' ? '' : `&after=${next}`;
        const { body }: Json = await ada.rest('GET', `/conversations?limit=2&sort=${sort}${from}`);
        paged.push(...body.data.map(({ id }: Json) => id));
        next = body.pagination.nextCursor;
      }
      expect(paged).toEqual(sort === '-createdAt' ? own : own.toReversed());
    }
    const nobody = await pageOf('nobody');
    expect((await nobody.rest('GET', '/conversations')).body).toMatchObject({ data: [], pagination: { total: 0 } });
  });

  test('is shown how far the visitor has read and no agent, wherever it looks', async () => {
    await say(adas.id, 'Hi');
    server.clock.advance(minuteMs);
    const path = `/conversations/${adas.id}`;
    const mark = { body: { sequence: 1 } };
    const { body: theirs } = await account.rest('PUT', `${path}/read-positions/secret-agent`, mark);
    const readAt = new Date(server.clock.now()).toISOString();
    expect(theirs).toEqual({ reader: 'secret-agent', sequence: 1, readAt });
    server.clock.advance(minuteMs);
    const { body: all } = await account.rest('GET', path);
    expect(all.readPositions.map(({ reader }: Json) => reader)).toEqual(['secret-agent', 'visitor']);
    const own = [expect.objectContaining({ reader: 'visitor', sequence: 1 })];

    const rest = [
      await ada.rest('GET', path),
      await ada.rest('GET', `${path}?messages=none`),
      await ada.rest('POST', '/conversations', { body: { message: { content: 'Hello', sender: 'visitor' } } }),
    ];
    for (const { body } of rest) expect(body.readPositions).toEqual(own);
    const list = await ada.rest('GET', '/conversations?sort=createdAt');
    expect(list.body.data.map(({ readPositions }: Json) => readPositions)).toEqual([own, own]);

    const fields = `readPositions { reader sequence readAt }
      named: readPositions(readers: ["secret-agent"]) { reader }
      unread: unreadCount(reader: "visitor") unreadOfAgent: unreadCount(reader: "secret-agent")`;
    const none = { named: [], unreadOfAgent: null };
    const asked = await ada.graphql(`{
      conversation(id: "${adas.id}") { ${fields} } conversations(sort: CREATED_AT_ASC) { nodes { ${fields} } }
      node(id: "${adas.messageId}") { ... on Message { conversation { ${fields} } } }
      events { nodes { ... on MessageReceivedEvent { conversation { current { ${fields} } } }
        ... on ConversationReadEvent { readPosition { reader } } } } }`);
    expect(asked.errors).toBeUndefined();
    const shown = { ...none, readPositions: own, unread: 1 };
    expect(asked.data.conversation).toEqual(shown);
    expect(asked.data.conversations.nodes).toEqual([shown, { ...shown, unread: 0 }]);
    expect(asked.data.node.conversation).toEqual(shown);
    const currents = asked.data.events.nodes.flatMap(({ conversation }: Json) => conversation?.current ?? []);
    expect(currents).toEqual([shown, { ...shown, unread: 0 }]);

    const id = `conversationId: "${adas.id}"`;
    const done = await ada.graphql(`mutation {
      createConversation(input: {}) { conversation { ${fields} } }
      sendMessage(input: { ${id}, content: "x", sender: VISITOR }) { conversation { ${fields} } }
      markRead(input: { ${id}, reader: "visitor", sequence: 3 }) { readPosition { reader } conversation { ${fields} } }
      captureLead(input: { ${id}, phone: "1" }) { lead { conversation { ${fields} } } } }`);
    expect(done.errors).toBeUndefined();
    const { createConversation, sendMessage, markRead, captureLead } = done.data;
    expect(createConversation.conversation).toEqual({ ...none, readPositions: [], unread: null });
    const upToDate = {
      ...none,
      readPositions: [expect.objectContaining({ reader: 'visitor', sequence: 3 })],
      unread: 0,
    };
    expect(sendMessage.conversation).toEqual(upToDate);
    expect(markRead).toEqual({ readPosition: { reader: 'visitor' }, conversation: upToDate });
    expect(captureLead.lead.conversation).toEqual(upToDate);

    const log = await ada.rest('GET', '/events');
    for (const text of [...rest, list, asked, done, log].map((answer) => JSON.stringify(answer))) {
      expect(text).not.toContain('secret-agent');
      expect(text).not.toContain(readAt);
    }
  });

  test('sees what a visitor may, wherever it looks', async () => {
    await account.rest('POST', `/conversations/${adas.id}/messages`, {
      body: {
        content: 'Hi',
        sender: 'agent',
        author: { id: 'secret-agent', name: 'Grace' },
        metadata: secrets.metadata,
      },
    });
    const agents = 'assignee { id name } lastMessage { author { id name } }';
    const fields = `externalId metadata tags ${agents} messages { nodes { metadata author { id name } } }`;
    const snapshot = `conversation { externalId metadata tags ${agents} current { externalId metadata ${agents} } }`;
    const answers = [
      (await ada.rest('GET', `/conversations/${adas.id}`)).body,
      (await ada.rest('GET', '/conversations')).body,
      (await ada.rest('GET', `/conversations/${adas.id}/messages`)).body,
      (await ada.rest('GET', `/messages/${adas.messageId}`)).body,
      (await ada.rest('GET', '/events')).body,
      await ada.graphql(`{ conversation(id: "${adas.id}") { ${fields} } conversations { nodes { ${fields} } }
        node(id: "${adas.messageId}") { ... on Message { metadata conversation { ${fields} } } }
        events { nodes { sequence ... on ConversationStartedEvent { ${snapshot} }
          ... on MessageReceivedEvent { message { metadata } ${snapshot} }
          ... on MessageSentEvent { message { metadata author { id name } } ${snapshot} } } } }`),
      await ada.graphql(`mutation { sendMessage(input: { conversationId: "${adas.id}", content: "x", sender: VISITOR }) {
        message { metadata } conversation { ${fields} } } }`),
      (await ada.rest('POST', '/leads', { body: { conversationId: adas.id, phone: '1', metadata: { a: 'secret' } } }))
        .body,
      await ada.graphql(`mutation { captureLead(input: { conversationId: "${adas.id}", phone: "1" }) {
        lead { metadata conversation { ${fields} } } } }`),
    ];
    for (const answer of answers) {
      const text = JSON.stringify(answer);
      expect(text).toContain('"metadata":{}');
      expect(text).not.toContain('secret');
    }
    expect(JSON.stringify(answers)).toContain('{"id":null,"name":"Grace"}');
  });
});

// ── What it may not say or ask ─────────────────────────────────────────────────────────────────

/** Fields of a new conversation, or of a message, with what would be given for them in GraphQL. */
const refusedFields: Record<string, [value: unknown, spelt: string]> = {
  status: ['active', 'ACTIVE'],
  visitor: [{ id: 'bob' }, '{ id: "bob" }'],
  externalId: ['secret-2', '"secret-2"'],
  assignee: [{ id: 'agent-3' }, '{ id: "agent-3" }'],
  tags: [['vip'], '["vip"]'],
  metadata: [{ vip: true }, '{ vip: true }'],
};

const refusedOfMessages: Record<string, [value: unknown, spelt: string]> = {
  sender: ['agent', 'AGENT'],
  author: [{ name: 'Grace' }, '{ name: "Grace" }'],
  metadata: [{ vip: true }, '{ vip: true }'],
};

/** With which it could find out what it is not shown, of its own conversations or of others. */
const refusedFilters: Record<string, [value: string, spelt: string]> = {
  externalId: ['secret-1', '"secret-1"'],
  visitorId: ['bob', '"bob"'],
  visitorEmail: ['bob@example.com', '"bob@example.com"'],
  assigneeId: ['secret-agent', '"secret-agent"'],
  unassigned: ['false', 'false'],
  tags: ['secret', '["secret"]'],
  unreadBy: ['agent-3', '"agent-3"'],
  updatedAfter: ['2026-11-21T06:12:00Z', '"2026-11-21T06:12:00Z"'],
};

const sender = (field: string, spelt: string) => (field === 'sender' ? '' : `sender: ${spelt}, `);

const refused: [what: string, attempt: () => Attempt][] = [
  ...Object.entries(refusedFields).map(([field, [value, spelt]]): (typeof refused)[number] => [
    `starting a conversation with ${field}`,
    () => ({
      rest: ['POST', '/conversations', { [field]: value }],
      graphql: give('createConversation', `${field}: ${spelt}`),
    }),
  ]),
  ...Object.entries(refusedOfMessages).map(([field, [value, spelt]]): (typeof refused)[number] => [
    `starting a conversation with a message with ${field === 'sender' ? 'another sender' : field}`,
    () => ({
      rest: ['POST', '/conversations', { message: { content: 'x', sender: 'visitor', [field]: value } }],
      graphql: give('createConversation', `message: { content: "x", ${sender(field, 'VISITOR')}${field}: ${spelt} }`),
    }),
  ]),
  ...Object.entries(refusedOfMessages).map(([field, [value, spelt]]): (typeof refused)[number] => [
    `sending with ${field === 'sender' ? 'another sender' : field}`,
    () => ({
      rest: ['POST', `/conversations/${adas.id}/messages`, { content: 'x', sender: 'visitor', [field]: value }],
      graphql: give(
        'sendMessage',
        `conversationId: "${adas.id}", content: "x", ${sender(field, 'VISITOR')}${field}: ${spelt}`,
      ),
    }),
  ]),
  [
    'speaking as a bot',
    () => ({
      rest: ['POST', `/conversations/${adas.id}/messages`, { content: 'x', sender: 'bot' }],
      graphql: give('sendMessage', `conversationId: "${adas.id}", content: "x", sender: BOT`),
    }),
  ],
  ...Object.entries(refusedFilters).map(([filter, [value, spelt]]): (typeof refused)[number] => [
    `listing by ${filter}`,
    () => ({
      rest: ['GET', `/conversations?${filter}=${encodeURIComponent(value)}`],
      graphql: `{ conversations(${filter}: ${spelt}) { totalCount } }`,
    }),
  ]),
  [
    'capturing a lead in no conversation',
    () => ({
      rest: ['POST', '/leads', { email: 'ada@example.com' }],
      graphql: give('captureLead', 'email: "ada@example.com"'),
    }),
  ],
  [
    'moving the read position of an agent',
    () => ({
      rest: ['PUT', `/conversations/${adas.id}/read-positions/agent-3`, { sequence: 1 }],
      graphql: give('markRead', `conversationId: "${adas.id}", reader: "agent-3", sequence: 1`),
    }),
  ],
  [
    'changing its conversation',
    () => ({
      rest: ['PATCH', `/conversations/${adas.id}`, { status: 'closed' }],
      graphql: give('closeConversation', `id: "${adas.id}"`),
    }),
  ],
  [
    'deleting its conversation',
    () => ({
      rest: ['DELETE', `/conversations/${adas.id}`],
      graphql: give('deleteConversation', `id: "${adas.id}"`),
    }),
  ],
  ['reading leads', () => ({ rest: ['GET', '/leads'], graphql: '{ leads { totalCount } }' })],
  ['searching', () => ({ rest: ['GET', '/search?q=hello'], graphql: '{ search(q: "hello") { totalCount } }' })],
  ['counting', () => ({ rest: ['GET', '/analytics'], graphql: '{ analytics { totals { leads } } }' })],
  ['looking at the account', () => ({ rest: ['GET', '/account'], graphql: '{ account { id } }' })],
  ['listing keys', () => ({ rest: ['GET', '/api-keys'], graphql: '{ apiKeys { totalCount } }' })],
  ['listing webhooks', () => ({ rest: ['GET', '/webhooks'], graphql: '{ webhooks { totalCount } }' })],
];

test('every filter is in one of the two tables: those that a visitor’s page may use, and those that it may not', () => {
  const allowed = ['status', 'createdAfter', 'createdBefore'];
  const paging = ['limit', 'offset', 'after', 'total', 'sort'];
  const { shape } = operations.listConversations.input as unknown as { shape: object };
  expect(Object.keys(shape).sort()).toEqual([...paging, ...allowed, ...Object.keys(refusedFilters)].sort());
});

describe('what is refused', () => {
  beforeAll(async () => {
    await setUp();
    isUnchanged = true;
  });
  afterAll(() => {
    isUnchanged = false;
  });

  test.each(refused)(
    '%s is refused to a token bound to a visitor, on both faces, and changes nothing',
    async (_, attempt) => {
      const count = async () => (await account.rest('GET', '/events?limit=100')).body.data.length;
      const before = await count();
      expect(await codesOf(ada, attempt())).toEqual(['FORBIDDEN', 'FORBIDDEN']);
      expect(await count()).toBe(before);
    },
  );
});

test('what a visitor’s page must not give is named, on both faces alike', async () => {
  const detailOf = async ({ rest: [method, path, body], graphql }: Attempt) => {
    const [{ body: problem }, { errors }] = await Promise.all([ada.rest(method, path, { body }), ada.graphql(graphql)]);
    expect(errors).toMatchObject([{ message: problem.detail, extensions: { code: problem.code } }]);
    return problem.detail;
  };
  expect(
    await detailOf({
      rest: ['GET', '/conversations?limit=1&tags=secret'],
      graphql: '{ conversations(first: 1, tags: ["secret"]) { totalCount } }',
    }),
  ).toBe('A token bound to a visitor may not give `tags` here.');
  expect(
    await detailOf({
      rest: ['POST', '/conversations', { message: { content: 'Hello', metadata: {} } }],
      graphql: give('createConversation', 'message: { content: "Hello", metadata: {} }'),
    }),
  ).toBe('A token bound to a visitor may not give `message/metadata` here.');
});

describe('a conversation that a visitor starts', () => {
  test('may say that what it must not set is null, as if it were left out', async () => {
    const message = { content: 'Hello', sender: 'visitor', author: null, metadata: null };
    const body = { visitor: null, assignee: null, externalId: null, message };
    const { status, body: created } = await ada.rest('POST', '/conversations', { body });
    expect({ status, code: created.code }).toEqual({ status: 201 });
    expect((await account.rest('GET', `/conversations/${created.id}`)).body).toMatchObject({
      visitor: { id: 'ada' },
      assignee: null,
      externalId: null,
      messages: [{ sender: 'visitor', author: null, metadata: {} }],
    });
  });

  test('is the visitor’s, with a subject and a message of it, and waits for an agent', async () => {
    const input = { subject: 'Parcel', message: { content: 'Where is it?', clientId: 'draft-1' } };
    const rest = await ada.rest('POST', '/conversations', {
      body: { ...input, message: { ...input.message, sender: 'visitor' } },
    });
    const graphql = await ada.graphql(
      `mutation ($input: CreateConversationInput!) { createConversation(input: $input) {
        conversation { id status subject visitor { id name email } messages { nodes { sender clientId } } } eventCursor } }`,
      { input },
    );
    expect(graphql.errors).toBeUndefined();
    const { conversation, eventCursor } = graphql.data.createConversation;
    const expected = { status: 'pending', subject: 'Parcel', visitor: visitorOf('ada') };
    expect(rest).toMatchObject({ status: 201, body: expected });
    expect(conversation).toMatchObject({ ...expected, status: 'PENDING' });
    const message = { sender: 'visitor', clientId: 'draft-1' };
    expect(rest.body.messages).toMatchObject([message]);
    expect(conversation.messages.nodes).toEqual([{ ...message, sender: 'VISITOR' }]);
    // The cursor tells nothing, and leads on.
    expect(eventCursor).toMatch(/^[\w-]{102}$/);
    expect((await ada.rest('GET', `/events?after=${eventCursor}`)).body.data).toEqual([]);
    const { body } = await account.rest('GET', `/conversations/${conversation.id}`);
    expect(body).toMatchObject({ ...expected, externalId: null, metadata: {}, tags: [], assignee: null });
  });

  test('needs nothing to be said, not even the sender, on either face', async () => {
    const post = (path: string, body: object) => ada.rest('POST', path, { body });
    expect(await post('/conversations', {})).toMatchObject({
      status: 201,
      body: { visitor: { id: 'ada' }, messages: [] },
    });
    const started = await post('/conversations', { message: { content: 'Hello' } });
    expect(started).toMatchObject({ status: 201, body: { messages: [{ sender: 'visitor' }] } });
    const sent = await post(`/conversations/${started.body.id}/messages`, { content: 'Again' });
    expect(sent).toMatchObject({ status: 201, body: { sender: 'visitor', sequence: 2 } });
    const { data } = await ada.graphql(`mutation { sendMessage(input: { conversationId: "${adas.id}", content: "x" }) {
      message { sender } } }`);
    expect(data.sendMessage.message.sender).toBe('VISITOR');
    // Anybody else has to say it.
    const unsaid = await account.graphql(give('sendMessage', `conversationId: "${adas.id}", content: "x"`));
    expect(unsaid.errors).toMatchObject([
      { extensions: { code: 'VALIDATION_FAILED', errors: [{ pointer: '/input/sender', detail: 'is required' }] } },
    ]);
  });

  test('is refused for its faults as anybody’s', async () => {
    const { body } = await ada.rest('POST', '/conversations', {
      body: { subject: 5, message: { content: '', sender: 'visitor' } },
    });
    expect(body).toMatchObject({
      code: 'VALIDATION_FAILED',
      errors: [{ pointer: '/subject' }, { pointer: '/message/content' }],
    });
  });
});

test('the longest visitor that there can be fits into a token', async () => {
  const visitor = { id: '😀'.repeat(128), name: '"'.repeat(200), email: '😀'.repeat(320) };
  const page = server.clientFor(await tokenOf('', { visitor }));
  const { status, body } = await page.rest('POST', '/conversations');
  expect([status, body.visitor]).toEqual([201, visitor]);
  expect((await page.rest('GET', '/conversations')).body.pagination.total).toBe(1);
});

describe('idempotency keys of a visitor’s pages', () => {
  const start = (client: Client, content = 'Hello') =>
    client.rest('POST', '/conversations', {
      body: { message: { content, sender: 'visitor' } },
      headers: { 'idempotency-key': 'k' },
    });

  test('are for the visitor, not for the token, and are neither anybody else’s nor taken from them', async () => {
    const first = await start(ada);
    expect(first.status).toBe(201);
    const renewed = await pageOf('ada', { visitor: { id: 'ada', name: 'By a new name' } });
    const again = await start(renewed);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    expect((await start(renewed, 'Something else')).body.code).toBe('IDEMPOTENCY_KEY_REUSED');
    const inConversation = server.clientFor(
      (await account.rest('POST', '/tokens', { body: { scopes, conversationId: adas.id } })).body.token,
    );
    const send = (client: Client) =>
      client.rest('POST', `/conversations/${adas.id}/messages`, {
        body: { content: 'Hello', sender: 'visitor' },
        headers: { 'idempotency-key': 'k' },
      });
    for (const answer of [
      await start(bob, 'Bob’s'),
      await start(account, 'The back end’s'),
      await send(inConversation),
    ]) {
      expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, undefined]);
    }
  });

  test('repeat nothing of a conversation that is another visitor’s by now', async () => {
    const send = () =>
      ada.rest('POST', `/conversations/${adas.id}/messages`, {
        body: { content: 'Hello', sender: 'visitor' },
        headers: { 'idempotency-key': 'k' },
      });
    const first = await send();
    expect((await send()).body).toEqual(first.body);
    await account.rest('PATCH', `/conversations/${adas.id}`, { body: { visitor: visitorOf('bob') } });
    expect((await send()).body.code).toBe('NOT_FOUND');
  });

  test('make one lead of a repeated capture on both faces, and show it no more once the conversation is another visitor’s', async () => {
    const lead = { conversationId: adas.id, email: 'ada@example.com' };
    const capture = async (client: Client, input: object = lead) =>
      await client.rest('POST', '/leads', { body: input, headers: { 'idempotency-key': 'k' } });
    const captureInGraphQL = async (client: Client) =>
      await client.graphql(
        'mutation ($input: CaptureLeadInput!) { captureLead(input: $input) { lead { id email metadata } } }',
        { input: { ...lead, idempotencyKey: 'k' } },
      );
    const first = await capture(ada);
    expect(first.status).toBe(201);
    const renewed = await pageOf('ada', { visitor: { id: 'ada' } });
    const again = await capture(renewed);
    expect([again.headers['idempotent-replayed'], again.body]).toEqual(['true', first.body]);
    const { id, email } = first.body;
    expect((await captureInGraphQL(renewed)).data.captureLead.lead).toEqual({ id, email, metadata: {} });
    expect((await capture(ada, { ...lead, phone: '1' })).body.code).toBe('IDEMPOTENCY_KEY_REUSED');
    const leads = async () => (await account.rest('GET', '/leads')).body.pagination.total;
    expect(await leads()).toBe(1);

    await change(adas.id, { visitor: visitorOf('bob') });
    expect((await capture(ada)).body.code).toBe('NOT_FOUND');
    expect((await captureInGraphQL(renewed)).errors).toMatchObject([{ extensions: { code: 'NOT_FOUND' } }]);
    expect(await leads()).toBe(1);
    // It is another request of the other visitor, and of the account.
    for (const client of [bob, account]) {
      const { status, headers, body } = await capture(client);
      expect([status, headers['idempotent-replayed'], body.id === id]).toEqual([201, undefined, false]);
    }
    // What has come back is replayed again.
    await change(adas.id, { visitor: visitorOf('ada') });
    expect((await capture(ada)).body).toEqual(first.body);
    await account.rest('DELETE', `/conversations/${adas.id}`);
    expect((await capture(ada)).body.code).toBe('NOT_FOUND');
  });
});

// ── Events ─────────────────────────────────────────────────────────────────────────────────────

/** From here on all is told to what follows the log, however late it begins to. */
async function cursorOf(token: string): Promise<string> {
  return (await server.clientFor(token).graphql('{ eventCursor }')).data.eventCursor;
}

/** A page that listens, by SSE and by a socket. */
async function listen(id: string): Promise<{ heard: () => string[][]; texts: () => string }> {
  const token = await tokenOf(id);
  const after = await cursorOf(token);
  const headers = { authorization: `Bearer ${token}` };
  const stream = await SseReader.open(`${server.url}/v1/events/stream?after=${after}`, headers);
  const socket = await new RawSocket(server.url).init(token);
  onTestFinished(() => {
    stream.close();
    socket.socket.terminate();
  });
  socket.subscribe('all', `subscription { conversationChanged(after: "${after}") { id type sequence } }`);
  const inSocket = () => socket.of('all').map(({ payload }) => payload.data.conversationChanged.type as string);
  return {
    heard: () => [
      stream.events.map(({ type }) => type),
      inSocket().map((type) => type.toLowerCase().replace('_', '.')),
    ],
    texts: () => `${stream.body} ${JSON.stringify(socket.messages)}`,
  };
}

/** What follows one conversation of a page, in every way there is, and what each of them has heard. */
interface Following {
  /** The types by each of them. */
  heard(): string[][];
  /** Waits until all that was committed before has been told to whoever may hear it. */
  caughtUp(): Promise<void>;
  texts(): string;
}

async function followOne(id: string, conversationId: string): Promise<Following> {
  const token = await tokenOf(id);
  const after = await cursorOf(token);
  const argument = `conversationId: "${conversationId}", after: "${after}"`;
  const fields = `type ... on MessageSentEvent { message { content } conversation { current { id subject } } }
    ... on ConversationUpdatedEvent { changes { field from to } conversation { subject } }`;
  const inSocket: Record<string, string> = {
    events: `events(${argument})`,
    chosen: `events(${argument}, types: [MESSAGE_SENT, CONVERSATION_UPDATED, CONVERSATION_DELETED, CONVERSATION_READ])`,
    changes: `conversationChanged(${argument})`,
  };
  const subscription = `subscription { told: conversationChanged(${argument}) { ${fields} } }`;
  const headers = { authorization: `Bearer ${token}` };
  const [rest, graphql] = await Promise.all([
    SseReader.open(`${server.url}/v1/events/stream?conversationId=${conversationId}&after=${after}`, headers),
    SseReader.open(`${server.url}/graphql?query=${encodeURIComponent(subscription)}`, headers),
  ]);
  const socket = await new RawSocket(server.url).init(token);
  onTestFinished(() => {
    rest.close();
    graphql.close();
    socket.socket.terminate();
  });
  for (const [name, field] of Object.entries(inSocket)) {
    socket.subscribe(name, `subscription { told: ${field} { ${fields} } }`);
  }
  let rounds = 0;
  const roundTrip = async (): Promise<void> => {
    const round = `round ${rounds++}`;
    socket.subscribe(round, '{ eventCursor }');
    await socket.first(round, 'complete');
  };
  await roundTrip();
  const typesOf = (answers: Json[]) =>
    answers.map(({ data, errors }) => errors ?? data.told.type.toLowerCase().replace('_', '.'));
  return {
    heard: () => [
      rest.events.map(({ type }) => type),
      typesOf(graphql.events),
      ...Object.keys(inSocket).map((name) => typesOf(socket.of(name).map(({ payload }) => payload))),
    ],
    async caughtUp() {
      // A heartbeat tells how far the stream has come.
      const heartbeats = () => rest.blocks.filter(({ data }) => data === undefined).length;
      const before = heartbeats();
      await until(() => heartbeats() >= before + 2);
      await roundTrip();
    },
    texts: () => `${rest.body} ${graphql.body} ${JSON.stringify(socket.messages)}`,
  };
}

const change = (id: string, body: object) => account.rest('PATCH', `/conversations/${id}`, { body });
const say = (id: string, content: string) =>
  account.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'agent' } });
const typesIn = ({ body }: Json): string[] => body.data.map(({ type }: Json) => type);

describe('events', () => {
  test('of a conversation that moves to another visitor, and is erased there, are heard by whose it is', async () => {
    const [adaHears, bobHears] = [await listen('ada'), await listen('bob')];
    const hears = async ({ heard }: typeof adaHears, types: string[]) => {
      await until(() => heard().every((each) => each.length >= types.length));
      expect(heard()).toEqual([types, types]);
    };
    await say(adas.id, 'To Ada');
    await account.rest('POST', '/leads', { body: { conversationId: adas.id, email: 'ada@example.com' } });
    await hears(adaHears, ['message.sent']);
    await change(adas.id, { visitor: visitorOf('bob'), metadata: { note: 'secret' } });
    await hears(bobHears, ['conversation.updated']);
    expect(
      await codesOf(ada, {
        rest: ['GET', `/conversations/${adas.id}`],
        graphql: `{ conversation(id: "${adas.id}") { id } }`,
      }),
    ).toEqual(['NOT_FOUND', 'NOT_FOUND']);
    expect((await ada.rest('GET', '/conversations')).body.pagination.total).toBe(0);
    expect((await bob.rest('GET', '/conversations')).body.pagination.total).toBe(2);
    await say(adas.id, 'To Bob');
    await hears(bobHears, ['conversation.updated', 'message.sent']);
    await account.rest('DELETE', `/conversations/${adas.id}`);
    await hears(bobHears, ['conversation.updated', 'message.sent', 'conversation.deleted']);
    // What comes after all of it is the first thing that she hears again.
    const { body } = await ada.rest('POST', '/conversations');
    await hears(adaHears, ['message.sent', 'conversation.started']);
    expect(adaHears.texts()).not.toContain('To Bob');
    expect(bobHears.texts()).not.toMatch(/ada@example|secret|The one named ada/);
    // The log agrees: whose an event is, was settled when it was written, and outlives the erasure.
    expect(typesIn(await ada.rest('GET', '/events'))).toEqual([
      ...['conversation.started', 'message.received', 'message.sent'],
      'conversation.started',
    ]);
    expect(typesIn(await bob.rest('GET', '/events'))).toEqual([
      ...['conversation.started', 'message.received'],
      ...['message.sent', 'conversation.deleted'], // of an erased change it is not known whether it was shown
    ]);
    expect((await ada.rest('GET', '/events')).body.data.map(({ data }: Json) => data)).toEqual([
      ...Array(3).fill({ erased: true }),
      { conversation: expect.objectContaining({ id: body.id }) },
    ]);
    // Who followed it alone still finds that it is gone; the one before finds no such conversation.
    expect(typesIn(await bob.rest('GET', `/events?conversationId=${adas.id}`))).toContain('conversation.deleted');
    expect((await ada.rest('GET', `/events?conversationId=${adas.id}`)).body.code).toBe('NOT_FOUND');
  });

  test('of a conversation that a page follows alone are heard by it no more once another visitor’s it is, until it comes back', async () => {
    const page = await followOne('ada', adas.id);
    const hears = async (types: string[]) => {
      await until(() => page.heard().every((each) => each.length >= types.length));
      expect(page.heard()).toEqual(page.heard().map(() => types));
    };
    const whatBobSees = async (text: string) => {
      await change(adas.id, { subject: `The subject of ${text}` });
      await say(adas.id, `To Bob, ${text}`);
      await bob.rest('POST', `/conversations/${adas.id}/messages`, { body: { content: text } });
      await bob.rest('PUT', `/conversations/${adas.id}/read-positions/visitor`, { body: { sequence: 2 } });
      for (const status of ['closed', 'active']) await change(adas.id, { status });
    };
    await say(adas.id, 'To Ada');
    await hears(['message.sent']);

    await change(adas.id, { visitor: visitorOf('bob'), subject: 'Another’s' });
    await whatBobSees('while it is Bob’s');
    await page.caughtUp();
    await hears(['message.sent']);
    expect(page.texts()).not.toMatch(/To Bob|while it is Bob’s|Another’s|named bob/);
    // It cannot be followed anew either, from where it was or at all.
    const { eventCursor } = (await ada.graphql('{ eventCursor }')).data;
    for (const after of ['', `, after: "${eventCursor}"`]) {
      const attempt: Attempt = {
        rest: ['GET', `/events/stream?conversationId=${adas.id}${after && `&after=${eventCursor}`}`],
        graphql: `subscription { conversationChanged(conversationId: "${adas.id}"${after}) { id } }`,
        streams: true,
      };
      expect(await codesOf(ada, attempt)).toEqual(['NOT_FOUND', 'NOT_FOUND']);
    }
    // What she was told before leads to nothing that it has become.
    const { data } = await ada.graphql(
      '{ events { nodes { ... on MessageSentEvent { conversation { conversationId current { subject } } } } } }',
    );
    expect(data.events.nodes.at(-1)).toEqual({ conversation: { conversationId: adas.id, current: null } });

    await change(adas.id, { visitor: visitorOf('ada') });
    await say(adas.id, 'To Ada again');
    const whileHers = ['message.sent', 'conversation.updated', 'message.sent'];
    await hears(whileHers);
    // That it is hers is a change of nothing that she is shown.
    expect(
      page
        .texts()
        .match(/"changes":(\{\}|\[\])/g)
        ?.sort(),
    ).toEqual([...Array(4).fill('"changes":[]'), '"changes":{}']);

    await change(adas.id, { visitor: visitorOf('bob') });
    await whatBobSees('before it was erased');
    await account.rest('DELETE', `/conversations/${adas.id}`);
    await page.caughtUp();
    await hears(whileHers);
    expect(page.texts()).not.toMatch(/before it was erased/);
  });

  test('tell the visitor of changes that are its business, and of no others', async () => {
    const { heard } = await listen('ada');
    await change(adas.id, { tags: ['b'], metadata: { a: 1 }, externalId: 'mine' });
    await change(adas.id, { visitor: { ...visitorOf('ada'), name: 'Countess' } });
    const read = (reader: string, client: Client = account) =>
      client.rest('PUT', `/conversations/${adas.id}/read-positions/${reader}`, { body: { sequence: 1 } });
    expect([(await read('agent-3')).status, (await read('someone')).status]).toEqual([200, 200]);
    await change(adas.id, { subject: 'Parcel', assignee: { id: 'x', name: 'Linus' }, tags: [] });
    await say(bobs.id, 'To Bob');
    await say(nobodys.id, 'To nobody');
    await say(adas.id, 'The last');
    await until(() => heard().every((types) => types.includes('message.sent')));
    const types = ['conversation.updated', 'message.sent'];
    expect(heard()).toEqual([types, types]);
    const { body } = await ada.rest('GET', '/events');
    expect(body.data.at(-2).data.changes).toEqual({
      subject: { from: null, to: 'Parcel' },
      assignee: { from: { id: null, name: 'Grace' }, to: { id: null, name: 'Linus' } },
    });
    // What is not given is not there to be turned over either.
    const paged = await ada.rest('GET', '/events?limit=4');
    expect([paged.body.data.length, paged.body.pagination.hasMore]).toEqual([4, false]);
  });

  test('tell how far the visitor has read, and not how far agents have, also after an erasure', async () => {
    const { heard, texts } = await listen('ada');
    await say(adas.id, 'To Ada');
    const read = (reader: string, client: Client) =>
      client.rest('PUT', `/conversations/${adas.id}/read-positions/${reader}`, { body: { sequence: 2 } });
    for (const reader of ['agent-3', 'secret-agent']) expect((await read(reader, account)).status).toBe(200);
    expect((await read('visitor', ada)).body).toMatchObject({ reader: 'visitor', sequence: 2 });
    await until(() => heard().every((types) => types.length >= 2));
    expect(heard()).toEqual([
      ['message.sent', 'conversation.read'],
      ['message.sent', 'conversation.read'],
    ]);
    expect(texts()).not.toMatch(/agent-3|secret-agent/);
    await account.rest('DELETE', `/conversations/${adas.id}`);
    expect(typesIn(await ada.rest('GET', '/events'))).toEqual([
      ...['conversation.started', 'message.received', 'message.sent', 'conversation.deleted'],
    ]);
  });

  test('arrive as a change of nothing where a conversation comes to a visitor', async () => {
    await change(nobodys.id, { visitor: visitorOf('ada') });
    const rest = (await ada.rest('GET', '/events')).body.data.at(-1);
    expect(rest).toMatchObject({ type: 'conversation.updated', sequence: null, data: { changes: {} } });
    const { data } = await ada.graphql(
      '{ events { nodes { ... on ConversationUpdatedEvent { changes { field } conversation { conversationId } } } } }',
    );
    expect(data.events.nodes.at(-1)).toEqual({ changes: [], conversation: { conversationId: nobodys.id } });
    expect((await ada.rest('GET', `/conversations/${nobodys.id}`)).status).toBe(200);
  });

  test('have cursors that tell nothing, too, which every change answers with, also when it is repeated', async () => {
    const changes = Object.values(onConversation)
      .map((attempt) => attempt(adas).graphql)
      .filter((text) => text.startsWith('mutation'));
    expect(changes).toHaveLength(3);
    const once = (text: string) => text.replace(' }) {', `, idempotencyKey: "${text.length}" }) {`);
    const repeated = [give('createConversation', 'subject: "x"'), ...changes].filter((text) => !/markRead/.test(text));
    for (const text of [...changes, ...repeated.flatMap((each) => [once(each), once(each)])]) {
      const { data, errors } = await ada.graphql(text);
      expect(errors).toBeUndefined();
      const [{ eventCursor }] = Object.values<Json>(data) as [Json];
      expect(eventCursor).toMatch(/^[\w-]{102}$/);
      expect((await ada.rest('GET', `/events?after=${eventCursor}`)).status).toBe(200);
    }
  });

  test('have cursors that tell nothing and are good for every token of the visitor, and of nobody else', async () => {
    const { eventCursor } = (await ada.graphql('{ eventCursor }')).data;
    const page = (await ada.rest('GET', '/events?limit=1')).body;
    expect(page.pagination.hasMore).toBe(true);
    const cursors = [eventCursor, page.data[0].cursor, page.pagination.nextCursor];
    for (const cursor of cursors) expect(cursor).toMatch(/^[\w-]{102}$/);
    expect((await ada.graphql('{ eventCursor }')).data.eventCursor).not.toBe(eventCursor);
    await say(bobs.id, 'To Bob');
    const quiet = (await ada.rest('GET', `/events?after=${eventCursor}`)).body;
    expect([quiet.data, quiet.pagination.hasMore]).toEqual([[], false]);
    await say(adas.id, 'To Ada');
    const renewed = await pageOf('ada', { visitor: { id: 'ada' } });
    expect(typesIn(await renewed.rest('GET', `/events?after=${eventCursor}`))).toEqual(['message.sent']);
    const inConversation = server.clientFor(
      (await account.rest('POST', '/tokens', { body: { scopes, conversationId: adas.id } })).body.token,
    );
    const plain = (await account.graphql('{ eventCursor }')).data.eventCursor;
    for (const [client, cursor] of [
      [bob, eventCursor],
      [account, eventCursor],
      [inConversation, eventCursor],
      [ada, plain],
      [ada, (await inConversation.graphql('{ eventCursor }')).data.eventCursor],
    ] as const) {
      const attempt: Attempt = {
        rest: ['GET', `/events?after=${cursor}`],
        graphql: `{ events(after: "${cursor}") { nodes { id } } }`,
      };
      expect(await codesOf(client, attempt)).toEqual(['VALIDATION_FAILED', 'VALIDATION_FAILED']);
    }
  });

  test('keep of whose they are a hash that tells nobody who that is, also after an erasure', async () => {
    const before = await hashesOf(adas.id);
    expect(before).toHaveLength(2);
    expect(new Set(before).size).toBe(1);
    await account.rest('DELETE', `/conversations/${adas.id}`);
    expect(await hashesOf(adas.id)).toEqual([...before, before[0]]);
    expect(before[0]).toMatch(/^[\w-]{22}$/);
  });

  async function hashesOf(conversationId: string): Promise<(string | null)[]> {
    const filter = { conversationId };
    const { events } = await server.storage.read.events.after(account.account.id, 0, { filter, limit: 9, span: 999 });
    return events.map(({ visitorHash }) => visitorHash);
  }
});

describe('the share of a visitor', () => {
  test('is one for all its tokens, apart from those of its conversations and of other visitors', async () => {
    const left = ({ headers }: Json): number => Number(headers['x-ratelimit-remaining']);
    const look = async (client: Client): Promise<Json> => client.rest('GET', '/conversations');
    const [one, renewed, other] = [
      await pageOf('zoe', { requestsPerHour: 3 }),
      await pageOf('zoe', { requestsPerHour: 3 }),
      await pageOf('zoe 2', { requestsPerHour: 3 }),
    ];
    expect([left(await look(one)), left(await look(renewed)), left(await look(other))]).toEqual([2, 1, 2]);
    expect((await look(one)).headers['ratelimit-policy']).toBe('"share";q=3;w=3600');
    expect(await look(renewed)).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED', limit: 'share' } });
    const graphql = await one.graphql('{ conversations { totalCount } }');
    expect(graphql.errors).toMatchObject([{ extensions: { code: 'RATE_LIMITED', limit: 'share' } }]);
    expect((await look(other)).status).toBe(200);
  });
});
