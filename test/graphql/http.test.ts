import { ApolloClient, gql, InMemoryCache } from '@apollo/client';
import { BatchHttpLink } from '@apollo/client/link/batch-http';
import { getIntrospectionQuery } from 'graphql';
import { serverAudits } from 'graphql-http';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openWire, requestText } from '../http/wire.ts';
import { clientOf, type Json, type RestResponse } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { leftToYoga } from '../support/yoga.ts';

let server: TestServer;
let client: TestAccount;
let conversation: Json;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  const message = { content: 'Hello', sender: 'visitor' };
  conversation = (await client.rest('POST', '/conversations', { body: { message } })).body;
});
afterAll(() => server.close());

const asGraphQL = { accept: 'application/graphql-response+json' };
const asJson = { accept: 'application/json' };

const send = (query: unknown, variables?: object, headers: Record<string, string> = {}): Promise<RestResponse> =>
  client.post({ query, variables }, { headers });

async function get(parameters: string, headers: Record<string, string> = {}): Promise<RestResponse> {
  const wire = openWire(server.url);
  await wire.send(
    requestText('GET', `/graphql?${parameters}`, {
      headers: { Authorization: `Bearer ${client.secret}`, ...headers, Connection: 'close' },
    }),
  );
  const { status, headers: answered, body } = await wire.response();
  return { status, headers: { ...answered }, body: JSON.parse(body) };
}

const codes = ({ body }: RestResponse): string[] => (body.errors ?? []).map((error: Json) => error.extensions.code);

describe('GraphQL over HTTP passes the audits of graphql-http', () => {
  // The URL is not known yet when the tests are collected.
  const audits = serverAudits({
    url: 'http://service/graphql',
    fetchFn: (url: string, init: RequestInit = {}) => {
      const headers = new Headers(init.headers);
      headers.set('authorization', `Bearer ${client.secret}`);
      return fetch(url.replace('http://service', server.url), { ...init, headers });
    },
  });

  test('the package has audits', () => expect(audits.length).toBeGreaterThan(50));

  test.each(audits)('$id $name', async (audit) => {
    const result = await audit.fn();
    if ('response' in result) await result.response.body?.cancel();
    expect({ status: result.status, reason: 'reason' in result ? result.reason : undefined }).toEqual({ status: 'ok' });
  });
});

test('a subscription without `Accept: text/event-stream` is BAD_REQUEST, which names the header', async () => {
  const others = ['*/*', 'text/event-stream-x', 'x-text/event-stream', 'text/event-stream;charset=latin1'];
  for (const headers of [asJson, asGraphQL, {}, ...others.map((accept) => ({ accept }))]) {
    const response = await client.post({ query: 'subscription { events { id } }' }, { headers });
    expect([response.status, codes(response)]).toEqual([400, ['BAD_REQUEST']]);
    expect(response.body.errors[0].message).toContain('text/event-stream');
  }
  expect(server.app.sessions.size).toBe(0);
});

test('HEAD of a subscription is METHOD_NOT_ALLOWED, and opens no stream', async () => {
  const url = `${server.url}/graphql?query=${encodeURIComponent('subscription { events { id } }')}`;
  for (const accept of ['text/event-stream', '*/*']) {
    const headers = { accept, authorization: `Bearer ${client.secret}` };
    const response = await fetch(url, { method: 'HEAD', headers });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, POST, OPTIONS']);
  }
  expect(server.app.sessions.size).toBe(0);
});

