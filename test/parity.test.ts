import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventTypes } from '../src/domain/events.ts';
import type { Json } from './support/client.ts';
import { eventsOf } from './support/log.ts';
import * as select from './support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

// One table of cases, each sent through both faces to an account of its own. The two must answer the
// same resource or the same code, leave the same conversations behind, and log the same events.

interface Case {
  readonly name: string;
  /** Makes what the case needs, over REST; its results are handed to the two requests. */
  readonly given?: (client: TestAccount) => Promise<Json>;
  readonly rest: (given: Json) => [method: string, path: string, body?: unknown, headers?: Record<string, string>];
  readonly graphql: (given: Json) => [query: string, variables?: Record<string, unknown>];
  /** The status of the REST answer, or the code that both faces give. */
  readonly expected: number | string;
  /** The faults that both faces point at, for `VALIDATION_FAILED`. */
  readonly pointers?: string[];
  /** The types of the events that it causes. */
  readonly events?: string[];
  /** What is asked of the result besides being the same. */
  readonly check?: (resource: Json) => void;
}

const unknownConversation = 'conv_01m7yzcf3tfz1aan3df712nas7';
const visitorSays = (content: string) => ({ content, sender: 'visitor' });

async function create(client: TestAccount, body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/conversations', { body })).body;
}

async function change(client: TestAccount, id: string, body: object): Promise<Json> {
  return (await client.rest('PATCH', `/conversations/${id}`, { body })).body;
}

async function closed(client: TestAccount): Promise<Json> {
  const { id } = await create(client);
  return await change(client, id, { status: 'closed' });
}

/** GraphQL spells the values of enumerations in capitals. */
const capitals = (input: Json): Json => ({
  ...input,
  ...(input.status == null ? {} : { status: input.status.toUpperCase() }),
  ...(input.sender == null ? {} : { sender: input.sender.toUpperCase() }),
  ...(input.message == null ? {} : { message: capitals(input.message) }),
});

function creating(name: string, body: object, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `creating ${name}`,
    rest: () => ['POST', '/conversations', body],
    graphql: () => [
      `mutation ($input: CreateConversationInput!) { result: createConversation(input: $input) { conversation { ${select.conversationWithMessages} } } }`,
      { input: capitals(body) },
    ],
    ...rest,
  };
}

function updating(
  name: string,
  given: NonNullable<Case['given']>,
  body: object,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  return {
    name: `updating ${name}`,
    given,
    rest: ({ id }) => ['PATCH', `/conversations/${id}`, body],
    graphql: ({ id }) => [
      `mutation ($input: UpdateConversationInput!) { result: updateConversation(input: $input) { conversation { ${select.conversation} } } }`,
      { input: capitals({ ...body, id }) },
    ],
    ...rest,
  };
}

function sending(
  name: string,
  given: NonNullable<Case['given']>,
  body: object,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  return {
    name: `sending ${name}`,
    given,
    rest: ({ id }) => ['POST', `/conversations/${id}/messages`, body],
    graphql: ({ id }) => [
      `mutation ($input: SendMessageInput!) { result: sendMessage(input: $input) { message { ${select.message} } } }`,
      { input: capitals({ ...body, conversationId: id }) },
    ],
    ...rest,
  };
}

function deleting(name: string, given: NonNullable<Case['given']>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `deleting ${name}`,
    given,
    rest: ({ id }) => ['DELETE', `/conversations/${id}`],
    graphql: ({ id }) => [
      'mutation ($id: ID!) { result: deleteConversation(input: { id: $id }) { deletedConversationId } }',
      { id },
    ],
    ...rest,
  };
}

/** The same case for a version: a header of REST, and a field of GraphQL's input. */
function forVersion(version: number, { name, rest, graphql, ...others }: Case): Case {
  return {
    ...others,
    name: `${name}, for version ${version}`,
    rest: (given) => {
      const [method, path, body] = rest(given);
      return [method, path, body, { 'if-match': `"${version}"` }];
    },
    graphql: (given) => withInput(graphql(given), { expectedVersion: version }),
  };
}

/** The same case under an idempotency key. */
function underKey(key: string, { name, rest, graphql, ...others }: Case): Case {
  return {
    ...others,
    name: `${name}, under the key ${JSON.stringify(key)}`,
    rest: (given) => {
      const [method, path, body] = rest(given);
      return [method, path, body, { 'idempotency-key': key }];
    },
    graphql: (given) => withInput(graphql(given), { idempotencyKey: key }),
  };
}

function withInput([query, variables]: ReturnType<Case['graphql']>, more: object): ReturnType<Case['graphql']> {
  if (variables?.['input'] !== undefined) return [query, { input: { ...variables['input'], ...more } }];
  const fields = Object.entries(more).map(([field, value]) => `${field}: ${JSON.stringify(value)}`);
  const written = query.replace('input: {', `input: { ${fields.join(', ')},`);
  return variables === undefined ? [written] : [written, variables];
}

/** A conversation with everything that can be of one. */
async function whole(client: TestAccount): Promise<Json> {
  const { id } = await create(client, { externalId: 'order-1', message: visitorSays('Hello') });
  await capture(client, { conversationId: id, email: 'ada@example.com' });
  return { id };
}

const listArguments: Record<string, string> = { limit: 'first' };

function listing(name: string, query: Record<string, unknown>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  const sorts: Record<string, string> = {
    createdAt: 'CREATED_AT_ASC',
    '-createdAt': 'CREATED_AT_DESC',
    lastActivityAt: 'LAST_ACTIVITY_AT_ASC',
    '-lastActivityAt': 'LAST_ACTIVITY_AT_DESC',
  };
  const spelt = Object.entries(query).map(([key, value]) => {
    const spelling =
      key === 'sort' ? sorts[String(value)] : key === 'status' ? String(value).toUpperCase() : JSON.stringify(value);
    return `${listArguments[key] ?? key}: ${spelling}`;
  });
  return {
    name: `listing ${name}`,
    given: async (client) => {
      const made: Json[] = [];
      for (const status of ['active', 'pending', 'active', 'pending', 'active']) {
        made.push(await create(client, { status, externalId: `order-${made.length}` }));
      }
      await change(client, made[0].id, { status: 'closed' });
      return made;
    },
    rest: () => ['GET', `/conversations?${new URLSearchParams(query as Record<string, string>)}`],
    graphql: () => [
      `{ result: conversations${spelt.length === 0 ? '' : `(${spelt.join(', ')})`} { data: nodes { ${select.conversation} }
        totalCount pageInfo { hasNextPage endCursor } } }`,
    ],
    ...rest,
  };
}

function capturing(
  name: string,
  body: object,
  { given = async () => ({}), ...rest }: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  // What the case has made is the conversation that the lead is of.
  const input = ({ id }: Json) => (id === undefined ? body : { ...body, conversationId: id });
  return {
    name: `capturing a lead ${name}`,
    given,
    rest: (made) => ['POST', '/leads', input(made)],
    graphql: (made) => [
      `mutation ($input: CaptureLeadInput!) { result: captureLead(input: $input) { lead { ${select.lead} } } }`,
      { input: input(made) },
    ],
    ...rest,
  };
}

/** GraphQL spells `conversations:read` as CONVERSATIONS_READ. */
function minting(
  name: string,
  body: Json,
  { given = async () => ({}), ...rest }: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  // What the case has made is the conversation that the token is bound to.
  const input = ({ id }: Json) => (id === undefined ? body : { ...body, conversationId: id });
  const spelt = (made: Json) => {
    const { scopes, ...others } = capitals(input(made));
    return { ...others, scopes: scopes?.map((scope: string) => scope.toUpperCase().replace(':', '_')) };
  };
  return {
    name: `making a token ${name}`,
    given,
    rest: (made) => ['POST', '/tokens', input(made)],
    graphql: (made) => [
      `mutation ($input: CreateTokenInput!) { result: createToken(input: $input) { token { ${select.token} } } }`,
      { input: spelt(made) },
    ],
    ...rest,
  };
}

