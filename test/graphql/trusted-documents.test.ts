import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { scopes } from '../../src/domain/caller.ts';
import { routes } from '../../src/rest/routes.ts';
import { clientOf, type Json } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { type Asked, type Asking, parametersOf, persisted, transports } from '../support/transports.ts';

// Documents that an account has registered are called by the ids that its tools have made.

let server: TestServer;
let client: TestAccount;
let asking: Asking;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  asking = { client, url: server.url, secret: client.secret };
});
afterAll(() => server.close());

const digest = (algorithm: string, text: string): string => createHash(algorithm).update(text).digest('hex');
const codesOf = ({ errors = [] }: Json): string[] => errors.map(({ extensions }: Json) => extensions.code);

let made = 0;
/** A document that nobody has sent before. */
const another = (body = '{ account { name } }'): string => `query T${++made} ${body}`;

async function register(id: string, text: string): Promise<void> {
  const { status } = await client.rest('POST', '/documents', { body: { documents: [{ id, text }] } });
  expect(status).toBe(200);
}

const notFound = {
  errors: [
    {
      message: 'PersistedQueryNotFound',
      extensions: { code: 'PERSISTED_QUERY_NOT_FOUND', requestId: expect.any(String) },
    },
  ],
};

const answered = { data: { account: { name: 'test' } } };

/** The ids that tools make of a text. */
const tools: readonly [tool: string, idOf: (text: string) => string][] = [
  ['GraphQL Code Generator', (text) => `sha256:${digest('sha256', text)}`],
  ['its default', (text) => digest('sha1', text)],
  ['Relay', (text) => digest('md5', text)],
  ['Apollo', (text) => digest('sha256', text)],
  ['somebody', () => `Seite ${++made}: „Überblick“?&=/#`],
];

describe.each(transports)('by $transport', ({ ask }) => {
  test.each(tools)('a registered document is called by the id of %s, and by it as a hash', async (_, idOf) => {
    const text = another();
    const id = idOf(text);
    expect(await ask(asking, { documentId: id })).toEqual(notFound);
    await register(id, text);
    expect(await ask(asking, { documentId: id })).toEqual(answered);
    expect(await ask(asking, persisted(id))).toEqual(answered);
  });

  test('its variables and the name of its operation are those of the request', async () => {
    const text = `query A${++made} { __typename } query B($id: ID!, $first: Int = 3) { node(id: $id) { id } leads(first: $first) { totalCount } }`;
    await register(`names ${made}`, text);
    const asked = { documentId: `names ${made}`, operationName: 'B', variables: { id: 'conv_x' } };
    expect(await ask(asking, asked)).toEqual({ data: { node: null, leads: { totalCount: 0 } } });
  });

  test('its text may stand beside the id, and no other', async () => {
    const text = another();
    const id = `beside ${made}`;
    await register(id, text);
    expect(await ask(asking, { query: text, documentId: id })).toEqual(answered);
    expect(await ask(asking, { query: '', documentId: id })).toEqual(answered);
    for (const asked of [{ documentId: id }, persisted(id)]) {
      expect(codesOf(await ask(asking, { query: another(), ...asked }))).toEqual(['BAD_REQUEST']);
    }
  });

  test('an unknown id is not found, whatever text is beside it, which is not kept under it either', async () => {
    const text = another();
    for (const documentId of ['nothing', digest('sha256', text), '', '\0', 'x'.repeat(1_000)]) {
      // An empty parameter of a URL counts as left out.
      if (documentId !== '') expect(await ask(asking, { query: text, documentId })).toEqual(notFound);
      expect(await ask(asking, { documentId, ...persisted('nothing') })).toEqual(notFound);
    }
  });

  test.each([
    ['a number', 5],
    ['a list', ['a']],
    ['an object', {}],
  ])('an id that is %s is BAD_REQUEST, or unknown where all is text', async (_, documentId) => {
    const answer = await ask(asking, { query: '{ __typename }', documentId } as unknown as Asked);
    expect(['BAD_REQUEST', 'PERSISTED_QUERY_NOT_FOUND']).toContain(codesOf(answer)[0]);
  });

  test('a registered document comes before one that was sent with the same hash', async () => {
    const text = another();
    const hash = digest('sha256', text);
    await register(hash, text);
    await ask(asking, { query: text, ...persisted(hash) });
    expect(await ask(asking, persisted(hash.toUpperCase()))).toEqual(answered);
    expect(await ask(asking, { documentId: hash.toUpperCase() })).toEqual(answered);
  });

  test('a document that was sent with its hash is not called by it as an id', async () => {
    const text = another();
    const hash = digest('sha256', text);
    expect(await ask(asking, { query: text, ...persisted(hash) })).toEqual(answered);
    expect(await ask(asking, { documentId: hash })).toEqual(notFound);
  });

  test('a registered document that is invalid says what is wrong with it each time', async () => {
    const text = another('{ nothing }');
    await register(`invalid ${made}`, text);
    for (let times = 0; times < 2; times++) {
      expect(codesOf(await ask(asking, { documentId: `invalid ${made}` }))).toEqual(['VALIDATION_FAILED']);
    }
  });

  test('a document that is deleted is not found from then on', async () => {
    const text = another();
    const id = `deleted ${made}`;
    await register(id, text);
    expect(await ask(asking, { documentId: id })).toEqual(answered);
    await client.rest('DELETE', `/documents/${encodeURIComponent(id)}`);
    expect(await ask(asking, { documentId: id })).toEqual(notFound);
    expect(await ask(asking, persisted(id))).toEqual(notFound);
  });
});

