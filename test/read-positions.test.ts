import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Json } from './support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());
beforeEach(async () => {
  client = await server.account();
});

const create = async (body: object = {}): Promise<string> =>
  (await client.rest('POST', '/conversations', { body })).body.id;
const send = (id: string, body: object) => client.rest('POST', `/conversations/${id}/messages`, { body });
const says = (id: string, content = 'Hello') => send(id, { content, sender: 'visitor' });
const mark = (id: string, reader: string, sequence: number, by = client) =>
  by.rest('PUT', `/conversations/${id}/read-positions/${reader}`, { body: { sequence } });
const read = async (id: string): Promise<Json> => (await client.rest('GET', `/conversations/${id}`)).body;
/** How far each reader has read. */
const positionsIn = async (id: string): Promise<Json> =>
  Object.fromEntries((await read(id)).readPositions.map(({ reader, sequence }: Json) => [reader, sequence]));

describe('a read position', () => {
  test('is moved by whoever sends, with the message and without an event of its own', async () => {
    const id = await create({ message: { content: 'Hello', sender: 'visitor' } });
    expect(await positionsIn(id)).toEqual({ visitor: 1 });
    await send(id, { content: 'Hi', sender: 'agent', author: { id: 'agent-3' } });
    await send(id, { content: 'Beep', sender: 'bot', author: { id: 'bot@shop' } });
    await send(id, { content: 'Who am I?', sender: 'agent' });
    await send(id, { content: 'No reader', sender: 'agent', author: { id: 'agent 4' } });
    expect(await positionsIn(id)).toEqual({ 'agent-3': 2, 'bot@shop': 3, visitor: 1 });
    const types = (await server.log(client.account.id)).map(({ type }) => type);
    expect(types).not.toContain('conversation.read');
  });

  test('is given to an assignee that has none, at 0, when it is assigned', async () => {
    const id = await create({ assignee: { id: 'agent-1' }, message: { content: 'Hello', sender: 'visitor' } });
    expect(await positionsIn(id)).toEqual({ 'agent-1': 0, visitor: 1 });
    await mark(id, 'agent-2', 1);
    for (const assignee of ['agent-2', 'agent-3', 'agent 4']) {
      await client.rest('PATCH', `/conversations/${id}`, { body: { assignee: { id: assignee } } });
    }
    expect(await positionsIn(id)).toEqual({ 'agent-1': 0, 'agent-2': 1, 'agent-3': 0, visitor: 1 });
  });

  test('is in the answers that show its conversation, and moves without a new version of it', async () => {
    const created = await client.rest('POST', '/conversations', { body: { assignee: { id: 'agent-1' } } });
    const { id, lastActivityAt, version } = created.body;
    expect(created.body.readPositions).toMatchObject([{ reader: 'agent-1', sequence: 0 }]);
    server.clock.advance(1_000);
    await mark(id, 'visitor', 0);
    const shown = await read(id);
    expect(shown).toMatchObject({ version, lastActivityAt, updatedAt: created.body.updatedAt });
    const { messages: _, ...listed } = shown;
    expect((await client.rest('GET', '/conversations')).body.data).toEqual([listed]);
    expect((await client.rest('PATCH', `/conversations/${id}`, { body: {} })).body).toEqual(listed);
    expect(listed.readPositions).toEqual([
      { reader: 'agent-1', sequence: 0, readAt: created.body.createdAt },
      { reader: 'visitor', sequence: 0, readAt: new Date(server.clock.now()).toISOString() },
    ]);
  });

  test('that moves makes no copy stale for a change, but it does for reading', async () => {
    const id = await create({ message: { content: 'Hello', sender: 'visitor' } });
    const path = `/conversations/${id}`;
    const tag = String((await client.rest('GET', path)).headers['etag']);
    expect(tag).toBe('"1.1"');
    await mark(id, 'agent-3', 1);
    const known = await client.rest('GET', path, { headers: { 'if-none-match': tag } });
    expect([known.status, known.headers['etag']]).toEqual([200, '"1.2"']);
    await mark(id, 'agent-3', 0); // moves nothing
    expect((await client.rest('GET', path, { headers: { 'if-none-match': '"1.2"' } })).status).toBe(304);
    for (const [version, match] of [
      [2, tag],
      [3, '"2"'],
      [4, '"9.9", "3.7"'],
    ]) {
      const changed = await client.rest('PATCH', path, {
        body: { subject: `${match}` },
        headers: { 'if-match': `${match}` },
      });
      expect([changed.status, changed.headers['etag']]).toEqual([200, `"${version}.2"`]);
    }
    expect((await client.rest('PATCH', path, { body: {}, headers: { 'if-match': '"3.2"' } })).status).toBe(412);
  });

  test('only moves forward, however many move it at the same time', async () => {
    const id = await create();
    for (let count = 0; count < 30; count++) await says(id);
    const sequences = Array.from({ length: 30 }, (_, index) => ((index * 7) % 30) + 1);
    const answers = await Promise.all(sequences.map((sequence) => mark(id, 'agent-3', sequence)));
    for (const [index, { body }] of answers.entries())
      expect(body.sequence).toBeGreaterThanOrEqual(sequences[index] ?? 0);
    expect((await positionsIn(id))['agent-3']).toBe(30);
    const log = await server.log(client.account.id);
    const moves = log.filter(({ type }) => type === 'conversation.read');
    const told = moves.map(({ data }) => (data as Json).readPosition.sequence);
    expect(told).toEqual([...new Set(told)].sort((a, b) => a - b));
    expect(told.at(-1)).toBe(30);
  });

  test('is one of fifty at most: the one that has not moved for longest gives way', async () => {
    const id = await create();
    await says(id);
    for (let count = 1; count <= 49; count++) await mark(id, `agent-${count}`, 0);
    await mark(id, 'agent-1', 1);
    expect(Object.keys(await positionsIn(id))).toHaveLength(50);
    await mark(id, 'one-more', 0);
    const left = await positionsIn(id);
    expect(Object.keys(left)).toHaveLength(50);
    expect(left).not.toHaveProperty('visitor'); // it moved before all others did
    expect(left).toMatchObject({ 'agent-1': 1, 'agent-2': 0, 'one-more': 0 });
  });

  test('that has given way is there again at 0 when its reader is assigned again', async () => {
    const id = await create({ assignee: { id: 'agent-1' } });
    for (let count = 2; count <= 51; count++) await mark(id, `agent-${count}`, 0);
    expect(await positionsIn(id)).not.toHaveProperty('agent-1');
    const assign = (assignee: Json) => client.rest('PATCH', `/conversations/${id}`, { body: { assignee } });
    await assign({ id: 'agent-1', name: 'Grace' });
    expect(await positionsIn(id)).toMatchObject({ 'agent-1': 0 });
  });
});