async function capture(client: TestAccount, body: object): Promise<Json> {
  return (await client.rest('POST', '/leads', { body })).body;
}

function listingLeads(
  name: string,
  query: Record<string, unknown>,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  const spelt = Object.entries(query).map(([key, value]) => `${listArguments[key] ?? key}: ${JSON.stringify(value)}`);
  return {
    name: `listing leads ${name}`,
    given: async (client) => {
      for (const phone of ['1', '2', '3', '4', '5']) await capture(client, { phone });
    },
    rest: () => ['GET', `/leads?${new URLSearchParams(query as Record<string, string>)}`],
    graphql: () => [
      `{ result: leads${spelt.length === 0 ? '' : `(${spelt.join(', ')})`} { data: nodes { ${select.lead} }
        totalCount pageInfo { hasNextPage endCursor } } }`,
    ],
    ...rest,
  };
}

/** One event of each kind, and two conversations. */
async function eventful(client: TestAccount): Promise<Json> {
  const { id } = await create(client, { metadata: { vip: true }, message: visitorSays('Hello') });
  await create(client, { message: { content: 'Hi', sender: 'agent' } });
  await capture(client, { conversationId: id, email: 'ada@example.com' });
  await change(client, id, { status: 'closed' });
  const { data } = await client.graphql('{ eventCursor }');
  return { id, end: data.eventCursor };
}

interface EventsQuery {
  readonly limit?: number;
  readonly after?: string;
  readonly types?: string[];
  readonly conversationId?: string;
}

function listingEvents(
  name: string,
  query: (made: Json) => EventsQuery,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  return {
    name: `listing events ${name}`,
    given: eventful,
    rest: (made) => ['GET', `/events?${new URLSearchParams(query(made) as Record<string, string>)}`],
    graphql: (made) => {
      const { limit: first, types, ...others } = query(made);
      return [
        `query ($first: Int, $after: String, $types: [EventType!], $conversationId: ID) {
          result: events(first: $first, after: $after, types: $types, conversationId: $conversationId) {
            data: nodes { ${select.event} } pageInfo { hasNextPage endCursor } } }`,
        { ...others, first, types: types?.map((type) => type.toUpperCase().replace('.', '_')) },
      ];
    },
    ...rest,
  };
}

/** A conversation that has been through everything that is counted, and one that waits. */
async function counted(client: TestAccount): Promise<Json> {
  const { id } = await create(client, { message: visitorSays('Hello') });
  await create(client, { message: visitorSays('Anybody there?') });
  for (const sender of ['bot', 'agent', 'agent']) {
    await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'Hi', sender } });
  }
  await capture(client, { conversationId: id, email: 'ada@example.com' });
  for (const status of ['closed', 'active', 'closed']) await change(client, id, { status });
  await client.rest('POST', `/conversations/${id}/messages`, { body: visitorSays('One more thing') });
}

function reporting(name: string, query: Record<string, string>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  const spelt = Object.entries(query).map(
    ([key, value]) => `${key}: ${key === 'interval' ? value.toUpperCase() : JSON.stringify(value)}`,
  );
  return {
    name: `reporting ${name}`,
    given: counted,
    rest: () => ['GET', `/analytics?${new URLSearchParams(query)}`],
    graphql: () => [
      `{ result: analytics${spelt.length === 0 ? '' : `(${spelt.join(', ')})`} { ${select.analytics} } }`,
    ],
    ...rest,
  };
}

const webhookUrl = 'https://example.com/hooks';

async function hook(client: TestAccount, body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/webhooks', { body: { url: webhookUrl, ...body } })).body;
}

/** A webhook, and a delivery of a sample to it. */
async function tried(client: TestAccount): Promise<Json> {
  const { id } = await hook(client);
  return (await client.rest('POST', `/webhooks/${id}/test`)).body;
}

/** A webhook without a secret on either face. */
const webhookFields = `webhook { ${select.webhook} }`;
const typesInCapitals = ({ events, eventType, ...input }: Json): Json => ({
  ...input,
  ...(events === undefined
    ? {}
    : { events: events?.map((type: string) => type.toUpperCase().replace('.', '_')) ?? null }),
  ...(eventType === undefined ? {} : { eventType: eventType?.toUpperCase().replace('.', '_') ?? null }),
});

/** An operation on one webhook, which the case makes, as a POST to a path under it. */
function onWebhook(
  [operation, path]: [operation: string, path: string],
  name: string,
  body: object | undefined,
  selection: string,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  const type = `${operation.charAt(0).toUpperCase()}${operation.slice(1)}Input`;
  return {
    name: `${operation}, ${name}`,
    given: hook,
    rest: ({ id }) => ['POST', `/webhooks/${id}/${path}`, body],
    graphql: ({ id }) => [
      `mutation ($input: ${type}!) { result: ${operation}(input: $input) { ${selection} } }`,
      { input: typesInCapitals({ ...body, id }) },
    ],
    ...rest,
  };
}

function creatingWebhook(name: string, body: object, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `creating a webhook ${name}`,
    rest: () => ['POST', '/webhooks', body],
    graphql: () => [
      `mutation ($input: CreateWebhookInput!) { result: createWebhook(input: $input) { ${webhookFields} } }`,
      { input: typesInCapitals(body) },
    ],
    ...rest,
  };
}

function updatingWebhook(name: string, body: object, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `updating a webhook ${name}`,
    given: (client) => hook(client, { description: 'old', events: ['lead.captured'] }),
    rest: ({ id }) => ['PATCH', `/webhooks/${id}`, body],
    graphql: ({ id }) => [
      `mutation ($input: UpdateWebhookInput!) { result: updateWebhook(input: $input) { ${webhookFields} } }`,
      { input: typesInCapitals({ ...body, id }) },
    ],
    ...rest,
  };
}

function listingOf(
  what: 'webhooks' | 'deliveries',
  name: string,
  query: Record<string, unknown>,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  const spelt = Object.entries(query).map(([key, value]) => `${listArguments[key] ?? key}: ${JSON.stringify(value)}`);
  const fields = what === 'webhooks' ? select.webhook : select.delivery;
  const list = `result: ${what}${spelt.length === 0 ? '' : `(${spelt.join(', ')})`}
    { data: nodes { ${fields} } totalCount pageInfo { hasNextPage endCursor } }`;
  const search = new URLSearchParams(query as Record<string, string>);
  return {
    name: `listing ${what} ${name}`,
    given: async (client) => {
      const made: Json[] = [];
      for (const description of ['1', '2', '3']) made.push(await hook(client, { description }));
      const [{ id }] = made;
      for (const eventType of eventTypes) await client.rest('POST', `/webhooks/${id}/test`, { body: { eventType } });
      return { id };
    },
    rest: ({ id }) => ['GET', what === 'webhooks' ? `/webhooks?${search}` : `/webhooks/${id}/deliveries?${search}`],
    graphql: ({ id }) =>
      what === 'webhooks' ? [`{ ${list} }`] : [`query ($id: ID!) { webhook(id: $id) { ${list} } }`, { id }],
    ...rest,
  };
}

