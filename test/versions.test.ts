import Database from 'better-sqlite3';
import postgres from 'postgres';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Client, clientOf, type Json } from './support/client.ts';
import { isOnPostgres } from './support/postgres.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

// A version is what a client has seen. With it nothing is sent twice that has not changed, and nothing
// is changed that somebody else has changed since.

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

const hello = { content: 'Hello', sender: 'visitor' };
const unknownConversation = 'conv_01m7yzcf3tfz1aan3df712nas7';

async function create(body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/conversations', { body })).body;
}

const read = (id: string, headers: Record<string, string> = {}, method = 'GET') =>
  client.rest(method, `/conversations/${id}`, { headers });

const change = (id: string, body: object, headers: Record<string, string> = {}) =>
  client.rest('PATCH', `/conversations/${id}`, { body, headers });

const visitorWrites = (id: string) =>
  client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'Wait!', sender: 'visitor' } });

/** Each way to change a conversation, with the version that it is made for, if any. */
interface Change {
  readonly name: string;
  send(by: Client, id: string, version?: number): Promise<{ code: string | undefined; status: number }>;
}

function restChange(name: string, method: string, path: (id: string) => string, body?: object): Change {
  return {
    name: `REST's ${name}`,
    async send(by, id, version) {
      const answer = await by.rest(method, path(id), {
        ...(body === undefined ? {} : { body }),
        headers: version === undefined ? {} : { 'if-match': `"${version}"` },
      });
      return { code: answer.body.code, status: answer.status };
    },
  };
}

function graphqlChange(field: string, input: (id: string) => object): Change {
  return {
    name: `GraphQL's ${field}`,
    async send(by, id, version) {
      const { status, errors } = await by.graphql(
        `mutation ($input: ${field[0]?.toUpperCase()}${field.slice(1)}Input!) { ${field}(input: $input) { eventCursor } }`,
        { input: { ...input(id), ...(version === undefined ? {} : { expectedVersion: version }) } },
      );
      return { code: errors?.[0]?.extensions.code, status };
    },
  };
}

const one = (id: string): string => `/conversations/${id}`;
const changes: Change[] = [
  restChange('update', 'PATCH', one, { subject: 'Changed' }),
  restChange('message', 'POST', (id) => `${one(id)}/messages`, { content: 'Hi', sender: 'agent' }),
  restChange('delete', 'DELETE', one),
  graphqlChange('updateConversation', (id) => ({ id, subject: 'Changed' })),
  graphqlChange('closeConversation', (id) => ({ id })),
  graphqlChange('reopenConversation', (id) => ({ id })),
  graphqlChange('sendMessage', (conversationId) => ({ conversationId, content: 'Hi', sender: 'AGENT' })),
  graphqlChange('deleteConversation', (id) => ({ id })),
];

describe('a conversation', () => {
  test('has its version as its tag, wherever one is served', async () => {
    const created = await client.rest('POST', '/conversations');
    const { id } = created.body;
    expect([created.headers['etag'], created.body.version]).toEqual(['"1.0"', 1]);
    const changed = await change(id, { subject: 'x' });
    expect([changed.headers['etag'], changed.body.version]).toEqual(['"2.0"', 2]);
    for (const method of ['GET', 'HEAD']) {
      const { status, headers } = await read(id, {}, method);
      expect([status, headers['etag'], headers['cache-control']]).toEqual([200, '"2.0"', 'private, no-cache']);
      // What one credential is shown of it, another may not be.
      expect(headers['vary']).toMatch(/\bAuthorization\b/);
    }
    await visitorWrites(id);
    expect((await read(id)).headers['etag']).toBe('"3.1"');
  });

  test('has no tag in a list, nor has anything else', async () => {
    const { id } = await create();
    for (const path of ['/conversations', `/conversations/${id}/messages`, '/account']) {
      expect((await client.rest('GET', path)).headers['etag']).toBeUndefined();
    }
    const sent = await visitorWrites(id);
    expect(sent.headers['etag']).toBeUndefined();
  });

  test.each(['"1.0"', 'W/"1.0"', '*', '"7.0", "1.0"', 'W/"0.0" , W/"1.0"'])(
    'that is known as %s is not sent again',
    async (tag) => {
      const { id } = await create();
      for (const method of ['GET', 'HEAD']) {
        const response = await request(`${server.url}/v1/conversations/${id}`, {
          method: method as 'GET',
          headers: { authorization: `Bearer ${client.secret}`, 'if-none-match': tag },
        });
        expect(response.statusCode).toBe(304);
        expect(await response.body.text()).toBe('');
        expect(response.headers).toMatchObject({
          etag: '"1.0"',
          'cache-control': 'private, no-cache',
          'x-request-id': expect.any(String),
          'ratelimit-policy': expect.any(String),
          ratelimit: expect.any(String),
          'x-ratelimit-remaining': expect.any(String),
        });
        expect(response.headers).not.toHaveProperty('content-type');
      }
    },
  );

  test.each(['"2.0"', '"1"', '"1.1"', '"01.0"', '1', 'W/1', '"*"', '', '"1'])(
    'that is known as %s only is sent',
    async (tag) => {
      const { id } = await create();
      const { status, body } = await read(id, { 'if-none-match': tag });
      expect([status, body.id]).toEqual([200, id]);
    },
  );

  test('that has changed is sent to who knew it', async () => {
    const { id } = await create();
    await visitorWrites(id);
    const { status, body } = await read(id, { 'if-none-match': '"1"' });
    expect([status, body.version, body.messages.length]).toEqual([200, 2, 1]);
  });

  test('that nobody may see is not found, whatever is known of it', async () => {
    const { status } = await read(unknownConversation, { 'if-none-match': '*' });
    expect(status).toBe(404);
  });
});

