import { createHash } from 'node:crypto';
import { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { createClient, fetchExchange, subscriptionExchange } from '@urql/core';
import { persistedExchange } from '@urql/exchange-persisted';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Documents } from '../../src/graphql/documents.ts';
import { schema } from '../../src/graphql/schema.ts';
import { clientOf, type Json } from '../support/client.ts';
import { runGuide } from '../support/guide.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket, socketClient } from '../support/subscribe.ts';
import { type Asked, type Asking, parametersOf, persisted, transports } from '../support/transports.ts';

// Automatic persisted queries: a client sends the hash of its document, and the text too if the server does not know it.

let server: TestServer;
let client: TestAccount;
let asking: Asking;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  asking = { client, url: server.url, secret: client.secret };
});
afterAll(() => server.close());

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const codesOf = ({ errors = [] }: Json): string[] => errors.map(({ extensions }: Json) => extensions.code);

let made = 0;
/** A document that nobody has sent before. */
const another = (body = '{ account { name } }'): string => `query Q${++made} ${body}`;

/** The hash of a document that the account has sent with it. */
async function known(query = another(), by: Asking = asking): Promise<string> {
  const hash = sha256(query);
  await by.client.post({ query, ...persisted(hash) });
  return hash;
}

/** A client with a token of the account. */
async function withToken(input: object): Promise<Asking> {
  const { body } = await client.rest('POST', '/tokens', { body: { scopes: ['conversations:read'], ...input } });
  return { client: clientOf(server.url, body.token), url: server.url, secret: body.token };
}

const notFound = {
  errors: [
    {
      message: 'PersistedQueryNotFound',
      extensions: { code: 'PERSISTED_QUERY_NOT_FOUND', requestId: expect.any(String) },
    },
  ],
};

describe.each(transports)('by $transport', ({ ask }) => {
  test('an unknown hash is PERSISTED_QUERY_NOT_FOUND, with the message that clients look for', async () => {
    expect(await ask(asking, persisted(sha256(another())))).toEqual(notFound);
  });

  test('a text that was sent with its hash is found by the hash from then on', async () => {
    const query = another('($id: ID!) { conversation(id: $id) { id } account { name } }');
    const variables = { id: 'conv_x' };
    const whole = await ask(asking, { query, variables });
    const hash = sha256(query);
    expect(await ask(asking, { variables, ...persisted(hash) })).toEqual(notFound);
    for (const asked of [{ query, ...persisted(hash) }, persisted(hash), persisted(hash.toUpperCase())]) {
      const { data, errors } = await ask(asking, { variables, ...asked });
      expect({ data, codes: codesOf({ errors }) }).toEqual({ data: whole.data, codes: codesOf(whole) });
    }
  });

  test('an empty text beside a hash counts as none', async () => {
    expect(await ask(asking, { query: '', ...persisted(sha256(another())) })).toEqual(notFound);
    expect((await ask(asking, { query: '', ...persisted(await known()) })).data).toEqual({ account: { name: 'test' } });
  });

  test('the operation of a document is chosen by its name', async () => {
    const hash = await known(`query A${++made} { a: __typename } query B { b: __typename }`);
    expect((await ask(asking, { operationName: 'B', ...persisted(hash) })).data).toEqual({ b: 'Query' });
    expect(codesOf(await ask(asking, persisted(hash)))).toEqual(['BAD_REQUEST']);
  });

  test('a hash that is not the text’s is BAD_REQUEST, whether it is known or not, and nothing is kept under it', async () => {
    const hash = await known();
    for (const wrong of [hash, sha256('{ nothing }'), 'x', '']) {
      const answer = await ask(asking, { query: another(), ...persisted(wrong) });
      expect(codesOf(answer)).toEqual(['BAD_REQUEST']);
    }
    expect((await ask(asking, persisted(hash))).data).toEqual({ account: { name: 'test' } });
    expect(await ask(asking, persisted(sha256('{ nothing }')))).toEqual(notFound);
  });

  test('other members are passed over, such as urql’s `miss`', async () => {
    const query = another();
    const { data } = await ask(asking, { query, ...persisted(sha256(query), { miss: true, other: [] }) });
    expect(data).toEqual({ account: { name: 'test' } });
  });

  test.each<[name: string, persistedQuery: unknown]>([
    ['of another version', { version: 2, sha256Hash: sha256('{ __typename }') }],
    ['without a version', { sha256Hash: sha256('{ __typename }') }],
    ['without a hash', { version: 1 }],
    ['with a hash that is a number', { version: 1, sha256Hash: 5 }],
    ['that is a text', 'x'],
    ['that is a list', []],
  ])('a persisted query %s is BAD_REQUEST, even with its text', async (_, persistedQuery) => {
    expect(codesOf(await ask(asking, { query: '{ __typename }', extensions: { persistedQuery } }))).toEqual([
      'BAD_REQUEST',
    ]);
  });

  test('a document that is invalid is not kept', async () => {
    for (const [query, code] of [
      [another('{ nothing }'), 'VALIDATION_FAILED'],
      [another('{'), 'BAD_REQUEST'],
    ] as const) {
      expect(codesOf(await ask(asking, { query, ...persisted(sha256(query)) }))).toContain(code);
      expect(await ask(asking, persisted(sha256(query)))).toEqual(notFound);
    }
  });

  test('no account knows what another has sent, and no page what its account has', async () => {
    const query = another('{ __typename }');
    const hash = await known(query);
    const other = await server.account();
    const { id } = (await client.rest('POST', '/conversations')).body;
    for (const by of [
      { client: other, url: server.url, secret: other.secret },
      await withToken({ conversationId: id }),
      await withToken({ visitor: { id: 'customer-7' } }),
    ]) {
      expect(await ask(by, persisted(hash))).toEqual(notFound);
    }
    expect((await ask(await withToken({}), persisted(hash))).data).toEqual({ __typename: 'Query' });
  });

  test('a page finds what another page of the account has sent', async () => {
    const [one, other] = [await withToken({ visitor: { id: 'one' } }), await withToken({ visitor: { id: 'other' } })];
    const hash = await known(another('{ __typename }'), one);
    expect((await ask(other, persisted(hash))).data).toEqual({ __typename: 'Query' });
  });
});