/** What the operations on one webhook or delivery say to ids that name none. */
const unknownWebhooks = ['whk_01m7yzcf3tfz1aan3df712nas7', 'whk_nonsense', unknownConversation].flatMap(
  (id): Case[] => {
    const at = (name: string, rest: ReturnType<Case['rest']>, graphql: string): Case => ({
      name: `${name} ${id}, which is unknown`,
      rest: () => rest,
      graphql: () => [graphql, { id }],
      expected: 'NOT_FOUND',
    });
    const mutation = (field: string, input = '', selection = 'eventCursor') =>
      `mutation ($id: ID!) { result: ${field}(input: { id: $id${input} }) { ${selection} } }`;
    return [
      at('getting the webhook', ['GET', `/webhooks/${id}`], 'query ($id: ID!) { result: webhook(id: $id) { id } }'),
      at(
        'updating the webhook',
        ['PATCH', `/webhooks/${id}`, { enabled: false }],
        mutation('updateWebhook', ', enabled: false'),
      ),
      at('deleting the webhook', ['DELETE', `/webhooks/${id}`], mutation('deleteWebhook')),
      at('rotating the secret of', ['POST', `/webhooks/${id}/rotate-secret`], mutation('rotateWebhookSecret')),
      at('testing the webhook', ['POST', `/webhooks/${id}/test`], mutation('testWebhook')),
      at(
        'recovering the webhook',
        ['POST', `/webhooks/${id}/recover`, { since: '2026-01-01T00:00:00Z' }],
        mutation('recoverWebhook', ', since: "2026-01-01T00:00:00Z"'),
      ),
      at(
        'listing the deliveries of',
        ['GET', `/webhooks/${id}/deliveries`],
        'query ($id: ID!) { webhook(id: $id) { result: deliveries { totalCount } } }',
      ),
    ];
  },
);

const refusedUrls: Record<string, unknown> = {
  'that is no URL': 'example.com/hooks',
  'that is empty': '',
  'of another kind': 'ftp://example.com/hooks',
  'of a script': 'javascript:alert(1)',
  'with a user name': 'https://user@example.com/hooks',
  'with a password': 'https://user:secret@example.com/hooks',
  'with a fragment': 'https://example.com/hooks#part',
  'with a space': 'https://example.com/a hook',
  'with a space before it': ' https://example.com/hooks',
  'with a line break': 'https://example.com/\nhooks',
  'that is too long': `https://example.com/${'x'.repeat(2_048)}`,
  'without a host': 'https:///',
  'of plain http': 'http://example.com/hooks',
  'of a private network': 'https://10.0.0.1/hooks',
  'of the machine itself, by name': 'https://localhost/hooks',
  'of the machine itself, by a name below it': 'https://hooks.localhost:8443/',
  'of the machine itself, with the dot of the root': 'https://localhost./hooks',
  'of a local network, by name': 'https://printer.local/hooks',
  'of a cloud’s metadata': 'https://169.254.169.254/latest',
  'of a cloud’s metadata, by IPv6': 'https://[fd00:ec2::254]/latest',
  'of a cloud’s metadata, by name': 'https://metadata.google.internal/',
  ...Object.fromEntries(
    [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '0',
      '１２７.0.0.1',
    ].map((host) => [`of the machine itself, as ${host}`, `https://${host}/hooks`]),
  ),
};

/** The place in the same log that lies so many events further on. */
function furtherOn(cursor: string, count: number): string {
  const [epoch, sequence] = Buffer.from(cursor, 'base64url').toString().split('.');
  return Buffer.from(`${epoch}.${Number(sequence) + count}`).toString('base64url');
}

const sequencesOf = ({ data }: Json): number[] => data.map(({ sequence }: Json) => sequence);