describe('a request that fails as a whole', () => {
  const tokens = `{ ${'__typename '.repeat(2_001)} }`;
  const reports = `{ ${Array.from({ length: 51 }, (_, index) => `r${index}: analytics { openNow { active } }`).join(' ')} }`;
  const failing: [name: string, body: object, code: string][] = [
    ['a syntax error', { query: '{' }, 'BAD_REQUEST'],
    ['an empty document', { query: '' }, 'BAD_REQUEST'],
    ['a document without an operation', { query: 'fragment A on Query { __typename }' }, 'BAD_REQUEST'],
    ['a document of type definitions', { query: 'type A { a: Int }' }, 'BAD_REQUEST'],
    ['an unknown operation name', { query: 'query A { __typename }', operationName: 'B' }, 'BAD_REQUEST'],
    [
      'two operations without a name to choose',
      { query: 'query A { __typename } query B { __typename }' },
      'BAD_REQUEST',
    ],
    ['an unknown field', { query: '{ nothing }' }, 'VALIDATION_FAILED'],
    ['an unknown type', { query: 'query ($a: Nothing) { node(id: $a) { id } }' }, 'VALIDATION_FAILED'],
    ['an unknown argument', { query: '{ account(id: 1) { id } }' }, 'VALIDATION_FAILED'],
    ['an unknown directive', { query: '{ account @nothing { id } }' }, 'VALIDATION_FAILED'],
    ['no selection', { query: '{ account }' }, 'VALIDATION_FAILED'],
    ['a missing argument', { query: '{ conversation { id } }' }, 'VALIDATION_FAILED'],
    [
      'a cycle of fragments',
      { query: '{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }' },
      'VALIDATION_FAILED',
    ],
    [
      'a fragment that spreads itself',
      { query: '{ ...A } fragment A on Query { account { id } ...A }' },
      'VALIDATION_FAILED',
    ],
    ['conflicting fields', { query: '{ a: account { id } a: conversations { totalCount } }' }, 'VALIDATION_FAILED'],
    [
      'introspection that is too deep',
      { query: `{ __schema { types { ${'fields { type { '.repeat(5)} name ${'} }'.repeat(5)} } } }` },
      'VALIDATION_FAILED',
    ],
    [
      'a variable of a wrong type',
      { query: 'query ($n: Int) { conversations(first: $n) { totalCount } }', variables: { n: 'x' } },
      'VALIDATION_FAILED',
    ],
    ['a missing variable', { query: 'query ($id: ID!) { conversation(id: $id) { id } }' }, 'VALIDATION_FAILED'],
    ['too many tokens', { query: tokens }, 'QUERY_TOO_COMPLEX'],
    ['too many reports', { query: reports }, 'QUERY_TOO_COMPLEX'],
    ['an unknown subscription', { query: 'subscription { nothing { id } }' }, 'VALIDATION_FAILED'],
  ];

  test.each(failing)('%s has one error, and the status that the client’s Accept asks for', async (_, body, code) => {
    // Twice, since documents are cached: the errors of a cached one are the same.
    for (const [headers, status] of [
      [asJson, 200],
      [asGraphQL, 400],
      [asJson, 200],
      [asGraphQL, 400],
      [{}, 200],
    ] as const) {
      const response = await client.post(body, { headers });
      expect(response.status).toBe(status);
      expect(response.headers['content-type']).toContain('accept' in headers ? headers.accept : 'application/json');
      expect(codes(response)).toEqual([code]);
      expect(response.body).not.toHaveProperty('data');
      const [error] = response.body.errors;
      expect(error.extensions.requestId).toBe(response.headers['x-request-id']);
      expect(error.message).toMatch(/\w/);
      expect(Object.keys(error).every((key) => ['message', 'locations', 'extensions'].includes(key))).toBe(true);
    }
  });

  const unreadable: [name: string, body: unknown][] = [
    ['no query', {}],
    ['a query of null', { query: null }],
    ['a query that is not a string', { query: 5 }],
    ['an operation name that is not a string', { query: 'query A { __typename }', operationName: 5 }],
    ['variables that are not an object', { query: '{ __typename }', variables: 'x' }],
    ['extensions that are not an object', { query: '{ __typename }', extensions: [] }],
    ['a persisted query of another version', { extensions: { persistedQuery: { version: 2, sha256Hash: 'x' } } }],
    ['a body that is not an object', '5'],
    ['a body that is not JSON', '{'],
    ['an empty batch', '[]'],
  ];
  test.each(unreadable)('%s is BAD_REQUEST with 400 for every client', async (_, body) => {
    for (const headers of [asJson, asGraphQL, {}]) {
      const response = await client.post(body, { headers });
      expect(response.status).toBe(400);
      expect(codes(response)).toEqual(['BAD_REQUEST']);
      expect(response.body.errors[0].extensions.requestId).toBe(response.headers['x-request-id']);
    }
  });

  test('an unknown credential is UNAUTHENTICATED with 401, whatever the client accepts', async () => {
    for (const accept of ['application/json', 'application/graphql-response+json', '*/*', 'image/png']) {
      const headers = { accept, authorization: 'Bearer cs_unknown' };
      const response = await client.post({ query: '{ __typename }' }, { headers });
      expect(response.status).toBe(401);
      expect(response.headers['www-authenticate']).toBe('Bearer');
      expect(codes(response)).toEqual(['UNAUTHENTICATED']);
    }
  });

  test('an unknown subscription field, asked for over SSE, ends with VALIDATION_FAILED', async () => {
    const headers = { accept: 'text/event-stream' };
    const { headers: answered, body } = await client.post({ query: 'subscription { nothing }' }, { headers });
    expect(answered['content-type']).toContain('text/event-stream');
    expect(body).toContain('"code":"VALIDATION_FAILED"');
    expect(body).toMatch(/event: complete/);
  });
});

test('every response has `Cache-Control: no-store`', async () => {
  const query = '{ account { name } }';
  const cached: Json[] = [];
  for (const body of [
    { query },
    { query, extensions: {} },
    [{ query }],
    { query: '{ nothing }' },
    { query: '{' },
    '{',
  ]) {
    cached.push((await client.post(body)).headers['cache-control']);
  }
  cached.push(
    (await client.post({ query }, { headers: { authorization: 'Bearer cs_unknown' } })).headers['cache-control'],
  );
  cached.push((await get(`query=${encodeURIComponent(query)}`)).headers['cache-control']);
  const headers = { authorization: `Bearer ${client.secret}` };
  for (const [method, accept] of [
    ['OPTIONS', '*/*'],
    ['GET', 'text/event-stream'],
  ] as const) {
    const parameters = `?query=${encodeURIComponent('subscription { events { id } }')}`;
    const response = await fetch(`${server.url}/graphql${parameters}`, { method, headers: { ...headers, accept } });
    cached.push(response.headers.get('cache-control'));
    await response.body?.cancel();
  }
  expect(cached).toEqual(cached.map(() => 'no-store'));
});