test('an unknown hash is answered with 200 in both media types, and costs a unit', async () => {
  const remaining = async (asked: Asked, headers: Record<string, string> = {}) => {
    const response = await client.post(asked, { headers });
    expect(response.status).toBe(200);
    expect(response.body).toEqual(notFound);
    return Number(response.headers['x-ratelimit-remaining']);
  };
  const before = await remaining(persisted(sha256(another())));
  const accepts = [
    'application/json',
    'application/graphql-response+json',
    'application/json;charset=utf-8',
    'application/graphql-response+json;charset=utf-8',
  ];
  for (const [index, accept] of accepts.entries()) {
    expect(await remaining(persisted(sha256(another())), { accept })).toBe(before - 1 - index);
  }
});

test('in a batch only what is unknown is missing', async () => {
  const asked = [persisted(await known()), persisted(sha256(another())), { query: '{ __typename }' }];
  expect((await client.post(asked)).body).toEqual([
    { data: { account: { name: 'test' } } },
    notFound,
    { data: { __typename: 'Query' } },
  ]);
});

test('a mutation is found by its hash, and charged by its fields, but not by GET', async () => {
  const query = `mutation M${++made} { a: createConversation(input: {}) { eventCursor } b: createConversation(input: {}) { eventCursor } }`;
  const hash = await known(query);
  const before = Number((await client.rest('GET', '/account')).headers['x-ratelimit-remaining']);
  const { body, headers } = await client.post(persisted(hash));
  expect(body.data).toMatchObject({ a: { eventCursor: expect.any(String) }, b: { eventCursor: expect.any(String) } });
  expect(Number(headers['x-ratelimit-remaining'])).toBe(before - 2);
  const { status, headers: answered } = await fetch(`${server.url}/graphql?${parametersOf(persisted(hash))}`, {
    headers: { authorization: `Bearer ${client.secret}` },
  });
  expect([status, answered.get('allow')]).toEqual([405, 'POST']);
});