const cases: Case[] = [
  creating('an empty conversation', {}, { expected: 201, events: ['conversation.started'] }),
  creating(
    'one with everything',
    {
      subject: 'Where is my parcel? 📦',
      status: 'pending',
      visitor: { id: 'v-1', name: 'Ada', email: 'ada@example.com' },
      externalId: 'order-7',
      metadata: { vip: true, score: 4.5, source: 'shop' },
      message: { content: 'Line one\nline two', sender: 'bot', author: { id: 'b-1' }, metadata: { intent: 'greet' } },
    },
    { expected: 201, events: ['conversation.started'], check: ({ messages }) => expect(messages).toHaveLength(1) },
  ),
  creating(
    'one with a visitor’s message: pending',
    { message: visitorSays('Hello') },
    {
      expected: 201,
      events: ['conversation.started', 'message.received'],
      check: ({ status }) => expect(status).toBe('pending'),
    },
  ),
  creating(
    'one with a visitor’s message, asked to be active',
    { status: 'active', message: visitorSays('Hello') },
    {
      expected: 201,
      events: ['conversation.started', 'message.received'],
      check: ({ status }) => expect(status).toBe('active'),
    },
  ),
  creating(
    'one with an agent’s message, asked to be pending: active',
    { status: 'pending', message: { content: 'Hi', sender: 'agent' } },
    {
      expected: 201,
      events: ['conversation.started'],
      check: ({ status }) => expect(status).toBe('active'),
    },
  ),
  creating(
    'one with nulls for all that can be left out is creating an empty one',
    { subject: null, status: null, visitor: null, externalId: null, metadata: null, message: null },
    { expected: 201, events: ['conversation.started'], check: ({ status }) => expect(status).toBe('active') },
  ),
  creating('a closed one is refused', { status: 'closed' }, { expected: 'INVALID_TRANSITION' }),
  creating(
    'one whose externalId is taken is refused',
    { externalId: 'order-1' },
    {
      given: (client) => create(client, { externalId: 'order-1' }),
      expected: 'ALREADY_EXISTS',
    },
  ),
  creating(
    'one with many faults tells all of them',
    { subject: 'x'.repeat(201), metadata: { a: { b: 1 } }, message: visitorSays(' ') },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/message/content', '/metadata/a', '/subject'],
    },
  ),

  ...(['conv_nonsense', unknownConversation, '', 'msg_01m7yzcf3tfz1aan3df712nas7'] as const)
    .filter((id) => id !== '')
    .map(
      (id): Case => ({
        name: `getting ${id}, which is unknown`,
        rest: () => ['GET', `/conversations/${id}`],
        graphql: () => [`query ($id: ID!) { result: conversation(id: $id) { id } }`, { id }],
        expected: 'NOT_FOUND',
      }),
    ),
  {
    name: 'getting a conversation gives it with all its messages, oldest first',
    given: async (client) => {
      const { id } = await create(client, { message: visitorSays('1') });
      for (const content of ['2', '3'])
        await client.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'agent' } });
      return { id };
    },
    rest: ({ id }) => ['GET', `/conversations/${id}`],
    graphql: ({ id }) => [
      `query ($id: ID!) { result: conversation(id: $id) { ${select.conversationWithMessages} } }`,
      { id },
    ],
    expected: 200,
    check: ({ messages }) => expect(messages.map(({ content }: Json) => content)).toEqual(['1', '2', '3']),
  },

  updating('nothing changes nothing', create, {}, { expected: 200, check: ({ version }) => expect(version).toBe(1) }),
  updating(
    'to what it is changes nothing',
    (client) => create(client, { subject: 'a', metadata: { k: 1 } }),
    { subject: 'a', status: 'active', metadata: { k: 1 } },
    {
      expected: 200,
      check: ({ version }) => expect(version).toBe(1),
    },
  ),
  updating(
    'each field',
    (client) => create(client, { visitor: { id: 'v', name: 'Old' } }),
    { subject: 'New', visitor: { name: 'New' }, externalId: 'e-1' },
    {
      expected: 200,
      check: ({ visitor, version }) => {
        expect(visitor).toEqual({ id: null, name: 'New', email: null });
        expect(version).toBe(2);
      },
    },
  ),
  updating(
    'fields to null',
    (client) => create(client, { subject: 's', visitor: {}, externalId: 'e' }),
    { subject: null, visitor: null, externalId: null },
    {
      expected: 200,
      check: (it) => expect([it.subject, it.visitor, it.externalId]).toEqual([null, null, null]),
    },
  ),
  updating(
    'metadata merges it',
    (client) => create(client, { metadata: { keep: 1, drop: 2 } }),
    { metadata: { drop: null, add: true } },
    {
      expected: 200,
      check: ({ metadata }) => expect(metadata).toEqual({ keep: 1, add: true }),
    },
  ),
  updating(
    'metadata to null empties it',
    (client) => create(client, { metadata: { a: 1 } }),
    { metadata: null },
    {
      expected: 200,
      check: ({ metadata }) => expect(metadata).toEqual({}),
    },
  ),
  updating(
    'metadata past its bound is refused',
    (client) =>
      create(client, { metadata: Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`k${index}`, 1])) }),
    { metadata: { one: 'more' } },
    { expected: 'VALIDATION_FAILED', pointers: ['/metadata'] },
  ),
  updating(
    'the status to null is refused',
    create,
    { status: null },
    { expected: 'VALIDATION_FAILED', pointers: ['/status'] },
  ),
  updating(
    'an active one to closed',
    create,
    { status: 'closed' },
    {
      expected: 200,
      events: ['conversation.closed'],
      check: ({ closedAt }) => expect(closedAt).not.toBeNull(),
    },
  ),
  updating(
    'a closed one to closed again',
    closed,
    { status: 'closed' },
    { expected: 200, check: ({ version }) => expect(version).toBe(2) },
  ),
  updating(
    'a closed one to active',
    closed,
    { status: 'active' },
    { expected: 200, check: ({ closedAt }) => expect(closedAt).toBeNull() },
  ),
  updating('a closed one to pending is refused', closed, { status: 'pending' }, { expected: 'INVALID_TRANSITION' }),
  updating(
    'to an externalId that is taken is refused',
    async (client) => {
      await create(client, { externalId: 'taken' });
      return await create(client, { externalId: 'own' });
    },
    { externalId: 'taken' },
    { expected: 'ALREADY_EXISTS' },
  ),
  updating(
    'to its own externalId is no conflict',
    (client) => create(client, { externalId: 'own' }),
    { externalId: 'own' },
    { expected: 200 },
  ),
  updating('an unknown one', async () => ({ id: unknownConversation }), { subject: 'x' }, { expected: 'NOT_FOUND' }),

  sending('as the visitor', create, visitorSays('Hello'), { expected: 201, events: ['message.received'] }),
  sending(
    'as an agent, with author and metadata',
    (client) => create(client, { status: 'pending' }),
    {
      content: 'Hi',
      sender: 'agent',
      author: { name: 'Grace' },
      metadata: { draft: false },
    },
    { expected: 201 },
  ),
  sending('as a bot', create, { content: 'Beep', sender: 'bot' }, { expected: 201 }),
  sending('as the visitor to a closed one brings it back', closed, visitorSays('One more thing'), {
    expected: 201,
    events: ['message.received'],
  }),
  sending(
    'as an agent to a closed one is refused',
    closed,
    { content: 'Hi', sender: 'agent' },
    { expected: 'CONVERSATION_CLOSED' },
  ),
  sending(
    'as a bot to a closed one is refused',
    closed,
    { content: 'Hi', sender: 'bot' },
    { expected: 'CONVERSATION_CLOSED' },
  ),
  sending('to an unknown one', async () => ({ id: unknownConversation }), visitorSays('Hello'), {
    expected: 'NOT_FOUND',
  }),
  sending('nothing but white space is refused', create, visitorSays(' \n\u2003'), {
    expected: 'VALIDATION_FAILED',
    pointers: ['/content'],
  }),

  forVersion(
    1,
    updating('one', create, { subject: 'x' }, { expected: 200, check: (it) => expect(it.version).toBe(2) }),
  ),
  forVersion(2, updating('one', create, { subject: 'x' }, { expected: 'VERSION_CONFLICT' })),
  forVersion(1, updating('a closed one to pending', closed, { status: 'pending' }, { expected: 'VERSION_CONFLICT' })),
  forVersion(2, updating('a closed one to pending', closed, { status: 'pending' }, { expected: 'INVALID_TRANSITION' })),
  forVersion(
    1,
    updating('an unknown one', async () => ({ id: unknownConversation }), { subject: 'x' }, { expected: 'NOT_FOUND' }),
  ),
  forVersion(1, sending('as the visitor', create, visitorSays('Hi'), { expected: 201, events: ['message.received'] })),
  forVersion(3, sending('as the visitor', create, visitorSays('Hi'), { expected: 'VERSION_CONFLICT' })),
  forVersion(1, creating('one', {}, { expected: 'VALIDATION_FAILED', pointers: ['/expectedVersion'] })),

  deleting('one', whole, { expected: 204 }),
  deleting('a closed one', closed, { expected: 204 }),
  deleting('an unknown one', async () => ({ id: unknownConversation }), { expected: 'NOT_FOUND' }),
  deleting(
    'one twice',
    async (client) => {
      const made = await whole(client);
      await client.rest('DELETE', `/conversations/${made.id}`);
      return made;
    },
    { expected: 'NOT_FOUND' },
  ),
  forVersion(1, deleting('one', whole, { expected: 204 })),
  forVersion(2, deleting('one', whole, { expected: 'VERSION_CONFLICT' })),

  underKey('k', creating('one', { subject: 'x' }, { expected: 201, events: ['conversation.started'] })),
  underKey(
    'k',
    creating(
      'one again',
      { subject: 'x', message: visitorSays('Hello') },
      {
        given: async (client) => {
          const body = { subject: 'x', message: visitorSays('Hello') };
          const made = await client.rest('POST', '/conversations', { body, headers: { 'idempotency-key': 'k' } });
          await change(client, made.body.id, { subject: 'y' });
        },
        expected: 201,
        check: ({ subject, version }) => expect([subject, version]).toEqual(['x', 1]),
      },
    ),
  ),
  underKey(
    'k',
    creating(
      'another one',
      { subject: 'y' },
      {
        given: (client) => client.rest('POST', '/conversations', { headers: { 'idempotency-key': 'k' } }),
        expected: 'IDEMPOTENCY_KEY_REUSED',
      },
    ),
  ),
  underKey(
    'k',
    creating(
      'one that was deleted since',
      {},
      {
        given: async (client) => {
          const made = await client.rest('POST', '/conversations', { headers: { 'idempotency-key': 'k' } });
          await client.rest('DELETE', `/conversations/${made.body.id}`);
        },
        expected: 'NOT_FOUND',
      },
    ),
  ),
  underKey('two words', creating('one with many faults', { subject: 5, x: 1 }, { expected: 'VALIDATION_FAILED' })),
  ...['', 'two words', 'x'.repeat(256), 'ä'].map((key) =>
    underKey(
      key,
      sending('a message', create, visitorSays('Hi'), { expected: 'VALIDATION_FAILED', pointers: ['/idempotencyKey'] }),
    ),
  ),

  listing('without parameters: newest first', {}, { expected: 200, check: ({ data }) => expect(data).toHaveLength(5) }),
  listing(
    'one status',
    { status: 'pending' },
    { expected: 200, check: ({ data, total }) => expect([data.length, total]).toEqual([2, 2]) },
  ),
  listing('closed ones', { status: 'closed' }, { expected: 200, check: ({ total }) => expect(total).toBe(1) }),
  listing(
    'a page',
    { limit: 2 },
    { expected: 200, check: ({ data, hasMore, total }) => expect([data.length, hasMore, total]).toEqual([2, true, 5]) },
  ),
  listing(
    'the last page',
    { limit: 2, offset: 3 },
    { expected: 200, check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([2, false]) },
  ),
  listing(
    'beyond the end',
    { offset: 5 },
    { expected: 200, check: ({ data, total }) => expect([data.length, total]).toEqual([0, 5]) },
  ),
  ...['createdAt', '-createdAt', 'lastActivityAt', '-lastActivityAt'].map((sort) =>
    listing(`by ${sort}`, { sort }, { expected: 200 }),
  ),
  listing('by externalId', { externalId: 'order-3' }, { expected: 200, check: ({ total }) => expect(total).toBe(1) }),
  listing(
    'by time of creation',
    { createdAfter: '2026-01-01T00:00:00Z', createdBefore: '2026-01-01T01:00:00+01:00' },
    {
      expected: 200,
      check: ({ total }) => expect(total).toBe(0),
    },
  ),
  listing('no page at all is refused', { limit: 0 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  listing('too large a page is refused', { limit: 101 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  listing(
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),
  listing(
    'from a cursor and an offset is refused',
    { after: 'WyJhIl0', offset: 1 },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),

  {
    name: 'listing the messages of a conversation',
    given: (client) => create(client, { message: visitorSays('1') }),
    rest: ({ id }) => ['GET', `/conversations/${id}/messages`],
    graphql: ({ id }) => [
      `query ($id: ID!) { conversation(id: $id) { result: messages { data: nodes { ${select.message} } totalCount pageInfo { hasNextPage } } } }`,
      { id },
    ],
    expected: 200,
    check: ({ data, total }) => expect([data.length, total]).toEqual([1, 1]),
  },
  {
    name: 'listing the messages of an unknown conversation',
    rest: () => ['GET', `/conversations/${unknownConversation}/messages`],
    graphql: () => [
      'query ($id: ID!) { conversation(id: $id) { result: messages { totalCount } } }',
      { id: unknownConversation },
    ],
    expected: 'NOT_FOUND',
  },

  capturing('with a phone number', { phone: '+49 30 1234567' }, { expected: 201, events: ['lead.captured'] }),
  capturing(
    'with everything, of a conversation',
    { name: 'Ada 📦', email: 'ada@example.com', phone: '1', company: 'Engines', metadata: { vip: true, score: 4.5 } },
    {
      given: create,
      expected: 201,
      events: ['lead.captured'],
      check: ({ conversationId }) => expect(conversationId).toEqual(expect.any(String)),
    },
  ),
  capturing('of a closed conversation', { phone: '1' }, { given: closed, expected: 201, events: ['lead.captured'] }),
  capturing(
    'without a way to reach anybody is refused',
    { name: 'Ada' },
    { expected: 'VALIDATION_FAILED', pointers: ['/email'] },
  ),
  capturing(
    'with many faults tells all of them',
    { name: 'x'.repeat(201), phone: ' ', metadata: { a: { b: 1 } } },
    { expected: 'VALIDATION_FAILED', pointers: ['/metadata/a', '/name', '/phone'] },
  ),
  capturing(
    'of an unknown conversation',
    { phone: '1' },
    { given: async () => ({ id: unknownConversation }), expected: 'NOT_FOUND' },
  ),
  {
    name: 'getting a lead',
    given: (client) => capture(client, { email: 'ada@example.com', metadata: { source: 'shop' } }),
    rest: ({ id }) => ['GET', `/leads/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: lead(id: $id) { ${select.lead} } }`, { id }],
    expected: 200,
    check: ({ email }) => expect(email).toBe('ada@example.com'),
  },
  ...['lead_01m7yzcf3tfz1aan3df712nas7', 'lead_nonsense', unknownConversation].map(
    (id): Case => ({
      name: `getting the lead ${id}, which is unknown`,
      rest: () => ['GET', `/leads/${id}`],
      graphql: () => ['query ($id: ID!) { result: lead(id: $id) { id } }', { id }],
      expected: 'NOT_FOUND',
    }),
  ),
  listingLeads(
    'without parameters: newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ phone }: Json) => phone)).toEqual(['5', '4', '3', '2', '1']);
        expect(total).toBe(5);
      },
    },
  ),
  listingLeads(
    'a page',
    { limit: 2, offset: 1 },
    { expected: 200, check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([2, true]) },
  ),
  listingLeads('beyond the end', { offset: 5 }, { expected: 200, check: ({ data }) => expect(data).toEqual([]) }),
  listingLeads('too large a page is refused', { limit: 101 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  listingLeads(
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),

  listingEvents('from the oldest on', () => ({}), {
    expected: 200,
    check: (page) => {
      expect(sequencesOf(page)).toEqual([1, 2, 3, 4, 5]);
      expect(page.data.map(({ data }: Json) => Object.keys(data).sort())).toEqual([
        ['conversation'],
        ['conversation', 'message'],
        ['conversation'],
        ['conversation', 'lead'],
        ['conversation'],
      ]);
    },
  }),
  listingEvents('a page', () => ({ limit: 2 }), {
    expected: 200,
    check: (page) => expect([sequencesOf(page), page.hasMore]).toEqual([[1, 2], true]),
  }),
  listingEvents('at the end of the log', ({ end }) => ({ after: end }), {
    expected: 200,
    check: ({ data, hasMore }) => expect([data, hasMore]).toEqual([[], false]),
  }),
  listingEvents('of some types', () => ({ types: ['lead.captured', 'message.received'] }), {
    expected: 200,
    check: (page) => expect(sequencesOf(page)).toEqual([2, 4]),
  }),
  listingEvents('of one conversation', ({ id }) => ({ conversationId: id }), {
    expected: 200,
    check: (page) => expect(sequencesOf(page)).toEqual([1, 2, 4, 5]),
  }),
  listingEvents('of a conversation that is unknown', () => ({ conversationId: unknownConversation }), {
    expected: 200,
    check: ({ data, hasMore }) => expect([data, hasMore]).toEqual([[], false]),
  }),
  listingEvents('no page at all is refused', () => ({ limit: 0 }), {
    expected: 'VALIDATION_FAILED',
    pointers: ['/limit'],
  }),
  listingEvents('from a cursor that is none is refused', () => ({ after: 'nonsense' }), {
    expected: 'VALIDATION_FAILED',
    pointers: ['/after'],
  }),
  listingEvents('from beyond the end of the log is refused', ({ end }) => ({ after: furtherOn(end, 1) }), {
    expected: 'CURSOR_EXPIRED',
  }),

  reporting(
    'the last 30 days',
    {},
    {
      expected: 200,
      check: ({ openNow, totals, previous, series }) => {
        expect(openNow).toEqual({ active: 0, pending: 2 });
        expect(totals).toMatchObject({
          conversationsStarted: 2,
          conversationsClosed: 2,
          conversationsReopened: 2,
          messages: { agent: 2, visitor: 3, bot: 1 },
          leads: 1,
          conversionRate: 0.5,
          firstResponseSeconds: { count: 1 },
          resolutionSeconds: { count: 2 },
        });
        expect(previous).toMatchObject({ conversationsStarted: 0, conversionRate: null });
        expect(series).toHaveLength(31);
      },
    },
  ),
  ...(['hour', 'day', 'week', 'month'] as const).map((interval) =>
    reporting(
      `every ${interval} of a zone`,
      { from: '2026-11-01T01:15:00+02:00', to: '2026-11-21T06:15:00Z', interval, timezone: 'Asia/Kathmandu' },
      {
        expected: 200,
        check: ({ period, series }) => {
          expect(period).toEqual({
            from: '2026-10-31T23:15:00.000Z',
            to: '2026-11-21T06:15:00.000Z',
            interval,
            timezone: 'Asia/Kathmandu',
          });
          expect(series).toHaveLength({ hour: 487, day: 21, week: 4, month: 1 }[interval]);
          expect(series.at(-1).conversationsStarted).toBe(2);
        },
      },
    ),
  ),
  reporting(
    'of bounds that are not on quarter hours is refused',
    { from: '2026-11-01T00:10:00Z', to: '2026-11-02T00:00:00.001Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from', '/to'] },
  ),
  reporting(
    'of bounds that are no times, in a zone that is none, tells all of it',
    { from: 'yesterday', to: '2026-11-02', timezone: 'Mars/Olympus' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from', '/timezone', '/to'] },
  ),
  reporting(
    'of a time before all times is refused',
    { from: '1969-12-31T00:00:00Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from'] },
  ),
  reporting(
    'of a period that ends where it begins is refused',
    { from: '2026-11-01T00:00:00Z', to: '2026-11-01T00:00:00Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/to'] },
  ),
  reporting(
    'of a time to come is refused, unless it has an end',
    { from: '2030-01-01T00:00:00Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from'] },
  ),
  reporting(
    'just 1,000 points',
    { from: '2026-01-01T00:00:00Z', to: '2026-02-11T16:00:00Z', interval: 'hour' },
    { expected: 200, check: ({ series }) => expect(series).toHaveLength(1_000) },
  ),
  reporting(
    'more than 1,000 points is refused',
    { from: '2026-01-01T00:00:00Z', to: '2026-02-11T16:15:00Z', interval: 'hour' },
    { expected: 'VALIDATION_FAILED', pointers: ['/interval'] },
  ),
  reporting(
    'by an offset for a zone is refused',
    { timezone: '+01:00' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/timezone'],
    },
  ),
  reporting('by an interval that is unknown is refused', { interval: 'year' }, { expected: 'VALIDATION_FAILED' }),
  creatingWebhook(
    'with its address alone',
    { url: webhookUrl },
    {
      expected: 201,
      check: ({ url, events, description, enabled, disabledReason }) => {
        expect({ url, events, description, enabled, disabledReason }).toEqual({
          url: webhookUrl,
          events: eventTypes,
          description: null,
          enabled: true,
          disabledReason: null,
        });
      },
    },
  ),
  creatingWebhook(
    'with everything',
    {
      url: 'https://Example.com:8443/a%20b?c=d',
      events: ['lead.captured', 'conversation.started'],
      description: 'CRM 📦',
    },
    {
      expected: 201,
      check: ({ url, events }) => {
        expect(url).toBe('https://Example.com:8443/a%20b?c=d');
        expect(events).toEqual(['conversation.started', 'lead.captured']);
      },
    },
  ),
  creatingWebhook(
    'with nulls for what can be left out',
    { url: webhookUrl, events: null, description: null },
    { expected: 201, check: ({ events }) => expect(events).toEqual(eventTypes) },
  ),
  creatingWebhook(
    'that names a type twice counts it once',
    { url: webhookUrl, events: ['lead.captured', 'lead.captured'] },
    { expected: 201, check: ({ events }) => expect(events).toEqual(['lead.captured']) },
  ),
  ...Object.entries(refusedUrls).map(([name, url]) =>
    creatingWebhook(`at an address ${name} is refused`, { url }, { expected: 'VALIDATION_FAILED', pointers: ['/url'] }),
  ),
  creatingWebhook(
    'for no type is refused',
    { url: webhookUrl, events: [] },
    { expected: 'VALIDATION_FAILED', pointers: ['/events'] },
  ),
  creatingWebhook(
    'with many faults tells all of them',
    { url: 'ftp://example.com', events: [], description: 'x'.repeat(201) },
    { expected: 'VALIDATION_FAILED', pointers: ['/description', '/events', '/url'] },
  ),
  {
    ...creatingWebhook('beyond the twentieth is refused', { url: webhookUrl }, { expected: 'QUOTA_EXCEEDED' }),
    given: async (client) => {
      for (let count = 0; count < 20; count++) await hook(client);
    },
  },
  {
    ...creatingWebhook('in the place of one that was deleted', { url: webhookUrl }, { expected: 201 }),
    given: async (client) => {
      for (let count = 0; count < 19; count++) await hook(client);
      const { id } = await hook(client);
      await client.rest('DELETE', `/webhooks/${id}`);
    },
  },
  {
    name: 'getting a webhook',
    given: hook,
    rest: ({ id }) => ['GET', `/webhooks/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: webhook(id: $id) { ${select.webhook} } }`, { id }],
    expected: 200,
  },
  listingOf(
    'webhooks',
    'without parameters: newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ description }: Json) => description)).toEqual(['3', '2', '1']);
        expect(total).toBe(3);
      },
    },
  ),
  listingOf('webhooks', 'a page', { limit: 2 }, { expected: 200, check: ({ hasMore }) => expect(hasMore).toBe(true) }),
  listingOf(
    'webhooks',
    'the last page',
    { limit: 2, offset: 2 },
    {
      expected: 200,
      check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([1, false]),
    },
  ),
  listingOf(
    'webhooks',
    'no page at all is refused',
    { limit: 0 },
    { expected: 'VALIDATION_FAILED', pointers: ['/limit'] },
  ),
  listingOf(
    'webhooks',
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/after'],
    },
  ),
  updatingWebhook(
    'to nothing new changes nothing',
    {},
    {
      expected: 200,
      check: ({ createdAt, updatedAt }) => expect(updatedAt).toBe(createdAt),
    },
  ),
  updatingWebhook(
    'in each field',
    { url: 'https://example.org', events: ['message.received'], description: 'new', enabled: false },
    {
      expected: 200,
      check: ({ url, events, description, enabled, disabledReason }) =>
        expect([url, events, description, enabled, disabledReason]).toEqual([
          'https://example.org',
          ['message.received'],
          'new',
          false,
          'requested',
        ]),
    },
  ),
  updatingWebhook(
    'to no description',
    { description: null },
    {
      expected: 200,
      check: ({ description }) => expect(description).toBeNull(),
    },
  ),
  ...['url', 'events', 'enabled'].map((field) =>
    updatingWebhook(
      `to null in ${field}, which it needs, is refused`,
      { [field]: null },
      {
        expected: 'VALIDATION_FAILED',
        pointers: [`/${field}`],
      },
    ),
  ),
  updatingWebhook(
    'with many faults tells all of them',
    { url: 'https://example.com/#part', events: [], description: 'x'.repeat(201), enabled: null },
    { expected: 'VALIDATION_FAILED', pointers: ['/description', '/enabled', '/events', '/url'] },
  ),
  updatingWebhook(
    'to an address of a private network is refused',
    { url: 'https://192.168.1.1' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/url'],
    },
  ),
  {
    name: 'deleting a webhook',
    given: hook,
    rest: ({ id }) => ['DELETE', `/webhooks/${id}`],
    graphql: ({ id }) => [
      'mutation ($id: ID!) { result: deleteWebhook(input: { id: $id }) { deletedWebhookId } }',
      { id },
    ],
    expected: 204,
  },
  onWebhook(['rotateWebhookSecret', 'rotate-secret'], 'once', undefined, webhookFields, { expected: 200 }),
  onWebhook(
    ['rotateWebhookSecret', 'rotate-secret'],
    'for the tenth time in a day, is refused',
    undefined,
    webhookFields,
    {
      given: async (client) => {
        const made = await hook(client);
        for (let count = 0; count < 9; count++) await client.rest('POST', `/webhooks/${made.id}/rotate-secret`);
        return made;
      },
      expected: 'QUOTA_EXCEEDED',
    },
  ),
  onWebhook(
    ['testWebhook', 'test'],
    'with the first type that it wants',
    {},
    `delivery { ${select.deliveryWithAttempts} }`,
    {
      expected: 202,
      check: ({ eventType, test: isTest, status, attempts }) =>
        expect([eventType, isTest, status, attempts]).toEqual(['conversation.started', true, 'pending', []]),
    },
  ),
  ...[null, 'lead.captured'].map((eventType) =>
    onWebhook(
      ['testWebhook', 'test'],
      `with the type ${eventType}`,
      { eventType },
      `delivery { ${select.deliveryWithAttempts} }`,
      { expected: 202, check: (made) => expect(made.eventType).toBe(eventType ?? 'conversation.started') },
    ),
  ),
  onWebhook(
    ['testWebhook', 'test'],
    'of one that is disabled: paused',
    {},
    `delivery { ${select.deliveryWithAttempts} }`,
    {
      given: async (client) => {
        const made = await hook(client);
        await client.rest('PATCH', `/webhooks/${made.id}`, { body: { enabled: false } });
        return made;
      },
      expected: 202,
      check: ({ status, nextAttemptAt }) => expect([status, nextAttemptAt]).toEqual(['paused', null]),
    },
  ),
  ...['2026-01-01T00:00:00Z', '2026-01-01T01:00:00.5+01:00', '1970-01-01T00:00:00Z', '9999-12-31T23:59:59Z'].map(
    (since) =>
      onWebhook(['recoverWebhook', 'recover'], `since ${since}`, { since }, 'count', {
        expected: 202,
        check: ({ count }) => expect(count).toBe(0),
      }),
  ),
  ...['', 'nonsense', 'yesterday', '2026-01-01', '2026-13-01T00:00:00Z', '1764000000'].map((since) =>
    onWebhook(['recoverWebhook', 'recover'], `since ${JSON.stringify(since)}, is refused`, { since }, 'count', {
      expected: 'VALIDATION_FAILED',
      pointers: ['/since'],
    }),
  ),
  onWebhook(
    ['recoverWebhook', 'recover'],
    'since a cursor of another log, is refused',
    { since: Buffer.from('0123456789abcdef.1').toString('base64url') },
    'count',
    { expected: 'CURSOR_EXPIRED' },
  ),
  listingOf(
    'deliveries',
    'without parameters: newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ eventType }: Json) => eventType)).toEqual([...eventTypes].reverse());
        expect(total).toBe(4);
      },
    },
  ),
  listingOf(
    'deliveries',
    'a page',
    { limit: 3 },
    {
      expected: 200,
      check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([3, true]),
    },
  ),
  listingOf(
    'deliveries',
    'beyond the end',
    { offset: 4 },
    { expected: 200, check: ({ data }) => expect(data).toEqual([]) },
  ),
  listingOf(
    'deliveries',
    'too large a page is refused',
    { limit: 101 },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/limit'],
    },
  ),
  listingOf(
    'deliveries',
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/after'],
    },
  ),
  {
    name: 'getting a delivery',
    given: tried,
    rest: ({ id, webhookId }) => ['GET', `/webhooks/${webhookId}/deliveries/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: delivery(id: $id) { ${select.deliveryWithAttempts} } }`, { id }],
    expected: 200,
  },
  {
    name: 'repeating a delivery',
    given: tried,
    rest: ({ id, webhookId }) => ['POST', `/webhooks/${webhookId}/deliveries/${id}/redeliver`],
    graphql: ({ id }) => [
      `mutation ($id: ID!) { result: redeliver(input: { id: $id }) { delivery { ${select.deliveryWithAttempts} } } }`,
      { id },
    ],
    expected: 202,
  },
  {
    name: 'repeating a delivery to another webhook is refused',
    given: async (client) => ({ delivery: await tried(client), other: await hook(client) }),
    rest: ({ delivery, other }) => ['POST', `/webhooks/${other.id}/deliveries/${delivery.id}/redeliver`],
    graphql: ({ delivery, other }) => [
      'mutation ($id: ID!, $to: ID!) { result: redeliver(input: { id: $id, webhookId: $to }) { eventCursor } }',
      { id: delivery.id, to: other.id },
    ],
    expected: 'NOT_FOUND',
  },
  ...['dlv_01m7yzcf3tfz1aan3df712nas7', 'dlv_nonsense', unknownConversation].flatMap((id): Case[] => [
    {
      name: `getting the delivery ${id}, which is unknown`,
      given: hook,
      rest: (webhook) => ['GET', `/webhooks/${webhook.id}/deliveries/${id}`],
      graphql: () => ['query ($id: ID!) { result: delivery(id: $id) { id } }', { id }],
      expected: 'NOT_FOUND',
    },
    {
      name: `repeating the delivery ${id}, which is unknown`,
      given: hook,
      rest: (webhook) => ['POST', `/webhooks/${webhook.id}/deliveries/${id}/redeliver`],
      graphql: () => ['mutation ($id: ID!) { result: redeliver(input: { id: $id }) { eventCursor } }', { id }],
      expected: 'NOT_FOUND',
    },
  ]),
  ...unknownWebhooks,

  {
    name: 'getting the account',
    rest: () => ['GET', '/account'],
    graphql: () => [`{ result: account { ${select.account} } }`],
    expected: 200,
  },
  {
    name: 'creating a key with all scopes',
    rest: () => ['POST', '/api-keys', { name: 'server' }],
    graphql: () => [`mutation { result: createApiKey(input: { name: "server" }) { apiKey { ${select.apiKey} } } }`],
    expected: 201,
    check: ({ scopes }) => expect(scopes).toHaveLength(8),
  },
  {
    name: 'creating a key with one scope that expires',
    rest: () => [
      'POST',
      '/api-keys',
      { name: 'reader', scopes: ['leads:read'], expiresAt: '2030-01-01T01:00:00+01:00' },
    ],
    graphql: () => [
      `mutation { result: createApiKey(input: { name: "reader", scopes: [LEADS_READ], expiresAt: "2030-01-01T01:00:00+01:00" }) { apiKey { ${select.apiKey} } } }`,
    ],
    expected: 201,
    check: ({ expiresAt }) => expect(expiresAt).toBe('2030-01-01T00:00:00.000Z'),
  },
  {
    name: 'creating a key that has expired already is refused',
    rest: () => ['POST', '/api-keys', { name: 'late', expiresAt: '2020-01-01T00:00:00Z' }],
    graphql: () => [
      'mutation { result: createApiKey(input: { name: "late", expiresAt: "2020-01-01T00:00:00Z" }) { apiKey { id } } }',
    ],
    expected: 'VALIDATION_FAILED',
    pointers: ['/expiresAt'],
  },
  {
    name: 'listing the keys',
    rest: () => ['GET', '/api-keys'],
    graphql: () => [
      `{ result: apiKeys { data: nodes { ${select.apiKey} } totalCount pageInfo { hasNextPage endCursor } } }`,
    ],
    expected: 200,
    check: ({ data }) => expect(data).toHaveLength(1),
  },
  {
    name: 'revoking a key',
    given: async (client) => (await client.rest('POST', '/api-keys', { body: { name: 'old' } })).body,
    rest: ({ id }) => ['DELETE', `/api-keys/${id}`],
    graphql: ({ id }) => [
      'mutation ($id: ID!) { result: revokeApiKey(input: { id: $id }) { revokedApiKeyId } }',
      { id },
    ],
    expected: 204,
  },
  {
    name: 'revoking an unknown key',
    rest: () => ['DELETE', '/api-keys/key_01m7yzcf3tfz1aan3df712nas7'],
    graphql: () => [
      'mutation { result: revokeApiKey(input: { id: "key_01m7yzcf3tfz1aan3df712nas7" }) { revokedApiKeyId } }',
    ],
    expected: 'NOT_FOUND',
  },

  minting(
    'for all conversations',
    { scopes: ['conversations:write', 'conversations:read', 'conversations:read'] },
    {
      expected: 201,
      check: ({ scopes, conversationId, sender }) =>
        expect([scopes, conversationId, sender]).toEqual([['conversations:read', 'conversations:write'], null, null]),
    },
  ),
  minting(
    'for a visitor in one conversation',
    { scopes: ['conversations:write'], sender: 'visitor', expiresInSeconds: 3_600 },
    {
      given: create,
      expected: 201,
      events: [],
      check: ({ sender, expiresAt }) => expect([sender, expiresAt]).toEqual(['visitor', '2026-11-21T07:12:00.000Z']),
    },
  ),
  minting(
    'with nulls is one without',
    { scopes: ['leads:read'], conversationId: null, sender: null },
    { expected: 201 },
  ),
  minting(
    'for an unknown conversation',
    { scopes: ['leads:read'], conversationId: unknownConversation },
    { expected: 'NOT_FOUND' },
  ),
  minting('with no scopes is refused', {}, { expected: 'VALIDATION_FAILED', pointers: ['/scopes'] }),
  minting(
    'with an empty list of scopes is refused',
    { scopes: [] },
    { expected: 'VALIDATION_FAILED', pointers: ['/scopes'] },
  ),
  minting(
    'for longer than an hour is refused',
    { scopes: ['leads:read'], expiresInSeconds: 3_601 },
    { expected: 'VALIDATION_FAILED', pointers: ['/expiresInSeconds'] },
  ),
  minting(
    'for less than a minute is refused',
    { scopes: ['leads:read'], expiresInSeconds: 59 },
    { expected: 'VALIDATION_FAILED', pointers: ['/expiresInSeconds'] },
  ),
  {
    name: 'making a token with everything wrong: all of it is told',
    rest: () => ['POST', '/tokens', { scopes: 1.5, conversationId: {}, sender: 5, expiresInSeconds: 1.5, x: 1 }],
    graphql: () => [
      'mutation ($input: CreateTokenInput!) { result: createToken(input: $input) { eventCursor } }',
      { input: { scopes: 1.5, conversationId: {}, sender: 5, expiresInSeconds: 1.5, x: 1 } },
    ],
    expected: 'VALIDATION_FAILED',
  },
];