describe('GraphQL', () => {
  test('chooses positions by reader, and counts what a reader has not read', async () => {
    const ids = [await create({ assignee: { id: 'agent-3' } }), await create()];
    for (const id of ids) for (let count = 0; count < 3; count++) await says(id);
    await mark(ids[0] as string, 'agent-4', 2);
    const { data, errors } = await client.graphql(`{ conversations(sort: CREATED_AT_ASC) { nodes {
      readPositions(readers: ["agent-4", "visitor", "nobody"]) { reader sequence }
      none: readPositions(readers: []) { reader }
      mine: unreadCount(reader: "agent-3") other: unreadCount(reader: "agent-4") visitor: unreadCount(reader: "visitor") } } }`);
    expect(errors).toBeUndefined();
    expect(data.conversations.nodes).toEqual([
      {
        readPositions: [
          { reader: 'agent-4', sequence: 2 },
          { reader: 'visitor', sequence: 3 },
        ],
        none: [],
        mine: 3,
        other: 1,
        visitor: 0,
      },
      { readPositions: [{ reader: 'visitor', sequence: 3 }], none: [], mine: null, other: null, visitor: 0 },
    ]);
  });

  test('refuses what cannot be a reader, and shows the rest', async () => {
    const id = await create();
    const { data, errors } = await client.graphql(
      `query ($id: ID!) { conversation(id: $id) { id unreadCount(reader: "a b") readPositions(readers: ["x", ""]) { reader } } }`,
      { id },
    );
    expect(data.conversation).toEqual({ id, unreadCount: null, readPositions: null });
    expect(errors?.map(({ extensions }) => [extensions.code, extensions.errors[0].pointer])).toEqual([
      ['VALIDATION_FAILED', '/reader'],
      ['VALIDATION_FAILED', '/readers/1'],
    ]);
  });

  test('looks at no more than fifty readers by name, and at nothing more once there are a hundred errors', async () => {
    for (let count = 0; count < 2; count++) await create();
    const variables = { readers: Array(12_000 - 10).fill('a b') };
    const query = (aliases: number): string =>
      `query ($readers: [String!]) { conversations { nodes { ${Array.from({ length: aliases }, (_, index) => `r${index}: readPositions(readers: $readers) { reader }`).join(' ')} } } }`;
    const { data, errors } = await client.graphql(query(1), variables);
    expect(data.conversations.nodes[0]).toEqual({ r0: null });
    expect(errors?.[0]?.extensions.errors).toEqual([{ pointer: '/readers', detail: 'must name at most 50' }]);
    const all = await client.graphql(query(90), variables);
    expect(all.errors?.map(({ extensions }) => extensions.code)).toEqual(['QUERY_TOO_COMPLEX']);
  });

  test('shows after a mutation what it has moved', async () => {
    const id = await create({ message: { content: 'Hello', sender: 'visitor' } });
    const { data } = await client.graphql(
      `mutation ($id: ID!) {
        one: markRead(input: { conversationId: $id, reader: "a", sequence: 0 }) { conversation { unreadCount(reader: "a") } }
        two: markRead(input: { conversationId: $id, reader: "a", sequence: 1 }) { conversation { unreadCount(reader: "a") } } }`,
      { id },
    );
    expect([data.one.conversation.unreadCount, data.two.conversation.unreadCount]).toEqual([1, 0]);
  });
});