test('what one process registers and deletes, another on the same database finds and misses at once', async () => {
  const second = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
  onTestFinished(() => second.close());
  const there = second.clientFor(client.secret);
  await register('of two', another());
  expect((await there.post({ documentId: 'of two' })).body).toEqual(answered);
  expect((await there.rest('DELETE', '/documents/of%20two')).status).toBe(204);
  expect((await client.post({ documentId: 'of two' })).body).toEqual(notFound);
});

test('the mutations of a registered document are charged by their number, and do not run by GET', async () => {
  await register(
    'mutations',
    'mutation { a: createConversation(input: {}) { eventCursor } b: createConversation(input: {}) { eventCursor } }',
  );
  const before = Number((await client.rest('GET', '/account')).headers['x-ratelimit-remaining']);
  const { body, headers } = await client.post({ documentId: 'mutations' });
  expect(body.errors).toBeUndefined();
  expect(Number(headers['x-ratelimit-remaining'])).toBe(before - 2);
  const url = `${server.url}/graphql?${parametersOf({ documentId: 'mutations' })}`;
  const { status } = await fetch(url, { headers: { authorization: `Bearer ${client.secret}` } });
  expect(status).toBe(405);
});

describe('a subscription that is registered', () => {
  const text = 'subscription Registered { conversationStarted { type } }';
  const event = { data: { conversationStarted: { type: 'CONVERSATION_STARTED' } } };
  beforeAll(() => register('started', text));

  test('is given its events on a socket, as `documentId` and as a hash', async () => {
    const socket = await new RawSocket(server.url).init(client.secret);
    onTestFinished(() => socket.socket.terminate());
    socket.send({ id: '1', type: 'subscribe', payload: { query: '', documentId: 'started' } });
    socket.send({ id: '2', type: 'subscribe', payload: { query: '', ...persisted('started') } });
    socket.subscribe('3', '{ nothing }');
    await socket.first('3', 'error'); // so the others have begun
    await client.rest('POST', '/conversations');
    expect([(await socket.first('1')).payload, (await socket.first('2')).payload]).toEqual([event, event]);
  });

  test('is given its events over SSE', async () => {
    const url = `${server.url}/graphql?${parametersOf({ documentId: 'started' })}`;
    const reader = await SseReader.open(url, { authorization: `Bearer ${client.secret}` });
    onTestFinished(() => reader.close());
    await client.rest('POST', '/conversations');
    await reader.until(({ events }) => events.length > 0);
    expect(reader.events[0]).toEqual(event);
  });
});