const enumerations = ['status', 'sender', 'plan', 'scopes', 'interval', 'trigger', 'disabledReason'];
/** Those whose values have a dot in REST. */
const typed = ['type', 'events', 'eventType'];

/** Gives a result one form, whichever face it came through: ids by order of appearance, REST's spellings. */
function normalized(value: Json, face: 'rest' | 'graphql'): Json {
  const names = new Map<string, string>();
  const nameOf = (id: string): string => {
    const name = names.get(id) ?? `${id.split('_')[0]}#${names.size}`;
    names.set(id, name);
    return name;
  };
  const spell = (text: string, mark: string) => (text.includes(mark) ? text : text.toLowerCase().replace('_', mark));
  const walk = (part: Json, key: string): Json => {
    if (Array.isArray(part)) return part.map((each) => walk(each, key));
    if (part !== null && typeof part === 'object') {
      return Object.fromEntries(Object.entries(part).map(([name, each]) => [name, walk(each, name)]));
    }
    if (typeof part !== 'string') return part;
    if (/^(acct|key|conv|msg|lead|evt|whk|dlv|att)_[0-9a-z]{26}$/.test(part)) return nameOf(part);
    if (key === 'prefix' || key === 'cursor') return '(differs)';
    if (face === 'rest') return part;
    return typed.includes(key) ? spell(part, '.') : enumerations.includes(key) ? spell(part, ':') : part;
  };
  return walk(value, '');
}