describe.each(changes)('$name', ({ send }) => {
  test('is done for the version that there is, and for none named', async () => {
    const [expected, any] = [await create(), await create()];
    expect((await send(client, expected.id, 1)).code).toBeUndefined();
    expect((await send(client, any.id)).code).toBeUndefined();
  });

  test('is a conflict for any other version, and changes nothing', async () => {
    const { id } = await create();
    await visitorWrites(id);
    const before = (await read(id)).body;
    for (const version of [1, 3, 0]) {
      const { code, status } = await send(client, id, version);
      expect(code).toBe('VERSION_CONFLICT');
      expect([200, 412]).toContain(status);
    }
    expect((await read(id)).body).toEqual(before);
  });

  test('finds nothing before it compares: an unknown id and another account’s are NOT_FOUND', async () => {
    const { id } = await create();
    const stranger = await server.account();
    expect((await send(client, unknownConversation, 5)).code).toBe('NOT_FOUND');
    expect((await send(stranger, id, 5)).code).toBe('NOT_FOUND');
  });
});

describe('If-Match', () => {
  const send = (tag: string, id: string) => change(id, { subject: 'Changed' }, { 'if-match': tag });

  test('of a star is any version, but there must be one', async () => {
    const { id } = await create();
    expect((await send(' * ', id)).status).toBe(200);
    expect((await send('*', unknownConversation)).status).toBe(404);
  });

  test.each(['"1", "2"', '"2","1"', '"1",', ', ,"1"', 'W/"2", "1"', '"a,b", "1"', '"1", "1"'])(
    'of %s is the version that it has, among others',
    async (tag) => {
      const [one, other] = [await create(), await create()];
      expect((await send(tag, one.id)).status).toBe(200);
      const removed = await client.rest('DELETE', `/conversations/${other.id}`, { headers: { 'if-match': tag } });
      expect(removed.status).toBe(204);
    },
  );

  test.each(['W/"1"', '"other"', '""', '"01"', '"9999999999999999"', '"2", "3"', '"2", W/"1"', '"a,1"'])(
    'of %s, which it has not, is a conflict',
    async (tag) => {
      const { id } = await create();
      const { status, body } = await send(tag, id);
      expect([status, body.code]).toEqual([412, 'VERSION_CONFLICT']);
    },
  );

  test.each(['1', 'W/1', '', ',', '"1', '"1" "2"', '"1 "', '*, "1"', '"1", *', '"1", 2', 'w/"1"'])(
    'of %s, which is no list of tags, is refused',
    async (tag) => {
      const { id } = await create();
      for (const [method, body] of [['PATCH', { subject: 'x' }], ['DELETE']] as const) {
        const answer = await client.rest(method, `/conversations/${id}`, {
          ...(body && { body }),
          headers: { 'if-match': tag },
        });
        expect(answer.status).toBe(400);
        expect(answer.body).toMatchObject({
          code: 'VALIDATION_FAILED',
          detail: 'The header `If-Match` must be `*` or a list of tags as in `ETag`.',
          errors: [{ pointer: '/expectedVersion', header: 'If-Match', detail: expect.any(String) }],
        });
      }
      expect((await read(id)).body.version).toBe(1);
    },
  );

  test('is refused where there is nothing that it could be compared with', async () => {
    const { body: webhook } = await client.rest('POST', '/webhooks', { body: { url: 'https://example.com/hooks' } });
    const requests: [string, string, object?][] = [
      ['POST', '/conversations', {}],
      ['POST', '/leads', { email: 'ada@example.com' }],
      ['POST', '/tokens', { scopes: ['leads:read'] }],
      ['PATCH', `/webhooks/${webhook.id}`, { description: 'x' }],
      ['DELETE', `/webhooks/${webhook.id}`],
    ];
    for (const [method, path, body] of requests) {
      for (const tag of ['"1"', '*', 'W/"1"']) {
        const answer = await client.rest(method, path, { ...(body && { body }), headers: { 'if-match': tag } });
        expect([answer.status, answer.body.code], `${method} ${path}`).toEqual([400, 'VALIDATION_FAILED']);
        expect(answer.body).toMatchObject({
          detail: 'The header `If-Match` is not a header of this request.',
          errors: [{ pointer: '/expectedVersion', header: 'If-Match' }],
        });
      }
    }
  });

  test('and the field in a body are one too many: the body’s is not known', async () => {
    const { id } = await create();
    const { body } = await change(id, { subject: 'x', expectedVersion: 1 });
    expect(body).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ pointer: '/expectedVersion' }] });
    expect(body.errors[0].detail).toContain('`If-Match`');
    const both = await change(id, { subject: 'x', expectedVersion: 1 }, { 'if-match': 'none' });
    expect(both.body.errors).toEqual([
      expect.not.objectContaining({ header: 'If-Match' }),
      expect.objectContaining({ header: 'If-Match' }),
    ]);
  });
});