describe('the header Accept', () => {
  const query = 'mutation { createConversation(input: {}) { conversation { status } } }';
  const answer = { data: { createConversation: { conversation: { status: 'ACTIVE' } } } };

  test.each([
    'image/png',
    'text/plain',
    'application/xml',
    'application/json; charset=latin1',
    ';;;',
    'nonsense',
    'text/html',
  ])('a mutation of a client that accepts only %s is answered in JSON', async (accept) => {
    const { status, headers, body } = await send(query, undefined, { accept });
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
    expect(body).toEqual(answer);
  });

  test.each([
    ['application/graphql-response+json', 'application/graphql-response+json'],
    ['application/json', 'application/json'],
    ['application/graphql-response+json, application/json', 'application/graphql-response+json'],
    [
      'multipart/mixed;deferSpec=20220824, application/graphql-response+json, application/json',
      'application/graphql-response+json',
    ],
  ])('%s is answered with %s', async (accept, type) => {
    const { headers, body } = await send(query, undefined, { accept });
    expect(headers['content-type']).toBe(`${type}; charset=utf-8`);
    expect(body).toEqual(answer);
  });

  // RFC 9110, sections 12.4.2 and 12.5.1
  test.each([
    ['application/json;q=0.1, application/graphql-response+json', 'application/graphql-response+json'],
    ['application/json; Q=0.1 , application/graphql-response+json;q=0.2', 'application/graphql-response+json'],
    ['application/graphql-response+json;q=0, application/json', 'application/json'],
    ['application/graphql-response+json;q=0.000, application/json;q=0.001', 'application/json'],
    ['application/graphql-response+json, application/json;q=0.9', 'application/graphql-response+json'],
    ['application/json;q=0.5, application/graphql-response+json;q=0.5', 'application/json'],
    ['application/json;q=1.0, application/graphql-response+json', 'application/json'],
    ['*/*;q=0.1, application/graphql-response+json;q=0.2', 'application/graphql-response+json'],
    ['*/*, application/json;q=0', 'application/graphql-response+json'],
    ['application/*;q=0, */*, application/graphql-response+json;q=0.1', 'application/graphql-response+json'],
    ['text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8', 'application/json'],
    ['application/json;q=0', 'application/json'],
    ['application/json;q=nonsense, application/graphql-response+json', 'application/json'],
  ])('%s is answered with %s, by its weights', async (accept, type) => {
    const expected = { status: 200, type: `${type}; charset=utf-8` };
    const { status, headers } = await send('{ account { name } }', undefined, { accept });
    expect({ status, type: headers['content-type'] }).toEqual(expected);
    const failed = await send('{ nothing }', undefined, { accept });
    expect({ status: failed.status, type: failed.headers['content-type'] }).toEqual({
      ...expected,
      status: type === 'application/json' ? 200 : 400,
    });
  });

  test.each([
    ['text/html', 'text/html'],
    ['TEXT/HTML;charset=utf-8', 'text/html'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8', 'text/html'],
    ['*/*, text/html', 'text/html'],
    ['text/html, application/json', 'text/html'],
    ['text/html;q=0.2, application/json;q=0.1', 'text/html'],
    ['application/json, text/html;q=0.1', 'application/json'],
    ['application/json, text/html', 'application/json'],
    ['application/*, text/html;q=0.9', 'application/json'],
    ['text/html;q=0.5, application/graphql-response+json', 'application/graphql-response+json'],
    ['text/html;q=0, */*', 'application/json'],
    ['text/html;q=0', 'application/json'],
    ['*/*', 'application/json'],
    ['text/event-stream, text/html;q=0.9', 'text/event-stream'],
  ])('GET with %s is answered with %s: the page only if it is preferred', async (accept, type) => {
    const authorization = `Bearer ${client.secret}`;
    const url = `${server.url}/graphql?query=${encodeURIComponent('{ account { name } }')}`;
    const response = await fetch(url, { headers: { accept, authorization } });
    await response.body?.cancel();
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')?.split(';')[0]).toBe(type);
  });

  test('text/event-stream may be in capitals (RFC 9110, section 8.3.1)', async () => {
    const url = `${server.url}/graphql?query=${encodeURIComponent('subscription { events { id } }')}`;
    for (const accept of ['Text/Event-Stream', 'TEXT/EVENT-STREAM;q=0.9']) {
      const headers = { accept, authorization: `Bearer ${client.secret}` };
      const response = await fetch(url, { headers });
      expect(response.headers.get('content-type')).toContain('text/event-stream');
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const { value = Buffer.of() } = await reader.read();
      expect(value.length).toBeGreaterThan(0);
      expect(Buffer.from(value).toString()).not.toContain('errors');
      await reader.cancel();
    }
  });

  test('text/event-stream with weight 0 starts no stream', async () => {
    const accept = 'application/json, text/event-stream;q=0';
    const response = await send('subscription { events { id } }', undefined, { accept });
    expect([response.status, codes(response)]).toEqual([400, ['BAD_REQUEST']]);
  });
});

describe('GET', () => {
  const encoded = (text: string): string => encodeURIComponent(text);

  test('runs a query with variables and an operation name', async () => {
    const query = encoded('query A { nothing: __typename } query B ($id: ID!) { conversation(id: $id) { status } }');
    const variables = encoded(JSON.stringify({ id: conversation.id }));
    const { status, body } = await get(`query=${query}&variables=${variables}&operationName=B`);
    expect(status).toBe(200);
    expect(body).toEqual({ data: { conversation: { status: 'PENDING' } } });
    expect((await get('query=query+A%20%7B+__typename+%7D&&operationName=A')).body.data).toEqual({
      __typename: 'Query',
    });
  });

  test('with a body is BAD_REQUEST, since the body would be ignored', async () => {
    const headers = { authorization: `Bearer ${client.secret}`, 'content-type': 'application/json' };
    const url = `${server.url}/graphql?query=${encoded('{ __typename }')}`;
    const { statusCode, body } = await request(url, {
      method: 'GET',
      headers,
      body: JSON.stringify({ query: '{ eventCursor }' }),
    });
    const { errors } = (await body.json()) as Json;
    expect([statusCode, errors[0].extensions.code]).toEqual([400, 'BAD_REQUEST']);
  });

  test.each([
    ['a mutation', 'mutation { createConversation(input: {}) { eventCursor } }'],
    [
      'a mutation beside a query',
      'query A { __typename } mutation B { createConversation(input: {}) { eventCursor } }&operationName=B',
    ],
  ])('does not run %s: METHOD_NOT_ALLOWED', async (_, document) => {
    const before = (await client.graphql('{ conversations { totalCount } account { eventCursor } }')).data;
    const [query = '', name] = document.split('&');
    for (const headers of [asJson, asGraphQL]) {
      const response = await get(`query=${encoded(query)}${name === undefined ? '' : `&${name}`}`, headers);
      expect(response.status).toBe(405);
      expect(response.headers['allow']).toBe('POST');
      expect(codes(response)).toEqual(['METHOD_NOT_ALLOWED']);
    }
    expect((await client.graphql('{ conversations { totalCount } account { eventCursor } }')).data).toEqual(before);
  });

  test.each([
    ['no parameters', ''],
    ['an empty query', 'query='],
    ['variables that are not JSON', 'query=%7B__typename%7D&variables=%7B'],
    ['variables that are not an object', 'query=%7B__typename%7D&variables=%5B%5D'],
    ['extensions that are not JSON', 'query=%7B__typename%7D&extensions=x'],
    ['a query that is not UTF-8', 'query=%7Bconversations(externalId:%22%FF%22)%7BtotalCount%7D%7D'],
    ['variables with broken percent-encoding', 'query=%7B__typename%7D&variables=%7B%22a%22:%22100%%22%7D'],
  ])('with %s is BAD_REQUEST', async (_, parameters) => {
    const response = await get(parameters);
    expect(response.status).toBe(400);
    expect(codes(response)).toEqual(['BAD_REQUEST']);
  });

  test.each([
    ['query', 'query=%7B__typename%7D&query=%7Baccount%7Bid%7D%7D'],
    ['variables', 'query=%7B__typename%7D&variables=%7B%7D&variables=%7B%7D'],
    ['operationName', 'operationName=&query=%7B__typename%7D&operationName='],
  ])('with two parameters named %s is VALIDATION_FAILED, as it is over REST', async (parameter, parameters) => {
    const response = await get(parameters);
    expect(response.status).toBe(400);
    expect(codes(response)).toEqual(['VALIDATION_FAILED']);
    expect(response.body.errors[0].extensions.errors).toEqual([
      { pointer: `/${parameter}`, detail: 'is given more than once' },
    ]);
  });
});

describe('what is not known beside the query is passed over', () => {
  test.each([
    ['a property', { query: '{ __typename }', variable: {}, id: 7, operationType: 'query' }],
    ['a property that JavaScript has a meaning for', '{"query":"{ __typename }","__proto__":{"query":5},"toString":1}'],
    ['an extension', { query: '{ __typename }', extensions: { clientLibrary: { name: 'x' } } }],
    ['nulls', { query: '{ __typename }', variables: null, operationName: null, extensions: null }],
    ['an empty operation name', { query: '{ __typename }', operationName: '' }],
  ])('%s', async (_, body) => {
    for (const headers of [{}, leftToYoga()]) {
      expect((await client.post(body, { headers })).body).toEqual({ data: { __typename: 'Query' } });
    }
  });

  test.each([
    ['a parameter', 'variable=%7B%7D'],
    ['a parameter twice', 'variable=1&variable=2'],
    ['__proto__', '__proto__=x'],
    ['a name that is not UTF-8', '%FF=x'],
    ['a value that is not UTF-8', 'variable=%FF'],
    ['an empty operation name', 'operationName='],
  ])('%s of GET', async (_, parameters) => {
    expect((await get(`query=%7B__typename%7D&${parameters}`)).body).toEqual({ data: { __typename: 'Query' } });
  });
});

describe('other media types than JSON', () => {
  test.each([
    [
      'application/x-www-form-urlencoded',
      `query=${encodeURIComponent('mutation { createConversation(input: {}) { eventCursor } }')}`,
    ],
    [
      'multipart/form-data; boundary=x',
      '--x\r\nContent-Disposition: form-data; name="operations"\r\n\r\n{"query":"mutation { createConversation(input: {}) { eventCursor } }"}\r\n--x--\r\n',
    ],
    ['application/graphql', 'mutation { createConversation(input: {}) { eventCursor } }'],
    ['text/plain', '{"query":"mutation { createConversation(input: {}) { eventCursor } }"}'],
  ])('%s is UNSUPPORTED_MEDIA_TYPE, and nothing runs', async (type, body) => {
    const before = (await client.graphql('{ conversations { totalCount } }')).data;
    const response = await client.post(body, { headers: { 'content-type': type } });
    expect(response.status).toBe(415);
    expect(codes(response)).toEqual(['UNSUPPORTED_MEDIA_TYPE']);
    expect((await client.graphql('{ conversations { totalCount } }')).data).toEqual(before);
  });
});

describe('a batch', () => {
  const batch = (count: number): object[] => Array.from({ length: count }, () => ({ query: '{ __typename }' }));

  test('of ten operations is answered in order, and is charged as ten requests', async () => {
    const operations = batch(10).map((_, index) => ({ query: `{ n${index}: __typename }` }));
    const before = Number((await client.rest('GET', '/account')).headers['x-ratelimit-remaining']);
    const { status, headers, body } = await client.post(operations);
    expect(status).toBe(200);
    expect(body).toEqual(operations.map((_, index) => ({ data: { [`n${index}`]: 'Query' } })));
    expect(Number(headers['x-ratelimit-remaining'])).toBe(before - 10);
  });

  const mutation = { query: 'mutation { createConversation(input: {}) { eventCursor } }' };
  const tooLarge = {
    message: 'A batch may hold at most 10 operations.',
    extensions: { code: 'QUERY_TOO_COMPLEX', requestId: expect.any(String) },
  };
  /** What there is, and what is left of the account's requests before this one. */
  const state = async (): Promise<[Json, number]> => {
    const { data, headers } = await client.graphql('{ conversations { totalCount } }');
    return [data, Number(headers['x-ratelimit-remaining'])];
  };

  test.each([11, 100])(
    'of %d is QUERY_TOO_COMPLEX for each operation: nothing of it runs, for one unit',
    async (count) => {
      for (const headers of [asJson, asGraphQL]) {
        const [before, left] = await state();
        const junk = [mutation, null, 7, {}, []];
        const response = await client.post([...batch(count - junk.length), ...junk], { headers });
        expect([response.status, response.body]).toEqual([200, Array(count).fill({ errors: [tooLarge] })]);
        expect(await state()).toEqual([before, left - 2]);
      }
    },
  );

  test.each([101, 1_000])('of %d is QUERY_TOO_COMPLEX as a whole, with 400 for every client', async (count) => {
    for (const headers of [asJson, asGraphQL]) {
      const [before, left] = await state();
      const response = await client.post([...batch(count - 1), mutation], { headers });
      expect([response.status, response.body]).toEqual([400, { errors: [tooLarge] }]);
      expect(await state()).toEqual([before, left - 2]);
    }
  });

  test('of a stock client that is too large fails each of its queries with the reason', async () => {
    const link = new BatchHttpLink({
      uri: `${server.url}/graphql`,
      headers: { authorization: `Bearer ${client.secret}` },
      batchMax: 20,
    });
    const apollo = new ApolloClient({ link, cache: new InMemoryCache() });
    const query = (index: number): Promise<unknown> =>
      apollo.query({ query: gql(`{ n${index}: __typename }`), fetchPolicy: 'no-cache' });
    const asked = (count: number) => Promise.allSettled(Array.from({ length: count }, (_, index) => query(index)));
    expect((await asked(10)).map(({ status }) => status)).toEqual(Array(10).fill('fulfilled'));
    const refused = await asked(11);
    expect(refused.map((result: Json) => result.reason?.errors)).toEqual(Array(11).fill([tooLarge]));
    apollo.stop();
  });

  test('with invalid entries: each has its own error, and the others their results', async () => {
    const junk = [1, null, 'x', true, [], [[]], {}, { query: '{' }, { query: '{ nothing }' }];
    const response = await client.post([{ query: '{ account { name } }' }, ...junk]);
    expect(response.status).toBe(200);
    const [good, ...bad] = response.body;
    expect(good).toEqual({ data: { account: { name: 'test' } } });
    expect(bad.map((one: Json) => one.errors.map((error: Json) => error.extensions.code))).toEqual([
      ...Array.from({ length: 8 }, () => ['BAD_REQUEST']),
      ['VALIDATION_FAILED'],
    ]);
    for (const one of bad) expect(one.errors[0].extensions.requestId).toBe(response.headers['x-request-id']);
  });

  test.each([
    ['that cannot be parsed', { query: '{' }],
    ['that is not in its document', { query: '{ __typename }', operationName: 'A' }],
  ])('with an operation %s: the others have their results', async (_, bad) => {
    for (const headers of [asJson, asGraphQL]) {
      const response = await client.post([bad, ...batch(1)], { headers });
      expect([response.status, response.body]).toEqual([
        200,
        [
          { errors: [expect.objectContaining({ extensions: expect.objectContaining({ code: 'BAD_REQUEST' }) })] },
          { data: { __typename: 'Query' } },
        ],
      ]);
    }
  });

  test('of one is answered as a list of one', async () => {
    expect((await client.post(batch(1))).body).toEqual([{ data: { __typename: 'Query' } }]);
  });

  test('that contains a batch is BAD_REQUEST for that entry', async () => {
    expect((await client.post('[[]]')).body).toEqual([
      { errors: [expect.objectContaining({ extensions: expect.objectContaining({ code: 'BAD_REQUEST' }) })] },
    ]);
  });
});

describe('the size of a query', () => {
  const refused = async (query: string, variables?: object): Promise<void> => {
    const response = await send(query, variables, asGraphQL);
    expect(codes(response)).toEqual(['QUERY_TOO_COMPLEX']);
    expect(response.status).toBe(400);
  };
  const allowed = async (query: string, variables?: object): Promise<void> => {
    const response = await send(query, variables, asGraphQL);
    expect(response.body.errors).toBeUndefined();
    expect(response.status).toBe(200);
  };

  /** Twelve or thirteen levels: a conversation, its messages, their conversation … */
  const round = (inner: string): string => `messages(first: 1) { nodes { conversation { ${inner} } } }`;
  const twelve = round(round(round('messages(first: 1) { totalCount }')));
  const thirteen = round(round(round('messages(first: 1) { nodes { id } }')));
  const wrappings: [name: string, wrap: (inner: string) => string][] = [
    ['as it is', (inner) => `query ($id: ID!) { conversation(id: $id) { ${inner} } }`],
    [
      'with shallow fields around it',
      (inner) => `query ($id: ID!) { before: __typename conversation(id: $id) { id ${inner} status } account { id } }`,
    ],
    ['under an alias', (inner) => `query ($id: ID!) { a: conversation(id: $id) { ${inner} } }`],
    [
      'by inline fragments',
      (inner) =>
        `query ($id: ID!) { ... { ... on Query { conversation(id: $id) { ... on Conversation { ... { ${inner} } } } } } }`,
    ],
    [
      'by fragments',
      (inner) =>
        `query ($id: ID!) { ...A } fragment A on Query { conversation(id: $id) { ...B } } fragment B on Conversation { ...C } fragment C on Conversation { ${inner} }`,
    ],
    ['through an interface', (inner) => `query ($id: ID!) { node(id: $id) { ... on Conversation { ${inner} } } }`],
    ['behind a condition', (inner) => `query ($id: ID!) { conversation(id: $id) @include(if: true) { ${inner} } }`],
  ];

  test.each(wrappings)('twelve levels are allowed, thirteen are not: %s', async (_, wrap) => {
    await allowed(wrap(twelve), { id: conversation.id });
    await refused(wrap(thirteen), { id: conversation.id });
  });

  test('the depth of an operation that is not run does not count', async () => {
    const query = `query A { account { name } } query B { conversation(id: "x") { ${thirteen} } }`;
    expect((await client.post({ query, operationName: 'A' })).body).toEqual({ data: { account: { name: 'test' } } });
    expect(codes(await client.post({ query, operationName: 'B' }))).toEqual(['QUERY_TOO_COMPLEX']);
  });

  test('introspection has its own limit of depth: the standard query with all its options is allowed', async () => {
    await allowed(getIntrospectionQuery());
    await allowed(
      getIntrospectionQuery({
        specifiedByUrl: true,
        directiveIsRepeatable: true,
        schemaDescription: true,
        inputValueDeprecation: true,
        oneOf: true,
      }),
    );
  });

  const page = (first: string, inner: string): string =>
    `conversations(${first}) { nodes { messages(${first}) { nodes { ${inner} } } } }`;
  const aliased = (count: number, field: string): string =>
    Array.from({ length: count }, (_, index) => `a${index}: ${field}`).join(' ');
  const tooMany: [name: string, query: string, variables?: object][] = [
    ['by literal page sizes', `{ ${page('first: 100', 'conversation { messages(first: 100) { nodes { id } } }')} }`],
    [
      'by `last`',
      '{ conversations(first: 100) { nodes { messages(last: 100) { nodes { conversation { messages(last: 100) { nodes { id } } } } } } } }',
    ],
    [
      'through edges',
      '{ conversations(first: 100) { edges { node { messages(first: 100) { edges { node { conversation { messages(first: 100) { edges { cursor } } } } } } } } } }',
    ],
    [
      'by variables',
      `query ($n: Int) { ${page('first: $n', 'conversation { messages(first: $n) { nodes { id } } }')} }`,
      { n: 100 },
    ],
    [
      'by the defaults of variables',
      `query ($n: Int = 100) { ${page('first: $n', 'conversation { messages(first: $n) { nodes { id } } }')} }`,
    ],
    [
      'by the default page size',
      '{ conversations { nodes { messages { nodes { conversation { messages { nodes { conversation { messages { nodes { id } } } } } } } } } } }',
    ],
    [
      'by fragments',
      `{ conversations(first: 100) { nodes { ...A } } } fragment A on Conversation { messages(first: 100) { nodes { conversation { ...B } } } } fragment B on Conversation { messages(first: 100) { nodes { id } } }`,
    ],
    ['by aliases', `{ ${aliased(10, page('first: 100', 'id'))} }`],
    [
      'by a fragment that is spread often',
      `{ ${aliased(10, 'conversations(first: 100) { ...A }')} } fragment A on ConversationConnection { nodes { messages(first: 100) { nodes { id } } } }`,
    ],
    [
      'by a list of ids for `nodes`',
      'query ($ids: [ID!]!) { nodes(ids: $ids) { id } }',
      { ids: Array(11_001).fill('x') },
    ],
    [
      'in a mutation',
      `mutation { createConversation(input: {}) { conversation { messages(first: 100) { nodes { conversation { messages(first: 100) { nodes { conversation { messages(first: 100) { nodes { id } } } } } } } } } } }`,
    ],
  ];
  test.each(tooMany)(
    'a query for more than 11,000 objects by its page sizes is refused: %s',
    async (_, query, variables) => {
      const before = (await client.graphql('{ conversations { totalCount } }')).data;
      await refused(query, variables);
      expect((await client.graphql('{ conversations { totalCount } }')).data).toEqual(before);
    },
  );

  test('a query for fewer objects is allowed', async () => {
    await allowed(`{ ${page('first: 100', 'id content author { id }').replace('100', '50')} }`);
    await allowed(
      `query ($n: Int = 100) { ${page('first: $n', 'conversation { messages(first: $n) { nodes { id } } }')} }`,
      { n: 10 },
    );
    await allowed(`{ ${page('first: 100', 'id sender content createdAt')} }`);
    await allowed(`{ ${aliased(100, 'conversations(first: 100) { nodes { id } }')} }`);
  });

  test('an edge and its node count as one object, and so does a page without its items', async () => {
    const withEdges =
      '{ edges { cursor node { messages(first: 100) { pageInfo { hasNextPage } edges { node { id } } } } } }';
    await allowed(`{ conversations(first: 100) ${withEdges} }`);
    await refused(`{ conversations(first: 100) ${withEdges} ${aliased(5, `conversations(first: 10) ${withEdges}`)} }`);
    await allowed(`{ ${aliased(50, 'conversations(first: 100) { nodes { messages(first: 100) { totalCount } } }')} }`);
  });

  test('2,000 tokens are allowed, 2,001 are not', async () => {
    const names = (count: number): string =>
      Array.from({ length: count }, (_, index) => `a${index}:__typename`).join(' ');
    await allowed(`{ ${names(666)} }`); // two braces and three tokens each
    await refused(`{ ${names(667)} }`);
  });

  // Documents whose cost would multiply with their length if each selection were visited as written.
  const chain = (count: number, link: (index: number) => string): string =>
    Array.from({ length: count }, (_, index) => link(index)).join(' ');
  const bombs: [name: string, query: string][] = [
    [
      'fragments that double under aliases',
      `{ conversations { nodes { ...F0 } } } ${chain(40, (i) => `fragment F${i} on Conversation { a: messages { nodes { conversation { ...F${i + 1} } } } b: messages { nodes { conversation { ...F${i + 1} } } } }`)} fragment F40 on Conversation { id }`,
    ],
    [
      'fragments that double under one name',
      `{ conversations { nodes { ...F0 } } } ${chain(40, (i) => `fragment F${i} on Conversation { messages { nodes { conversation { ...F${i + 1} } } } messages { nodes { conversation { ...F${i + 1} } } } }`)} fragment F40 on Conversation { id }`,
    ],
    ['one field repeated', `{ ${'account { id } '.repeat(490)} }`],
    ['one list repeated', `{ conversations { ${'nodes { id } '.repeat(490)} } }`],
    [
      'introspection that multiplies',
      `{ __schema { types { ${'possibleTypes { interfaces { '.repeat(6)} name ${'} }'.repeat(6)} } } }`,
    ],
    [
      'a deep list',
      `mutation { createConversation(input: {subject: ${'['.repeat(980)}${']'.repeat(980)}}) { eventCursor } }`,
    ],
    ['a deep type', `query ($a: ${'['.repeat(980)}Int${']'.repeat(980)}) { conversations(first: $a) { totalCount } }`],
    ['many variables', `query (${chain(400, (i) => `$v${i}: Int`)}) { __typename }`],
    ['many directives', `{ __typename ${'@skip(if: false) '.repeat(280)} }`],
    ['a long name', `{ ${'a'.repeat(1_000_000)} }`],
    ['a long comment', `{ nothing } #${'a'.repeat(1_000_000)}`],
  ];
  test('fragments that are spread again and again count once', async () => {
    await allowed(
      `{ ...F0 } ${chain(80, (i) => `fragment F${i} on Query { ...F${i + 1} a${i}: account { id } ...F${i + 1} }`)} fragment F80 on Query { account { id } }`,
    );
  });

  test.each(bombs)('a bomb is refused quickly: %s', async (_, query) => {
    const started = performance.now();
    const response = await send(query);
    expect(['QUERY_TOO_COMPLEX', 'VALIDATION_FAILED']).toContain(codes(response)[0]);
    expect(performance.now() - started).toBeLessThan(10_000); // the slowest takes a fiftieth of it
    expect(JSON.stringify(response.body).length).toBeLessThan(200_000);
  });
});

describe('partial results', () => {
  test('a field that is FORBIDDEN is null, and its siblings have their data', async () => {
    const reader = await client.withScopes('conversations:read');
    for (const headers of [asJson, asGraphQL]) {
      const response = await reader.post(
        { query: '{ account { name } apiKeys { totalCount } conversations { totalCount } }' },
        { headers },
      );
      expect(response.status).toBe(200);
      expect(response.body.data).toEqual({
        account: { name: 'test' },
        apiKeys: null,
        conversations: { totalCount: expect.any(Number) },
      });
      expect(response.body.errors).toEqual([
        {
          message: expect.stringContaining('`keys:manage`'),
          path: ['apiKeys'],
          locations: [expect.anything()],
          extensions: { code: 'FORBIDDEN', requestId: response.headers['x-request-id'] },
        },
      ]);
    }
  });

  test('an unknown id is null with NOT_FOUND, and its siblings have their data', async () => {
    const query = `{ found: conversation(id: "${conversation.id}") { id } lost: conversation(id: "conv_x") { id } }`;
    const response = await send(query);
    expect(response.status).toBe(200);
    expect(response.body.data).toEqual({ found: { id: conversation.id }, lost: null });
    expect(response.body.errors).toMatchObject([{ path: ['lost'], extensions: { code: 'NOT_FOUND' } }]);
  });

  test('one of several mutations can fail, and the others are run', async () => {
    const { data, errors } = await client.graphql(`mutation {
      a: createConversation(input: {subject: "a"}) { conversation { subject } }
      b: createConversation(input: {subject: ""  externalId: ""}) { conversation { subject } }
      c: createConversation(input: {subject: "c"}) { conversation { subject } }
    }`);
    expect(data).toEqual({ a: { conversation: { subject: 'a' } }, b: null, c: { conversation: { subject: 'c' } } });
    expect(errors).toMatchObject([
      { path: ['b'], extensions: { code: 'VALIDATION_FAILED', errors: [{ pointer: '/input/externalId' }] } },
    ]);
  });

  test('a nested field that fails is null, and the rest of its object is returned', async () => {
    const { data, errors } = await client.graphql(
      `{ conversation(id: "${conversation.id}") { id good: messages(first: 1) { totalCount } bad: messages(first: 0) { totalCount } } }`,
    );
    expect(data.conversation).toEqual({ id: conversation.id, good: { totalCount: 1 }, bad: null });
    expect(errors).toMatchObject([
      { path: ['conversation', 'bad'], extensions: { code: 'VALIDATION_FAILED', errors: [{ pointer: '/first' }] } },
    ]);
  });
});

describe('error messages use the names of the schema, for', () => {
  const update = (input: string): string =>
    `mutation { updateConversation(input: { id: "${conversation.id}", ${input} }) { eventCursor } }`;
  const messagesFor = async (query: string): Promise<Json> => {
    const [{ message, extensions }] = (await send(query)).body.errors;
    return [message, ...(extensions.errors ?? []).map(({ detail }: Json) => detail)];
  };

  test('a status', async () => {
    const detail = 'must be one of `ACTIVE`, `CLOSED`, `PENDING`';
    expect(await messagesFor(update('status: null'))).toEqual([`\`input/status\` ${detail}.`, detail]);
    const { id } = (await client.rest('POST', '/conversations')).body;
    await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
    const toPending = `mutation { updateConversation(input: { id: "${id}", status: PENDING }) { eventCursor } }`;
    expect(await messagesFor(toPending)).toEqual([expect.stringContaining('`ACTIVE`; it becomes `PENDING`')]);
  });

  test('a field with the name of an enum value', async () => {
    const query =
      'mutation ($visitor: VisitorInput) { createConversation(input: { visitor: $visitor }) { eventCursor } }';
    const { body } = await client.post({ query, variables: { visitor: 'Ada' } });
    expect(body.errors).toMatchObject([{ message: '`input/visitor` must be an object.' }]);
  });

  test('the size of a page', async () => {
    const detail = 'must be between 1 and 100';
    expect(await messagesFor('{ conversations(first: 0) { totalCount } }')).toEqual([`\`first\` ${detail}.`, detail]);
    const messages = `{ conversation(id: "${conversation.id}") { messages(last: 101) { totalCount } } }`;
    expect(await messagesFor(messages)).toEqual([`\`last\` ${detail}.`, detail]);
  });

  test('an argument that the field does not have', async () => {
    const { errors } = (await send('{ leads(last: 5) { totalCount } }')).body;
    expect(errors).toMatchObject([{ extensions: { code: 'VALIDATION_FAILED', errors: [{ pointer: '/last' }] } }]);
  });

  test('the size of a page in a variable', async () => {
    const query = 'query ($size: Int) { conversations(first: $size) { totalCount } }';
    const { errors } = (await client.post({ query, variables: { size: 'ten' } })).body;
    const detail = 'must be an integer of at most 32 bits';
    expect(errors).toMatchObject([
      { message: `\`first\` ${detail}.`, extensions: { errors: [{ pointer: '/first', detail }] } },
    ]);
  });

  const input = 'sender: AGENT, content: "Hi"';
  test.each([
    [
      'the size of a page',
      `query A($n: Int) { conversations(first: $n) { totalCount } }
       query B($n: Int) { leads(offset: $n) { totalCount } }`,
      { n: 'x' },
      ['/offset', '`offset` must be an integer of at most 32 bits.'],
    ],
    [
      'an id',
      `mutation A($id: ID!) { closeConversation(input: { id: $id }) { eventCursor } }
       mutation B($id: ID!) { ...Sent }
       fragment Sent on Mutation { sendMessage(input: { conversationId: $id, ${input} }) { eventCursor } }`,
      {},
      ['/input/conversationId', '`input/conversationId` is required.'],
    ],
  ])('a variable of the operation that is run, which is %s in another one', async (_, query, variables, expected) => {
    const { errors } = (await client.post({ query, variables, operationName: 'B' })).body;
    expect([errors[0].extensions.errors[0].pointer, errors[0].message]).toEqual(expected);
  });

  test('the sort of a cursor', async () => {
    const { data } = await client.graphql('{ conversations(first: 1, sort: CREATED_AT_ASC) { edges { cursor } } }');
    const [{ cursor }] = data.conversations.edges;
    const detail = 'is a cursor of the sort `CREATED_AT_ASC`, not of `LAST_ACTIVITY_AT_DESC`';
    expect(
      await messagesFor(`{ conversations(after: "${cursor}", sort: LAST_ACTIVITY_AT_DESC) { totalCount } }`),
    ).toEqual([`\`after\` ${detail}.`, detail]);
  });

  test('the sender that a token is bound to', async () => {
    const body = { scopes: ['conversations:write'], sender: 'visitor' };
    const { token } = (await client.rest('POST', '/tokens', { body })).body;
    const input = `{ conversationId: "${conversation.id}", sender: AGENT, content: "Hi" }`;
    const query = `mutation { sendMessage(input: ${input}) { eventCursor } }`;
    const { errors } = (await clientOf(server.url, token).post({ query })).body;
    expect(errors).toMatchObject([{ message: 'This token may send only as `VISITOR`.' }]);
  });

  test('a time that is not a string', async () => {
    const [message, detail] = await messagesFor('{ conversations(createdAfter: 5) { totalCount } }');
    expect(message).toContain('DateTime');
    expect(detail).toContain('must be a string');
  });

  test('an unknown argument', async () => {
    const { errors } = (await send('{ conversations(statu: ACTIVE) { totalCount } }')).body;
    expect(errors).toMatchObject([
      { extensions: { errors: [{ pointer: '/statu', detail: expect.stringContaining('"status"') }] } },
    ]);
  });
});

describe('node and nodes', () => {
  const strangers = async (): Promise<string[]> => {
    const other = await server.account();
    const foreign = (
      await other.rest('POST', '/conversations', { body: { message: { content: 'x', sender: 'agent' } } })
    ).body;
    const key = (await other.rest('GET', '/api-keys')).body.data[0];
    const event = (await client.rest('GET', '/events')).body.data[0];
    return [
      '',
      'x',
      'conv_x',
      'conv_01m7yzcf3tfz1aan3df712nas7',
      conversation.id.toUpperCase(),
      `${conversation.id}\0`,
      'x'.repeat(10_000),
      Buffer.from(`Conversation:${conversation.id}`).toString('base64'),
      foreign.id,
      foreign.messages[0].id,
      key.id,
      other.account.id,
      event.id,
    ];
  };

  test('find objects by their ids alone', async () => {
    const [{ id: messageId }] = conversation.messages;
    const { data, errors } = await client.graphql(
      'query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id ... on Conversation { status } ... on Message { content } } }',
      { ids: [messageId, conversation.id, messageId] },
    );
    expect(errors).toBeUndefined();
    const message = { __typename: 'Message', id: messageId, content: 'Hello' };
    expect(data.nodes).toEqual([
      message,
      { __typename: 'Conversation', id: conversation.id, status: 'PENDING' },
      message,
    ]);
  });

  test('are null, without an error, for ids that are unknown, of another account, of a type that is not a node, or invalid', async () => {
    const ids = await strangers();
    const { data, errors } = await client.graphql('query ($ids: [ID!]!) { nodes(ids: $ids) { id } }', { ids });
    expect(errors).toBeUndefined();
    expect(data.nodes).toEqual(ids.map(() => null));
    for (const id of ids) {
      expect(
        (await client.post({ query: 'query ($id: ID!) { node(id: $id) { id } }', variables: { id } })).body,
      ).toEqual({ data: { node: null } });
    }
  });

  test('return the other objects even if some ids are unknown', async () => {
    const ids = (await strangers()).flatMap((id) => [id, conversation.id]);
    const { data } = await client.graphql('query ($ids: [ID!]!) { nodes(ids: $ids) { id } }', { ids });
    expect(data.nodes).toEqual(ids.map((id) => (id === conversation.id ? { id } : null)));
  });

  test('accept at most a hundred ids', async () => {
    const query = 'query ($ids: [ID!]!) { nodes(ids: $ids) { id } account { name } }';
    expect((await client.graphql(query, { ids: Array(100).fill('x') })).data.nodes).toHaveLength(100);
    const { data, errors } = await client.graphql(query, { ids: Array(101).fill('x') });
    expect(data).toEqual({ nodes: null, account: { name: 'test' } });
    expect(errors).toMatchObject([
      { path: ['nodes'], extensions: { code: 'VALIDATION_FAILED', errors: [{ pointer: '/ids' }] } },
    ]);
  });
});

describe('an unexpected error', () => {
  let broken: TestServer;
  let owner: TestAccount;
  let id: string;

  beforeAll(async () => {
    broken = await startTestServer();
    owner = await broken.account();
    ({ id } = (
      await owner.rest('POST', '/conversations', { body: { message: { content: 'x', sender: 'agent' } } })
    ).body);
    // A column of messages is missing, so every read of them fails.
    await broken.query('ALTER TABLE messages RENAME COLUMN metadata TO elsewhere');
  });
  afterAll(() => broken.close());

  const inside = /elsewhere|no such|messages\b(?! )|sqlite|select|\.ts\b|node_modules|\n\s+at /i;

  test('is INTERNAL in GraphQL beside the data of other fields, and does not reveal its cause', async () => {
    const query = `{ conversation(id: "${id}") { id messages { nodes { id } } } account { name } }`;
    const { status, headers, body } = await owner.post({ query });
    expect(status).toBe(200);
    expect(body.data).toEqual({ conversation: { id, messages: null }, account: { name: 'test' } });
    expect(body.errors).toHaveLength(1);
    const [{ message, path, extensions }] = body.errors;
    expect(extensions).toEqual({ code: 'INTERNAL', requestId: headers['x-request-id'] });
    expect(path).toEqual(['conversation', 'messages']);
    expect(message).not.toMatch(inside);
  });

  test('is INTERNAL in REST, and does not reveal its cause', async () => {
    const { status, headers, body } = await owner.rest('GET', `/conversations/${id}`);
    expect(status).toBe(500);
    expect(body).toMatchObject({ code: 'INTERNAL', requestId: headers['x-request-id'] });
    expect(body.detail).not.toMatch(inside);
  });

  test('is logged with the request id', async () => {
    for (const answer of [
      await owner.rest('GET', `/conversations/${id}`),
      await owner.post({ query: `{ conversation(id: "${id}") { messages { nodes { id } } } }` }),
    ]) {
      const line = broken.logLines.find(
        ({ level, requestId }) => level === 'error' && requestId === answer.headers['x-request-id'],
      );
      expect(JSON.stringify(line)).toMatch(/no such column|column .* does not exist/);
    }
  });
});

test('none of the other requests was logged as a server error', () => {
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});