/** An event of a type of its own, in the form of REST. */
function eventOf({ __typename, conversation, message, lead, ...event }: Json): Json {
  const others = { ...(message === undefined ? {} : { message }), ...(lead === undefined ? {} : { lead }) };
  return { ...event, data: { ...others, conversation } };
}

/** The parts that differ by the form of a list or of an answer, brought together. */
function resourceOf(body: Json, face: 'rest' | 'graphql'): Json {
  if (body === null || body === undefined) return body;
  if (face === 'rest') {
    const { secret: _secret, token: _token, eventCursor: _cursor, rateLimit, ...resource } = body;
    if (resource.pagination === undefined) return rateLimit === undefined ? resource : { ...resource, rateLimit };
    const { hasMore, total } = resource.pagination;
    return { data: resource.data, hasMore, total };
  }
  const { eventCursor: _cursor, conversation, message, apiKey, lead, webhook, delivery, token, ...rest } = body;
  const resource = conversation ?? message ?? apiKey ?? lead ?? webhook ?? delivery ?? token ?? rest;
  if (resource.data !== undefined) {
    const data = resource.data.map((each: Json) => ('apiVersion' in each ? eventOf(each) : each));
    return { data, hasMore: resource.pageInfo.hasNextPage, total: resource.totalCount };
  }
  if (resource.messages !== undefined) return { ...resource, messages: resource.messages.nodes };
  return resource.attempts === undefined ? resource : { ...resource, attempts: resource.attempts.nodes };
}

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
  await server.app.webhooks.stop(0); // what the deliveries come to has tests of its own
});
afterAll(() => server.close());

