import { expect } from 'vitest';
import { encodeCursor } from '../../src/domain/paging.ts';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import {
  type Case,
  capitals,
  capture,
  change,
  closed,
  create,
  listArguments,
  type Statuses,
  statusArgument,
  unknownConversation,
  visitorSays,
} from './case.ts';

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

/** Those of which most lists are. The first is closed afterwards. */
const listed: readonly object[] = [
  {
    status: 'active',
    visitor: { id: 'customer-1', email: 'Ada@Example.com' },
    assignee: { id: 'agent-3' },
    tags: ['urgent'],
  },
  { status: 'pending', visitor: { id: 'customer-2', email: 'grace@example.com' }, tags: ['delivery', 'urgent'] },
  { status: 'active', visitor: { email: 'ada@EXAMPLE.com' }, assignee: { id: 'agent-3', name: 'Grace' } },
  { status: 'pending', visitor: { email: 'A\u0308da@Straße.de' } },
  {
    status: 'active',
    visitor: { email: 'ÄDA@Straße.de' },
    assignee: { id: 'agent-4' },
    tags: ['x"urgent', 'delivery'],
  },
];

const order = ({ data }: Json): number[] =>
  data.map(({ externalId }: Json) => Number(externalId.slice('order-'.length)));

async function listedConversations(client: TestAccount): Promise<Json> {
  const made: Json[] = [];
  for (const body of listed) made.push(await create(client, { ...body, externalId: `order-${made.length}` }));
  await change(client, made[0].id, { status: 'closed' });
  return made;
}

function listing(name: string, query: Record<string, unknown>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  const sorts: Record<string, string> = {
    createdAt: 'CREATED_AT_ASC',
    '-createdAt': 'CREATED_AT_DESC',
    lastActivityAt: 'LAST_ACTIVITY_AT_ASC',
    '-lastActivityAt': 'LAST_ACTIVITY_AT_DESC',
  };
  const spelt = Object.entries(query).map(([key, value]) => {
    if (key === 'status') return statusArgument(value as Statuses);
    return `${listArguments[key] ?? key}: ${key === 'sort' ? sorts[String(value)] : JSON.stringify(value)}`;
  });
  return {
    name: `listing ${name}`,
    given: listedConversations,
    isReading: true,
    rest: () => ['GET', `/conversations?${new URLSearchParams(query as Record<string, string>)}`],
    graphql: () => [
      `{ result: conversations${spelt.length === 0 ? '' : `(${spelt.join(', ')})`} { data: nodes { ${select.conversation} }
        totalCount pageInfo { hasNextPage endCursor } } }`,
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

/** As many keys of metadata as there can be. */
function keys(name: string, value: number | null = 1): Json {
  return Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`${name}${index}`, value]));
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `tag-${index}`);