describe('a subscription by its hash', () => {
  const subscription = () => `subscription S${++made} { conversationStarted { type } }`;

  test('is given its events on a socket', async () => {
    const hash = await known(subscription());
    const socket = await new RawSocket(server.url).init(client.secret);
    onTestFinished(() => socket.socket.terminate());
    socket.send({ id: '1', type: 'subscribe', payload: { query: '', ...persisted(hash) } });
    socket.send({ id: '2', type: 'subscribe', payload: { query: '', ...persisted(sha256(another())) } });
    await socket.first('2', 'error'); // so the first has begun
    await client.rest('POST', '/conversations');
    expect((await socket.first('1')).payload).toEqual({
      data: { conversationStarted: { type: 'CONVERSATION_STARTED' } },
    });
  });

  test('is given its events over SSE', async () => {
    const hash = await known(subscription());
    const url = `${server.url}/graphql?${parametersOf(persisted(hash))}`;
    const reader = await SseReader.open(url, { authorization: `Bearer ${client.secret}` });
    onTestFinished(() => reader.close());
    expect(reader.headers['content-type']).toContain('text/event-stream');
    await client.rest('POST', '/conversations');
    await reader.until(({ events }) => events.length > 0);
    expect(reader.events[0]).toEqual({ data: { conversationStarted: { type: 'CONVERSATION_STARTED' } } });
  });
});

describe('the cache of persisted documents', () => {
  const one = { account: { id: 'one' } };
  const bound = { ...one, visitor: { id: 'customer-7', name: null, email: null } };
  const large = (name: string): string =>
    `query ${name} { ${Array.from({ length: 490 }, (_, index) => `k${index}: eventCursor`).join(' ')} }`;

  test('is that of all documents: what is not used for long is forgotten with its hash, and what is used stays', async () => {
    const documents = new Documents(schema);
    const [used, unused] = ['query Used { __typename }', 'query Unused { __typename }'];
    for (const query of [used, unused]) await documents.persist(one, sha256(query), query);
    for (let weight = 0, index = 0; weight < 9 * 1024 * 1024; index++) {
      weight += (await documents.prepare(one, large(`Q${index}`))).weight;
      await documents.prepare(one, used);
    }
    expect(documents.persisted(one, sha256(used))).toBe(used);
    expect(documents.persisted(one, sha256(unused))).toBeUndefined();
  });

  test('of pages is one of their own: whatever they persist pushes out nothing that the agents use', async () => {
    const documents = new Documents(schema);
    const query = 'query Agent { __typename }';
    await documents.persist(one, sha256(query), query);
    for (let weight = 0, index = 0; weight < 9 * 1024 * 1024; index++) {
      const text = large(`Q${index}`);
      weight += (await documents.persist(bound, sha256(text), text)).weight;
    }
    expect(documents.persisted(one, sha256(query))).toBe(query);
    expect(documents.persisted(bound, sha256(query))).toBeUndefined();
    expect(documents.persisted(bound, sha256(large('Q0')))).toBeUndefined();
  });
});