test('an unknown id has status 200 in both media types, and costs a unit', async () => {
  const ask = async (accept: string) => {
    const { status, headers, body } = await client.post({ documentId: 'nothing' }, { headers: { accept } });
    expect({ status, body }).toEqual({ status: 200, body: notFound });
    expect(headers['content-type']).toContain(accept);
    return Number(headers['x-ratelimit-remaining']);
  };
  expect((await ask('application/json')) - (await ask('application/graphql-response+json'))).toBe(1);
});

describe('a token for registered documents only', () => {
  const text = 'query Allowed { account { name } }';
  beforeAll(async () => {
    await register('allowed', text);
    await register(digest('sha256', text), text);
  });

  /** A client with such a token. */
  async function trusted(input: object = {}): Promise<Asking> {
    const { status, body } = await client.rest('POST', '/tokens', {
      body: { scopes, trustedDocumentsOnly: true, ...input },
    });
    expect([status, body.trustedDocumentsOnly]).toEqual([201, true]);
    return { client: clientOf(server.url, body.token), url: server.url, secret: body.token };
  }

  describe.each(transports.filter(({ transport }) => transport !== 'a batch'))('by $transport', ({ ask }) => {
    test('runs a registered document, by its id and as a hash, and with its text beside it', async () => {
      const by = await trusted();
      for (const asked of [
        { documentId: 'allowed' },
        persisted('allowed'),
        persisted(digest('sha256', text)),
        { query: text, documentId: 'allowed' },
        { query: text, ...persisted(digest('sha256', text)) },
      ]) {
        expect(await ask(by, asked)).toEqual(answered);
      }
    });

    test.each<[name: string, asked: Asked]>([
      ['another text', { query: '{ account { name } }' }],
      ['the text of a registered document without its id', { query: text }],
      ['introspection', { query: '{ __schema { types { name } } }' }],
      ['the name of a type', { query: '{ __typename }' }],
      ['what is no GraphQL', { query: '{' }],
      ['an unknown id', { documentId: 'nothing' }],
      ['an unknown hash', persisted(digest('sha256', '{ account { name } }'))],
      ['a text with its hash', { query: '{ a }', ...persisted(digest('sha256', '{ a }')) }],
      ['a text with an unknown id', { query: text, documentId: 'nothing' }],
    ])('is FORBIDDEN to run anything else: %s', async (_, asked) => {
      expect(codesOf(await ask(await trusted(), asked))).toEqual(['FORBIDDEN']);
    });

    test('cannot run what its account has persisted, nor persist anything', async () => {
      const query = another();
      const hash = digest('sha256', query);
      const by = await trusted();
      expect(codesOf(await ask(by, { query, ...persisted(hash) }))).toEqual(['FORBIDDEN']);
      expect(await ask(asking, persisted(hash))).toEqual(notFound);
      expect(await ask(asking, { query, ...persisted(hash) })).toEqual(answered);
      expect(codesOf(await ask(by, persisted(hash)))).toEqual(['FORBIDDEN']);
    });

    test('cannot run another text under the id of a registered document', async () => {
      expect(codesOf(await ask(await trusted(), { query: another(), documentId: 'allowed' }))).toEqual(['BAD_REQUEST']);
    });
  });

  test('is refused with 403 in both media types, and in a batch with an error of its own for each entry', async () => {
    const by = await trusted();
    for (const accept of ['application/json', 'application/graphql-response+json']) {
      const { status, body } = await by.client.post({ query: text }, { headers: { accept } });
      expect([status, codesOf(body)]).toEqual([403, ['FORBIDDEN']]);
      expect(body.errors[0].message).toContain('`documentId`');
    }
    const { status, body } = await by.client.post([{ documentId: 'allowed' }, { query: text }, { documentId: 'x' }]);
    expect(status).toBe(200);
    expect(body[0]).toEqual(answered);
    expect(body.slice(1).map(codesOf)).toEqual([['FORBIDDEN'], ['FORBIDDEN']]);
  });

  test.each(routes.map(({ method, path, operation }) => [operation.name, method, path]))(
    'cannot call %s over REST',
    async (_, method, path) => {
      const by = await trusted();
      const { status, body } = await by.client.rest(method, path.replaceAll(/:\w+/g, 'x'), { body: {} });
      expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
      expect(body.detail).toContain('registered GraphQL documents');
    },
  );

  test('is told of unknown paths and methods as everybody is', async () => {
    const by = await trusted();
    expect((await by.client.rest('GET', '/nothing')).status).toBe(404);
    expect((await by.client.rest('PUT', '/conversations')).status).toBe(405);
  });

  test('has no further rights: a scope that it lacks is missing in a registered document, too', async () => {
    const { data, errors } = (
      await (await trusted({ scopes: ['leads:read'] })).client.post({ documentId: await whole() })
    ).body;
    expect(data).toEqual({ apiKeys: null, leads: { totalCount: 0 } });
    expect(errors).toMatchObject([{ path: ['apiKeys'], extensions: { code: 'FORBIDDEN' } }]);
  });

  async function whole(): Promise<string> {
    await register('whole', 'query Whole { apiKeys { totalCount } leads { totalCount } }');
    return 'whole';
  }

  test.each([
    ['a key', 'createApiKey(input: { name: "more" }) { apiKey { secret } }'],
    ['another token', 'createToken(input: { scopes: [LEADS_READ] }) { token { token } }'],
    ['further documents', 'registerDocuments(input: { documents: [{ id: "more", text: "{ a }" }] }) { eventCursor }'],
  ])('cannot give itself more by a registered document that makes %s', async (_, field) => {
    const id = `more ${++made}`;
    await register(id, `mutation More${made} { made: ${field} }`);
    const { data, errors } = (await (await trusted()).client.post({ documentId: id })).body;
    expect(data).toEqual({ made: null });
    expect(errors).toMatchObject([{ path: ['made'], extensions: { code: 'FORBIDDEN' } }]);
  });

  test('can be bound to a visitor as well, and is then held to both', async () => {
    const both = await trusted({ visitor: { id: 'customer-7' } });
    await register('own', 'query Own { conversations { totalCount } leads { totalCount } }');
    const { data, errors } = (await both.client.post({ documentId: 'own' })).body;
    expect(data).toEqual({ conversations: { totalCount: 0 }, leads: null });
    expect(errors).toMatchObject([{ path: ['leads'], extensions: { code: 'FORBIDDEN' } }]);
    expect((await both.client.rest('GET', '/conversations')).body.code).toBe('FORBIDDEN');
    expect((await both.client.post({ query: '{ conversations { totalCount } }' })).status).toBe(403);
  });

  test('follows a registered subscription on a socket and over SSE, and no other', async () => {
    await register('followed', 'subscription Followed { conversationStarted { type } }');
    const by = await trusted();
    const socket = await new RawSocket(server.url).init(by.secret);
    onTestFinished(() => socket.socket.terminate());
    socket.subscribe('1', 'subscription { conversationStarted { type } }');
    expect(codesOf({ errors: (await socket.first('1', 'error')).payload })).toEqual(['FORBIDDEN']);
    socket.send({ id: '2', type: 'subscribe', payload: { query: '', documentId: 'followed' } });
    const authorization = `Bearer ${by.secret}`;
    const open = (asked: Asked) => SseReader.open(`${server.url}/graphql?${parametersOf(asked)}`, { authorization });
    const refused = await open({ query: 'subscription { conversationStarted { type } }' });
    await refused.over;
    expect(refused.body).toContain('"code":"FORBIDDEN"');
    const reader = await open({ documentId: 'followed' });
    onTestFinished(() => reader.close());
    await client.rest('POST', '/conversations');
    await reader.until(({ events }) => events.length > 0);
    const event = { data: { conversationStarted: { type: 'CONVERSATION_STARTED' } } };
    expect([reader.events[0], (await socket.first('2')).payload]).toEqual([event, event]);
  });
});