export const conversationsCases: readonly Case[] = [
  creating('an empty conversation', {}, { expected: 201, events: ['conversation.started'] }),
  creating(
    'one with everything',
    {
      subject: 'Where is my parcel? 📦',
      status: 'pending',
      visitor: { id: 'v-1', name: 'Ada', email: 'ada@example.com' },
      externalId: 'order-7',
      assignee: { id: 'agent-3', name: 'Grace' },
      tags: ['urgent', '\u{1f4e6}', '\uff5e', 'urgent', 'a b'],
      metadata: { vip: true, score: 4.5, source: 'shop' },
      message: {
        content: 'Line one\nline two',
        sender: 'bot',
        author: { id: 'b-1' },
        clientId: 'draft-17',
        metadata: { intent: 'greet' },
      },
    },
    {
      expected: 201,
      events: ['conversation.started', 'message.sent'],
      check: ({ messages, tags }) => {
        expect(messages).toMatchObject([{ clientId: 'draft-17' }]);
        expect(tags).toEqual(['a b', 'urgent', '\uff5e', '\u{1f4e6}']); // by code point, which is not by code unit
      },
    },
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
      events: ['conversation.started', 'message.sent'],
      check: ({ status }) => expect(status).toBe('active'),
    },
  ),
  creating(
    'one with nulls for all that can be left out is creating an empty one',
    {
      subject: null,
      status: null,
      visitor: null,
      externalId: null,
      assignee: null,
      tags: null,
      metadata: null,
      message: null,
    },
    { expected: 201, events: ['conversation.started'], check: ({ status }) => expect(status).toBe('active') },
  ),
  creating(
    'one with tags that cannot be',
    { tags: ['', ' a', 'b\u3000', 'c,d', 'e\n', 'x'.repeat(51), '📦'.repeat(50)] },
    { expected: 'VALIDATION_FAILED', pointers: ['/tags/0', '/tags/1', '/tags/2', '/tags/3', '/tags/4', '/tags/5'] },
  ),
  creating(
    'one with more different tags than there can be is refused',
    { tags: numbered(21) },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/tags'],
    },
  ),
  creating(
    'one with as many different tags as there can be, and doubles',
    { tags: [...numbered(20), ...numbered(20)] },
    {
      expected: 201,
      events: ['conversation.started'],
      check: ({ tags }) => expect(tags).toEqual(numbered(20).sort()),
    },
  ),
  creating(
    'one with an assignee who cannot be',
    { assignee: { id: '', name: 'x'.repeat(129) } },
    { expected: 'VALIDATION_FAILED', pointers: ['/assignee/id', '/assignee/name'] },
  ),
  creating('a closed one is refused', { status: 'closed' }, { expected: 'VALIDATION_FAILED', pointers: ['/status'] }),
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

  ...['msg_nonsense', unknownConversation, unknownConversation.replace('conv', 'msg')].map(
    (id): Case => ({
      name: `getting ${id}, which is no message`,
      rest: () => ['GET', `/messages/${id}`],
      graphql: () => [`query ($id: ID!) { result: message(id: $id) { id } }`, { id }],
      expected: 'NOT_FOUND',
    }),
  ),
  {
    name: 'getting a message',
    given: async (client) => {
      const message = {
        content: 'Hi',
        sender: 'agent',
        author: { id: 'agent-3' },
        clientId: 'draft-17',
        metadata: { a: 1 },
      };
      return (await create(client, { message })).messages[0];
    },
    rest: ({ id }) => ['GET', `/messages/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: message(id: $id) { ${select.message} } }`, { id }],
    expected: 200,
    check: ({ content, clientId }) => expect([content, clientId]).toEqual(['Hi', 'draft-17']),
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
    { subject: 'New', visitor: { name: 'New' }, externalId: 'e-1', assignee: { id: 'a' }, tags: ['b', 'a'] },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: ({ visitor, assignee, tags, version }) => {
        expect([assignee, tags]).toEqual([{ id: 'a', name: null }, ['a', 'b']]);
        expect(visitor).toEqual({ id: null, name: 'New', email: null });
        expect(version).toBe(2);
      },
    },
  ),
  updating(
    'fields to null',
    (client) => create(client, { subject: 's', visitor: {}, externalId: 'e', assignee: { id: 'a' }, tags: ['a'] }),
    { subject: null, visitor: null, externalId: null, assignee: null, tags: null },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: (it) =>
        expect([it.subject, it.visitor, it.externalId, it.assignee, it.tags]).toEqual([null, null, null, null, []]),
    },
  ),
  updating(
    'the assignee replaces it whole',
    (client) => create(client, { assignee: { id: 'agent-3', name: 'Grace' } }),
    { assignee: { id: 'agent-4' } },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: ({ assignee }) => expect(assignee).toEqual({ id: 'agent-4', name: null }),
    },
  ),
  updating(
    'tags adds some and removes others, those that are in both as well',
    (client) => create(client, { tags: ['a', 'b', 'c'] }),
    { addTags: ['d', 'B', 'e', 'a'], removeTags: ['b', 'e', 'x'] },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: ({ tags }) => expect(tags).toEqual(['B', 'a', 'c', 'd']),
    },
  ),
  updating(
    'tags to those that it has changes nothing',
    (client) => create(client, { tags: ['a', 'b'] }),
    { addTags: ['b'], removeTags: ['c'] },
    { expected: 200, check: ({ version }) => expect(version).toBe(1) },
  ),
  updating(
    'tags to the same ones in another order changes nothing',
    (client) => create(client, { tags: ['a', 'b'] }),
    { tags: ['b', 'a', 'b'], addTags: null, removeTags: null },
    { expected: 200, check: ({ version }) => expect(version).toBe(1) },
  ),
  updating(
    'tags in both ways at once is refused, together with other faults',
    create,
    { tags: [], addTags: ['a'], subject: 'x'.repeat(201) },
    { expected: 'VALIDATION_FAILED', pointers: ['/subject', '/tags'] },
  ),
  updating(
    'tags past their bound is refused',
    (client) => create(client, { tags: numbered(19) }),
    { addTags: ['one', 'two'] },
    { expected: 'VALIDATION_FAILED', pointers: ['/addTags'] },
  ),
  updating(
    'tags in place of others, as many as there can be',
    (client) => create(client, { tags: numbered(20) }),
    { addTags: ['one', 'two'], removeTags: ['tag-1', 'tag-2'] },
    { expected: 200, events: ['conversation.updated'], check: ({ tags }) => expect(tags).toHaveLength(20) },
  ),
  updating(
    'metadata merges it',
    (client) => create(client, { metadata: { keep: 1, drop: 2 } }),
    { metadata: { drop: null, add: true } },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: ({ metadata }) => expect(metadata).toEqual({ keep: 1, add: true }),
    },
  ),
  updating(
    'metadata to null empties it',
    (client) => create(client, { metadata: { a: 1 } }),
    { metadata: null },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: ({ metadata }) => expect(metadata).toEqual({}),
    },
  ),
  updating(
    'metadata past its bound is refused',
    (client) => create(client, { metadata: keys('k') }),
    { metadata: { one: 'more' } },
    { expected: 'VALIDATION_FAILED', pointers: ['/metadata'] },
  ),
  updating(
    'metadata to other keys, as many as there can be, is measured by what is left',
    (client) => create(client, { metadata: keys('old') }),
    { metadata: { ...keys('old', null), ...keys('new') } },
    { expected: 200, events: ['conversation.updated'], check: ({ metadata }) => expect(metadata).toEqual(keys('new')) },
  ),
  updating(
    'metadata by a large value in place of another',
    (client) => create(client, { metadata: { old: 'x'.repeat(8_000) } }),
    { metadata: { old: null, new: 'x'.repeat(8_000) } },
    {
      expected: 200,
      events: ['conversation.updated'],
      check: ({ metadata }) => expect(Object.keys(metadata)).toEqual(['new']),
    },
  ),
  updating(
    'metadata by a large value beside another is refused',
    (client) => create(client, { metadata: { old: 'x'.repeat(5_000) } }),
    { metadata: { new: 'x'.repeat(5_000) } },
    { expected: 'VALIDATION_FAILED', pointers: ['/metadata'] },
  ),
  ...Object.entries({
    'more keys than there can be': { ...keys('new'), one: 'more' },
    'nulls for more keys than there can be': { ...keys('old', null), one: null },
    'a value that is too large beside a null': { old: null, new: 'x'.repeat(8_192) },
  }).map(([what, metadata]) =>
    updating(
      `metadata by ${what} is refused, together with other faults`,
      create,
      { metadata, subject: 'x'.repeat(201) },
      { expected: 'VALIDATION_FAILED', pointers: ['/metadata', '/subject'] },
    ),
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
    { expected: 200, events: ['conversation.reopened'], check: ({ closedAt }) => expect(closedAt).toBeNull() },
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
      clientId: '!'.repeat(64),
      metadata: { draft: false },
    },
    { expected: 201, events: ['conversation.updated', 'message.sent'] },
  ),
  sending('as a bot', create, { content: 'Beep', sender: 'bot' }, { expected: 201, events: ['message.sent'] }),
  sending('as the visitor to a closed one brings it back', closed, visitorSays('One more thing'), {
    expected: 201,
    events: ['conversation.reopened', 'message.received'],
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

  ...['', 'a b', 'é', 'x'.repeat(65)].map((clientId) =>
    sending(
      `a message marked ${JSON.stringify(clientId)} is refused`,
      create,
      { ...visitorSays('Hello'), clientId },
      {
        expected: 'VALIDATION_FAILED',
        pointers: ['/clientId'],
      },
    ),
  ),

  forVersion(
    1,
    updating(
      'one',
      create,
      { subject: 'x' },
      { expected: 200, events: ['conversation.updated'], check: (it) => expect(it.version).toBe(2) },
    ),
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

  deleting('one', whole, { expected: 204, events: ['conversation.deleted'] }),
  deleting('a closed one', closed, { expected: 204, events: ['conversation.deleted'] }),
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
  {
    name: 'deleting one in a way that is not known: it stays',
    given: whole,
    rest: ({ id }) => ['DELETE', `/conversations/${id}`, { dryRun: true }],
    graphql: ({ id }) => [
      'mutation ($input: DeleteConversationInput!) { result: deleteConversation(input: $input) { eventCursor } }',
      { input: { id, dryRun: true } },
    ],
    expected: 'VALIDATION_FAILED',
    pointers: ['/dryRun'],
  },
  forVersion(1, deleting('one', whole, { expected: 204, events: ['conversation.deleted'] })),
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
  ...(
    [
      [{ status: ['active', 'pending'] }, [4, 3, 2, 1]],
      [{ status: ['closed'] }, [0]],
      [{ status: ['active', 'pending', 'closed'] }, [4, 3, 2, 1, 0]],
      [{ visitorId: 'customer-1' }, [0]],
      [{ visitorId: 'customer' }, []],
      [{ visitorEmail: 'aDA@example.COM' }, [2, 0]],
      [{ visitorEmail: 'ada@example.com', sort: 'createdAt' }, [0, 2]],
      [{ visitorEmail: '' }, []],
      [{ visitorEmail: 'äda@straße.de' }, [4, 3]],
      [{ visitorEmail: 'ÄDA@STRAßE.DE', tags: ['delivery'], sort: 'lastActivityAt' }, [4]],
      [{ visitorEmail: 'ada@straße.de' }, []],
      [{ assigneeId: 'agent-3' }, [2, 0]],
      [{ assigneeId: 'agent-3', status: ['active', 'pending'], sort: '-lastActivityAt' }, [2]],
      [{ assigneeId: 'agent-3', unassigned: true }, []],
      [{ unassigned: true }, [3, 1]],
      [{ unassigned: false }, [4, 2, 0]],
      [{ tags: ['urgent'] }, [1, 0]],
      [{ tags: ['urgent', 'delivery', 'urgent'] }, [1]],
      [{ tags: ['x"urgent'] }, [4]],
      [{ tags: ['Urgent'] }, []],
      [{ updatedAfter: '2026-11-21T06:11:59Z', limit: 2 }, [4, 3]],
      [{ updatedAfter: '2026-11-21T06:12:00Z' }, []],
      [{ assigneeId: 'agent-3', visitorEmail: 'ada@example.com', tags: ['urgent'], status: ['closed'] }, [0]],
    ] as const
  ).map(([query, expected]) =>
    listing(`by ${JSON.stringify(query)}`, query, {
      expected: 200,
      check: (found) => expect(order(found)).toEqual(expected),
    }),
  ),
  ...(
    [
      [{ visitorId: 'x'.repeat(129) }, '/visitorId'],
      [{ visitorEmail: 'x'.repeat(321) }, '/visitorEmail'],
      [{ assigneeId: 'agent\n3' }, '/assigneeId'],
      [{ tags: ['a', ' b'] }, '/tags/1'],
      [{ tags: [''] }, '/tags/0'],
      [{ tags: Array.from({ length: 21 }, (_, index) => String(index)) }, '/tags'],
      [{ updatedAfter: 'yesterday' }, '/updatedAfter'],
    ] as const
  ).map(([query, pointer]) =>
    listing(`by ${JSON.stringify(query)} is refused`, query, { expected: 'VALIDATION_FAILED', pointers: [pointer] }),
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
  listing(
    'by time of creation, in small letters',
    { createdAfter: '2026-01-01t00:00:00.5z', createdBefore: '2026-11-30t01:00:00+01:00' },
    { expected: 200, check: ({ total }) => expect(total).toBe(5) },
  ),
  ...(
    [
      ['before', { createdBefore: '2026-11-21T06:12:00Z' }, 0],
      ['before, in the same millisecond', { createdBefore: '2026-11-21T06:12:00.0000001Z' }, 5],
      ['before, just so', { createdBefore: '2026-11-21T06:12:00.0000000Z' }, 0],
      ['after, in the millisecond before', { createdAfter: '2026-11-21T06:11:59.9999999Z' }, 5],
      ['after, in the same millisecond', { createdAfter: '2026-11-21T06:12:00.0000001Z' }, 0],
    ] as const
  ).map(([what, input, count]) =>
    listing(`created ${what}`, input, { expected: 200, check: ({ total }) => expect(total).toBe(count) }),
  ),
  listing('no page at all is refused', { limit: 0 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  listing('too large a page is refused', { limit: 101 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  listing(
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),
  listing(
    'from a cursor with something behind it is refused',
    { after: `${encodeCursor('-createdAt', [unknownConversation])}=` },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),
  listing(
    'from a cursor and an offset is refused',
    { after: encodeCursor('-createdAt', [unknownConversation]), offset: 1 },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),
  listing(
    'from what is no cursor, beside other faults, tells all of them',
    { limit: 0, after: 'nonsense', createdAfter: 'yesterday' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after', '/createdAfter', '/limit'] },
  ),
  listing(
    'from a cursor of another sort, beside other faults, tells all of them',
    { limit: 0, after: encodeCursor('createdAt', [unknownConversation]), sort: '-lastActivityAt' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after', '/limit'] },
  ),
  listing(
    'from what is no cursor, and an offset, tells both',
    { after: 'nonsense', offset: 1, createdAfter: 'yesterday' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after', '/after', '/createdAfter'] },
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
    name: 'listing the messages of a conversation from what is no cursor, beside other faults, tells all of them',
    given: create,
    rest: ({ id }) => ['GET', `/conversations/${id}/messages?limit=0&after=nonsense`],
    graphql: ({ id }) => [
      'query ($id: ID!) { conversation(id: $id) { messages(first: 0, after: "nonsense") { totalCount } } }',
      { id },
    ],
    expected: 'VALIDATION_FAILED',
    pointers: ['/after', '/limit'],
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
];