describe('a stock client', () => {
  /** Counts the requests that a client sends, and keeps of each whether it has a text. */
  function counting(): { sent: { method: string; hasText: boolean }[]; fetch: typeof fetch } {
    const sent: { method: string; hasText: boolean }[] = [];
    return {
      sent,
      fetch: async (input, init = {}) => {
        const url = new URL(String(input));
        const body = init.body == null ? Object.fromEntries(url.searchParams) : JSON.parse(String(init.body));
        sent.push({ method: init.method ?? 'GET', hasText: 'query' in body });
        return await fetch(input, init);
      },
    };
  }

  /** As the GUIDE configures them. */
  const ofGuide = () =>
    runGuide<{ apollo: ApolloLink; urql: ReturnType<typeof persistedExchange> }>(
      'Persisted queries',
      '{ apollo, urql }',
      {
        '@apollo/client/link/persisted-queries': { PersistedQueryLink },
        '@urql/exchange-persisted': { persistedExchange },
      },
    );

  const headers = () => ({ authorization: `Bearer ${client.secret}` });
  const query = (): Json => gql(another('($id: ID!) { node(id: $id) { id } account { name } }'));
  const variables = { id: 'conv_x' };

  const apollo = (link: ApolloLink, persisting: ApolloLink) =>
    new ApolloClient({ cache: new InMemoryCache(), link: ApolloLink.from([persisting, link]) });
  const askApollo = async (by: ApolloClient, document: Json) =>
    (await by.query<Json>({ query: document, variables, fetchPolicy: 'no-cache' })).data;

  test.each([
    ['POST', async () => (await ofGuide()).apollo, ['POST', 'POST', 'POST']],
    ['GET', async () => new PersistedQueryLink({ sha256, useGETForHashedQueries: true }), ['GET', 'POST', 'GET']],
  ])('Apollo sends the text of a document once, by %s', async (_, persisting, methods) => {
    const { sent, fetch } = counting();
    const by = apollo(new HttpLink({ uri: `${server.url}/graphql`, headers: headers(), fetch }), await persisting());
    const document = query();
    for (let times = 0; times < 2; times++) {
      expect(await askApollo(by, document)).toEqual({ node: null, account: { __typename: 'Account', name: 'test' } });
    }
    expect(sent).toEqual(methods.map((method, index) => ({ method, hasText: index === 1 })));
  });

  test('Apollo’s link for sockets, which sends the text and the hash together, is answered at once', async () => {
    const socket = socketClient(server.url, client.secret);
    onTestFinished(() => socket.dispose());
    const document = query();
    const { apollo: persisting } = await ofGuide();
    expect(await askApollo(apollo(new GraphQLWsLink(socket), persisting), document)).toMatchObject({
      account: { name: 'test' },
    });
    const { sent, fetch } = counting();
    const overHttp = apollo(new HttpLink({ uri: `${server.url}/graphql`, headers: headers(), fetch }), persisting);
    expect(await askApollo(overHttp, document)).toMatchObject({ account: { name: 'test' } });
    expect(sent, 'it has been sent by now').toEqual([{ method: 'POST', hasText: false }]);
  });

  const urql = (fetch: typeof globalThis.fetch, persisting: ReturnType<typeof persistedExchange>) => {
    const socket = socketClient(server.url, client.secret);
    onTestFinished(() => socket.dispose());
    return createClient({
      url: `${server.url}/graphql`,
      fetch,
      preferGetMethod: false,
      fetchOptions: { headers: headers() },
      exchanges: [
        persisting,
        fetchExchange,
        subscriptionExchange({
          forwardSubscription: ({ query = '', variables, extensions }) => ({
            subscribe: (sink) => ({
              unsubscribe: socket.subscribe({ query, variables, extensions } as Json, sink as Json),
            }),
          }),
        }),
      ],
    });
  };

  test.each([
    ['POST', async () => persistedExchange({ preferGetForPersistedQueries: false }), ['POST', 'POST', 'POST']],
    ['GET', async () => (await ofGuide()).urql, ['GET', 'GET', 'GET']],
  ])('urql sends the text of a document once, by %s', async (_, persisting, methods) => {
    const { sent, fetch } = counting();
    const by = urql(fetch, await persisting());
    const document = query();
    for (let times = 0; times < 2; times++) {
      const { data, error } = await by.query(document, variables, { requestPolicy: 'network-only' }).toPromise();
      expect(error).toBeUndefined();
      expect(data).toEqual({ node: null, account: { name: 'test' } });
    }
    expect(sent).toEqual(methods.map((method, index) => ({ method, hasText: index === 1 })));
  });

  test('urql sends the text of a mutation and of a subscription once', async () => {
    const { sent, fetch } = counting();
    const by = urql(fetch, persistedExchange({ enableForMutation: true, enableForSubscriptions: true }));
    const started: Json[] = [];
    const subscription = by
      .subscription(gql(`subscription S${++made} { conversationStarted { type } }`) as Json, {})
      .subscribe(({ data, error }) => started.push(error?.message ?? data));
    onTestFinished(() => subscription.unsubscribe());
    const mutation = gql(`mutation M${++made} { createConversation(input: {}) { eventCursor } }`) as Json;
    // The first ones may come before the subscription has begun.
    while (started.length === 0) expect((await by.mutation(mutation, {}).toPromise()).error).toBeUndefined();
    expect(started[0]).toEqual({ conversationStarted: { type: 'CONVERSATION_STARTED' } });
    expect(sent.slice(0, 2).map(({ hasText }) => hasText)).toEqual([false, true]);
    expect(sent.slice(2).filter(({ hasText }) => hasText)).toEqual([]);
  });
});