test('expectedVersion of null is any version, and one that is no whole number is refused', async () => {
  const { id } = await create();
  const send = (expectedVersion: unknown) =>
    client.graphql(
      'mutation ($input: UpdateConversationInput!) { updateConversation(input: $input) { conversation { version } } }',
      { input: { id, subject: `${expectedVersion}`, expectedVersion } },
    );
  expect((await send(null)).errors).toBeUndefined();
  for (const version of [1.5, '2', {}]) {
    expect((await send(version)).errors?.[0]?.extensions).toMatchObject({
      code: 'VALIDATION_FAILED',
      errors: [{ pointer: '/input/expectedVersion' }],
    });
  }
});

test('a stale version is told before a transition that could not be made, and a right one after', async () => {
  const { id } = await create();
  await change(id, { status: 'closed' });
  expect((await change(id, { status: 'pending' }, { 'if-match': '"1"' })).body.code).toBe('VERSION_CONFLICT');
  expect((await change(id, { status: 'pending' }, { 'if-match': '"2"' })).body.code).toBe('INVALID_TRANSITION');
  const say = (tag: string) =>
    client.rest('POST', `/conversations/${id}/messages`, {
      body: { content: 'Hi', sender: 'agent' },
      headers: { 'if-match': tag },
    });
  expect((await say('"1"')).body.code).toBe('VERSION_CONFLICT');
  expect((await say('"2"')).body.code).toBe('CONVERSATION_CLOSED');
  const reopen = (expectedVersion: number) =>
    client.graphql(
      'mutation ($input: ReopenConversationInput!) { reopenConversation(input: $input) { eventCursor } }',
      {
        input: { id, expectedVersion },
      },
    );
  expect((await reopen(1)).errors?.[0]?.extensions.code).toBe('VERSION_CONFLICT');
  expect((await reopen(2)).errors).toBeUndefined();
});

test('what a visitor writes makes stale what an agent is about to do', async () => {
  const { id } = await create({ message: { content: 'Hello', sender: 'visitor' } });
  const seen = (await read(id)).headers['etag'] ?? '';
  await visitorWrites(id);
  expect((await change(id, { status: 'closed' }, { 'if-match': seen })).status).toBe(412);
  const now = (await read(id)).headers['etag'] ?? '';
  expect((await change(id, { status: 'closed' }, { 'if-match': now })).status).toBe(200);
});

test('a change that changes nothing keeps the version, and expects it all the same', async () => {
  const { id } = await create({ subject: 'Same' });
  const same = await change(id, { subject: 'Same' }, { 'if-match': '"1"' });
  expect([same.status, same.headers['etag']]).toEqual([200, '"1.0"']);
  expect((await change(id, { subject: 'Same' }, { 'if-match': '"2"' })).status).toBe(412);
});

test('a token of one conversation is held to versions like any other', async () => {
  const { id } = await create({ metadata: { inner: 'secret' } });
  const grant = { scopes: ['conversations:write', 'conversations:read'], conversationId: id };
  const bound = clientOf(server.url, (await client.rest('POST', '/tokens', { body: grant })).body.token);
  const send = (tag: string) =>
    bound.rest('POST', `/conversations/${id}/messages`, {
      body: { content: 'Hi', sender: 'visitor' },
      headers: { 'if-match': tag },
    });
  expect((await send('"1"')).status).toBe(201);
  expect((await send('"1"')).status).toBe(412);
  const { headers } = await bound.rest('GET', `/conversations/${id}`);
  const known = { 'if-none-match': String(headers['etag']) };
  expect((await bound.rest('GET', `/conversations/${id}`, { headers: known })).status).toBe(304);
  expect((await send(String(headers['etag']))).status).toBe(201);
});