test('a token bound to a conversation sees and hears of the visitor’s position only, and moves none', async () => {
  const id = await create({ message: { content: 'Hello', sender: 'visitor' } });
  const scopes = ['conversations:read', 'conversations:write', 'events:read'];
  const { token } = (await client.rest('POST', '/tokens', { body: { scopes, conversationId: id } })).body;
  const bound = server.clientFor(token);
  const { headers } = await bound.rest('GET', `/conversations/${id}`);
  await mark(id, 'agent-3', 1);
  await mark(id, 'agent-4', 0);
  const again = await bound.rest('GET', `/conversations/${id}`, {
    headers: { 'if-none-match': String(headers['etag']) },
  });
  expect(again.status).toBe(304); // how often others move theirs cannot be told from it
  await send(id, { content: 'Hi', sender: 'agent' });
  await mark(id, 'visitor', 2);
  const { body } = await bound.rest('GET', `/conversations/${id}`);
  expect(body.readPositions).toMatchObject([{ reader: 'visitor', sequence: 2 }]);
  const { data } = await bound.graphql(
    `query ($id: ID!) { conversation(id: $id) { readPositions { reader sequence } own: unreadCount(reader: "visitor") other: unreadCount(reader: "agent-3") } }`,
    { id },
  );
  expect(data.conversation).toEqual({ readPositions: [{ reader: 'visitor', sequence: 2 }], own: 0, other: null });
  const events = (await bound.rest('GET', '/events')).body.data;
  expect(events.map(({ type }: Json) => type)).toEqual([
    'conversation.started',
    'message.received',
    'conversation.updated', // it became active
    'message.sent',
    'conversation.read',
  ]);
  expect(events.at(-1).data).toEqual({ conversationId: id, readPosition: body.readPositions[0] });
  for (const reader of ['visitor', 'agent-3']) {
    expect(
      (await bound.rest('PUT', `/conversations/${id}/read-positions/${reader}`, { body: { sequence: 2 } })).body.code,
    ).toBe('FORBIDDEN');
  }
});

test('erasing a conversation leaves nothing of who has read it', async () => {
  const id = await create({ message: { content: 'Hello', sender: 'visitor' } });
  await mark(id, 'agent-marked', 1);
  await client.rest('DELETE', `/conversations/${id}`);
  expect((await mark(id, 'agent-marked', 1)).body.code).toBe('NOT_FOUND');
  const events = (await client.rest('GET', '/events')).body.data;
  expect(events.map(({ type, data }: Json) => [type, data])).toEqual([
    ['conversation.started', { erased: true }],
    ['message.received', { erased: true }],
    ['conversation.read', { erased: true }],
    ['conversation.deleted', { conversationId: id }],
  ]);
  const { data } = await client.graphql(
    '{ events { nodes { ... on ConversationReadEvent { erased conversationId readPosition { reader } } } } }',
  );
  expect(data.events.nodes[2]).toEqual({ erased: true, conversationId: id, readPosition: null });
});