async function leftBehind(client: TestAccount): Promise<Json> {
  const paths = ['/conversations?limit=100', '/leads?limit=100', '/webhooks?limit=100'];
  const lists: Json[] = [];
  for (const path of paths) lists.push((await client.rest('GET', path)).body.data);
  const [{ id } = { id: undefined }] = lists[2];
  if (id !== undefined) lists.push((await client.rest('GET', `/webhooks/${id}/deliveries`)).body.data);
  return normalized(lists, 'rest');
}

describe('both faces agree on', () => {
  test.each(cases)(
    '$name',
    async ({ given = async () => undefined, rest, graphql, expected, pointers, events = [], check }) => {
      const [one, other] = [await server.account(), await server.account()];
      const [oneGiven, otherGiven] = [await given(one), await given(other)];
      const before = eventsOf(server.databasePath, one.account.id).length;

      const [method, path, body, headers = {}] = rest(oneGiven);
      const restAnswer = await one.rest(method, path, body === undefined ? { headers } : { headers, body });
      const graphqlAnswer = await other.graphql(...graphql(otherGiven));

      if (typeof expected === 'number') {
        expect(restAnswer.status).toBe(expected);
        expect(graphqlAnswer.errors).toBeUndefined();
        const { data } = graphqlAnswer;
        const fromGraphql = normalized(
          resourceOf(data.result ?? (data.conversation ?? data.webhook).result, 'graphql'),
          'graphql',
        );
        if (expected !== 204) {
          const fromRest = normalized(resourceOf(restAnswer.body, 'rest'), 'rest');
          expect(fromGraphql).toEqual(fromRest);
          check?.(fromRest);
        }
      } else {
        expect(restAnswer.body.code).toBe(expected);
        expect(restAnswer.headers['content-type']).toBe('application/problem+json');
        const [error] = graphqlAnswer.errors ?? [];
        expect(error?.extensions.code).toBe(expected);
        if (pointers !== undefined) {
          const named = (faults: Json[]) => faults.map((fault) => fault.pointer ?? `/${fault.parameter}`).sort();
          expect(named(restAnswer.body.errors)).toEqual(pointers);
          expect(named(error?.extensions.errors)).toEqual(pointers);
          expect(error?.extensions.errors.map(({ detail }: Json) => detail).sort()).toEqual(
            restAnswer.body.errors.map(({ detail }: Json) => detail).sort(),
          );
        }
      }

      expect(await leftBehind(other)).toEqual(await leftBehind(one));
      const logs = [one, other].map(({ account }) => eventsOf(server.databasePath, account.id).slice(before));
      expect(logs[0]?.map(({ type }) => type)).toEqual(events);
      expect(normalized(logs[1], 'rest')).toEqual(normalized(logs[0], 'rest'));
    },
  );
});