/** Any two changes that could both be made of the same version of a conversation, in the order they are sent. */
const races = changes
  .flatMap((one) => changes.map((other) => ({ one, other, isClosed: [one, other].some(isReopening) })))
  // A closed one takes no agent's message, and closing it again would change nothing.
  .filter(({ one, other, isClosed }) => !isClosed || ![one, other].some(({ name }) => /essage|close/.test(name)));

function isReopening({ name }: Change): boolean {
  return name.includes('reopen');
}

test('of any two that write for one version, whichever is sent first, one is done and the other is told', async () => {
  for (const { one, other, isClosed } of races) {
    const { id } = await create();
    const { version } = isClosed ? (await change(id, { status: 'closed' })).body : { version: 1 };
    const answers = await Promise.all([one, other].map(({ send }) => send(client, id, version)));
    const codes = answers.map(({ code }) => code);
    const won = codes.indexOf(undefined);
    const isDeleted = [one, other][won]?.name.includes('delete') === true;
    const told = isDeleted ? 'NOT_FOUND' : 'VERSION_CONFLICT';
    expect(codes, `${one.name} and ${other.name}`).toEqual(won === 0 ? [undefined, told] : [told, undefined]);
    expect((await read(id)).body.version).toBe(isDeleted ? undefined : version + 1);
  }
});

const keysOfMessage = isOnPostgres ? 'account_id, conversation_id' : 'conversation_key';
/** A second message, which is read at once. */
const secondMessage = `
  INSERT INTO messages (${keysOfMessage}, sequence, id, sender, content, metadata, created_at)
    SELECT ${keysOfMessage}, 2, 'msg_01m7yzcf3tfz1aan3df712nas7', sender, content, metadata, created_at FROM messages;
  UPDATE conversations SET message_count = 2, version = version + 1;
  UPDATE read_positions SET sequence = 2;
`;

/** Has the second message written by another process, and returns what commits it. */
async function writtenBeside(database: string): Promise<() => void> {
  if (!isOnPostgres) {
    const beside = new Database(database);
    onTestFinished(() => void beside.close());
    return () => void beside.exec(secondMessage);
  }
  const beside = postgres(database, { max: 1, onnotice: () => {} });
  onTestFinished(() => beside.end({ timeout: 0 }));
  // A statement that reads these was sent before, but sees what is committed now.
  await beside.unsafe(`BEGIN; LOCK TABLE messages, read_positions IN ACCESS EXCLUSIVE MODE; ${secondMessage}`);
  return () => void beside.unsafe('COMMIT').then();
}

const readers = {
  REST: async (by: Client, id: string): Promise<Json> => (await by.rest('GET', `/conversations/${id}`)).body,
  async GraphQL(by: Client, id: string): Promise<Json> {
    const selection = '{ version messageCount readPositions { sequence } messages { nodes { sequence } } }';
    const answer = await by.graphql(`query ($id: ID!) { conversation(id: $id) ${selection} }`, { id });
    const { messages, ...conversation } = answer.data.conversation;
    return { ...conversation, messages: messages.nodes };
  },
};

const statements = {
  messages: /^SELECT .*\bmessages\b/s,
  'read positions': /^SELECT .*\bread_positions\b/s,
};

test.each([
  ['REST', 'messages'],
  ['REST', 'read positions'],
  ['GraphQL', 'messages'],
  ['GraphQL', 'read positions'],
] as const)(
  '%s shows a version with its own messages and read positions, even if another process writes before the %s are read',
  async (face, before) => {
    let onStatement = (_sql: string): void => {};
    const own = await startTestServer({ onStatement: (sql) => onStatement(sql) });
    onTestFinished(() => own.close());
    const owner = await own.account();
    const { id, version } = (await owner.rest('POST', '/conversations', { body: { message: hello } })).body;
    const commit = await writtenBeside(own.database);
    let isCommitted = false;
    onStatement = (sql) => {
      if (isCommitted || !statements[before].test(sql)) return;
      isCommitted = true;
      commit();
    };
    const shown = await readers[face](owner, id);
    expect(isCommitted).toBe(true);
    const { messageCount } = shown;
    expect(shown.version).toBe(version + messageCount - 1);
    expect(shown.messages.map(({ sequence }: Json) => sequence)).toEqual([1, 2].slice(0, messageCount));
    for (const { sequence } of shown.readPositions) expect(sequence).toBeLessThanOrEqual(messageCount);
    const newer = { messageCount: 2, messages: [{ sequence: 1 }, { sequence: 2 }], readPositions: [{ sequence: 2 }] };
    expect(await readers[face](owner, id)).toMatchObject(newer);
  },
);
