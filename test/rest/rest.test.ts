import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { type ErrorCode, errorCodes } from '../../src/domain/errors.ts';
import { inputReader } from '../../src/rest/input.ts';
import { type Route, routes } from '../../src/rest/routes.ts';
import { openWire, requestText } from '../http/wire.ts';
import { type Client, clientOf, type Json, type RestResponse } from '../support/client.ts';
import { cpuMsOf } from '../support/cpu-time.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: TestAccount;
let anonymous: Client;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  anonymous = clientOf(server.url);
});
afterAll(() => server.close());
// Failed authentications are limited by the minute, and these tests fail a lot of them.
beforeEach(() => server.clock.advance(61_000));

/** A request to a path that is written as it is: `/v1` is not put before it, and nothing is normalised. */
async function at(method: string, target: string, headers: Record<string, string> = {}): Promise<RestResponse> {
  const wire = openWire(server.url);
  await wire.send(requestText(method, target, { headers: { ...headers, Connection: 'close' } }));
  const { status, headers: answered, body } = await wire.response(method === 'HEAD');
  const isJson = /json/.test(answered['content-type'] ?? '') && body !== '';
  return { status, headers: { ...answered }, body: isJson ? JSON.parse(body) : body };
}

const authorized = (): Record<string, string> => ({ Authorization: `Bearer ${client.secret}` });

async function newConversation(body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/conversations', { body })).body;
}

/** Every parameter that takes a list, with two of its values. */
const listParameters = routes
  .filter(({ body }) => body === 'none')
  .flatMap(({ path, operation }) => {
    const { properties = {} } = z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' });
    return Object.entries(properties as Record<string, Json>)
      .filter(([, { type }]) => type === 'array')
      .map(([name, { items }]) => ({ path, name, values: items.enum?.slice(0, 2) ?? ['urgent', 'b & c'] }));
  });

test.each(listParameters)('$path takes $name repeated, or with commas, or both', async ({ path, name, values }) => {
  const target = `/v1${path}${path === '/search' ? '?q=parcel&' : '?'}`;
  const [one = '', two = ''] = values.map(encodeURIComponent);
  const written = [`${name}=${one},${two}`, `${name}=${one}&${name}=${two}`, `${name}=${one},${two}&${name}=${one}`];
  const statusOf = async (query: string): Promise<number> => {
    const { status, body } = await fetch(`${server.url}${target}${query}`, { headers: authorized() });
    await body?.cancel(); // it may be a stream
    return status;
  };
  expect(await Promise.all(written.map(statusOf))).toEqual([200, 200, 200]);
  const wrong = [`${name}=${one},,${two}`, `${name}=${one}&${name}=&${name}=${two}`];
  expect(await Promise.all(wrong.map(statusOf))).toEqual([400, 400]);
});

test('the parameters that take a list are those of the contract', () => {
  expect(new Set(listParameters.map(({ name }) => name))).toEqual(new Set(['status', 'tags', 'types']));
});

test('a list that is given as many parameters costs by their number, not by its square', () => {
  const route = routes.find(({ method, path }) => method === 'GET' && path === '/conversations') as Route;
  const readInput = inputReader(route);
  const read = (count: number) => void readInput({}, 'tags=a&'.repeat(count), undefined);
  const apartMs = cpuMsOf(() => {
    for (let times = 0; times < 10; times++) read(5_000);
  });
  expect(cpuMsOf(() => read(50_000))).toBeLessThan(3 * apartMs); // by the square it would be ten times as much
});

describe('every response carries a request id', () => {
  const json = { 'content-type': 'application/json' };
  const responses: [
    name: string,
    expected: number,
    send: (headers: Record<string, string>) => Promise<RestResponse>,
  ][] = [
    ['an answer', 200, (headers) => client.rest('GET', '/account', { headers })],
    ['an answer to HEAD', 200, (headers) => client.rest('HEAD', '/account', { headers })],
    ['something created', 201, (headers) => client.rest('POST', '/conversations', { headers })],
    [
      'no content',
      204,
      async (headers) => {
        const { body } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
        return client.rest('DELETE', `/api-keys/${body.id}`, { headers });
      },
    ],
    ['OPTIONS', 204, (headers) => client.rest('OPTIONS', '/account', { headers })],
    [
      'a preflight',
      204,
      (headers) =>
        anonymous.rest('OPTIONS', '/account', {
          headers: { ...headers, origin: 'https://shop.example', 'access-control-request-method': 'GET' },
        }),
    ],
    ['no credential', 401, (headers) => anonymous.rest('GET', '/account', { headers })],
    ['an unknown path in the API', 404, (headers) => client.rest('GET', '/nothing', { headers })],
    ['an unknown path outside of it', 404, (headers) => at('GET', '/nothing', headers)],
    ['a wrong method', 405, (headers) => client.rest('PUT', '/account', { headers })],
    ['a wrong method outside of the API', 405, (headers) => at('DELETE', '/', headers)],
    ['a body that is not JSON', 400, (headers) => client.rest('POST', '/conversations', { headers, body: '{' })],
    [
      'a wrong media type',
      415,
      (headers) =>
        client.rest('POST', '/conversations', { headers: { ...headers, 'content-type': 'text/plain' }, body: 'x' }),
    ],
    ['the page at the root', 200, (headers) => at('GET', '/', headers)],
    ['the page of GraphQL', 200, (headers) => at('GET', '/graphql', { ...headers, accept: 'text/html' })],
    ['GraphQL', 200, (headers) => client.post({ query: '{ __typename }' }, { headers })],
    ['GraphQL that cannot be parsed', 200, (headers) => client.post({ query: '{' }, { headers })],
    ['GraphQL that cannot be read', 400, (headers) => client.post('{', { headers: { ...headers, ...json } })],
    ['GraphQL without a credential', 401, (headers) => anonymous.post({ query: '{ __typename }' }, { headers })],
    [
      'GraphQL of a wrong media type',
      415,
      (headers) => client.post('query=1', { headers: { ...headers, 'content-type': 'text/plain' } }),
    ],
  ];

  test.each(responses)('the caller’s own: %s', async (_, expected, send) => {
    const response = await send({ 'x-request-id': 'mine-42' });
    expect(response.status).toBe(expected);
    expect(response.headers['x-request-id']).toBe('mine-42');
    expect(response.headers['x-content-type-options']).toBe('nosniff');
    const named = response.body.requestId ?? response.body.errors?.[0].extensions.requestId;
    if (response.status >= 400) expect(named).toBe('mine-42');
  });

  test.each(responses)('a new one, without the caller’s: %s', async (_, expected, send) => {
    const response = await send({});
    expect(response.status).toBe(expected);
    expect(response.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    const named = response.body.requestId ?? response.body.errors?.[0].extensions.requestId;
    if (response.status >= 400) expect(named).toBe(response.headers['x-request-id']);
  });

  const visible = String.fromCharCode(...Array.from({ length: 94 }, (_, index) => 0x21 + index));
  test.each([
    ['one character', 'a', true],
    ['128 characters', 'x'.repeat(128), true],
    ['every visible ASCII character', visible, true],
    ['none', '', false],
    ['129 characters', 'x'.repeat(129), false],
    ['a space within', 'a b', false],
    ['a tab within', 'a\tb', false],
    ['a letter beyond ASCII', 'caf\u00e9', false],
    ['one of two', 'a\r\nX-Request-Id: b', false],
  ])('is the caller’s or not: %s', async (_, id, taken) => {
    const { headers } = await at('GET', '/nothing', { 'X-Request-Id': id });
    if (taken) expect(headers['x-request-id']).toBe(id);
    else expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('every error is a problem of RFC 9457', () => {
  interface Refused {
    readonly code: ErrorCode;
    readonly send: () => Promise<RestResponse>;
    readonly headers?: Record<string, string>;
    readonly errors?: object[];
  }

  const refused: Refused[] = [
    {
      code: 'UNAUTHENTICATED',
      send: () => anonymous.rest('GET', '/account'),
      headers: { 'www-authenticate': 'Bearer' },
    },
    { code: 'FORBIDDEN', send: async () => (await client.withScopes('leads:read')).rest('GET', '/conversations') },
    {
      code: 'FORBIDDEN',
      send: () => client.rest('GET', '/account', { headers: { origin: 'https://shop.example' } }),
    },
    { code: 'NOT_FOUND', send: () => client.rest('GET', '/conversations/conv_x') },
    { code: 'NOT_FOUND', send: () => client.rest('GET', '/nothing') },
    {
      code: 'METHOD_NOT_ALLOWED',
      send: () => client.rest('PUT', '/account'),
      headers: { allow: 'GET, HEAD, OPTIONS' },
    },
    { code: 'BAD_REQUEST', send: () => client.rest('POST', '/conversations', { body: '[]' }) },
    {
      code: 'VALIDATION_FAILED',
      send: () => client.rest('POST', '/conversations', { body: { 'sub/ject~': 1, message: { sender: 'agent' } } }),
      errors: [
        { pointer: '/message/content', detail: 'is required' },
        { pointer: '/sub~1ject~0', detail: 'is not a known field' },
      ],
    },
    {
      code: 'VALIDATION_FAILED',
      send: () => client.rest('GET', '/conversations?limit=0&colour=red'),
      errors: [
        { parameter: 'colour', detail: 'is not a parameter of this request' },
        { parameter: 'limit', detail: 'must be between 1 and 100' },
      ],
    },
    {
      code: 'VALIDATION_FAILED',
      send: () => client.rest('GET', '/search?q=%FF'), // it is given, so it is not also missing
      errors: [{ parameter: 'q', detail: 'is not percent-encoded UTF-8' }],
    },
    {
      code: 'VALIDATION_FAILED',
      send: () => client.rest('GET', `/conversations?${Array.from({ length: 150 }, (_, n) => `x${n}=`).join('&')}`),
      errors: Array.from({ length: 100 }, (_, n) => ({
        parameter: `x${n}`,
        detail: 'is not a parameter of this request',
      })),
    },
    {
      code: 'UNSUPPORTED_MEDIA_TYPE',
      send: () => client.rest('POST', '/conversations', { body: '{}', headers: { 'content-type': 'text/plain' } }),
    },
    {
      code: 'PAYLOAD_TOO_LARGE',
      send: () => client.rest('POST', '/conversations', { body: ' '.repeat(1024 * 1024 + 1) }),
      headers: { connection: 'close' },
    },
    {
      code: 'CONVERSATION_CLOSED',
      async send() {
        const { id } = await newConversation();
        await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
        return client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'x', sender: 'agent' } });
      },
    },
    {
      code: 'INVALID_TRANSITION',
      async send() {
        const { id } = await newConversation();
        await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
        return client.rest('PATCH', `/conversations/${id}`, { body: { status: 'pending' } });
      },
    },
    {
      code: 'ALREADY_EXISTS',
      async send() {
        await newConversation({ externalId: 'twice' });
        return client.rest('POST', '/conversations', { body: { externalId: 'twice' } });
      },
    },
    {
      code: 'RATE_LIMITED',
      async send() {
        const small = await server.account({ requestsPerHour: 1 });
        await small.rest('GET', '/account');
        return small.rest('GET', '/account');
      },
      headers: { 'retry-after': expect.stringMatching(/^\d+$/) },
    },
  ];

  test.each(refused)('$code', async ({ code, send, headers = {}, errors }) => {
    const response = await send();
    const { status, title } = errorCodes[code];
    expect(response.status).toBe(status);
    expect(response.headers).toMatchObject({
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    });
    expect(response.body).toEqual({
      type: expect.stringMatching(new RegExp(`^[a-z]+:.*${code}$`)),
      title,
      ...(code === 'RATE_LIMITED' ? { limit: 'account' } : {}),
      status,
      detail: expect.stringMatching(/^[A-Z`].+\.$/s),
      instance: expect.stringMatching(/^\/v1\//),
      code,
      requestId: response.headers['x-request-id'],
      ...(errors && { errors: expect.arrayContaining(errors) }),
    });
    if (errors !== undefined) expect(response.body.errors).toHaveLength(errors.length);
  });

  test('a field of a name that every object of JavaScript has is unknown like any other', async () => {
    const names = ['constructor', 'toString', '__proto__', 'hasOwnProperty'];
    const body = `{${names.map((name) => `"${name}":1`).join()}}`;
    const { body: problem } = await client.rest('POST', '/conversations', { body });
    const expected = names.map((name) => ({ pointer: `/${name}`, detail: 'is not a known field' }));
    expect(problem.errors).toEqual(expected);
  });

  test('the instance is the path, without the query, which may hold what nobody should read', async () => {
    const { body } = await client.rest('GET', '/conversations/conv_x?secret=1');
    expect(body.instance).toBe('/v1/conversations/conv_x');
  });
});

test('the Location of a new conversation leads to it', async () => {
  const { headers, body } = await client.rest('POST', '/conversations', { body: { subject: 'Parcel' } });
  const found = await at('GET', headers['location'] ?? '', authorized());
  expect(found.body).toEqual(body);
});

test('links lead under the path of the public address, where a proxy has taken it away', async () => {
  const behind = await startTestServer({ config: { publicUrl: 'https://shop.example/chat/' } });
  onTestFinished(() => behind.close());
  const caller = await behind.account();
  const { headers, body } = await caller.rest('POST', '/conversations');
  expect(headers['location']).toBe(`/chat/v1/conversations/${body.id}`);
  await caller.rest('POST', '/conversations');
  const list = await caller.rest('GET', '/conversations?limit=1');
  expect(list.headers['link']).toMatch(/^<\/chat\/v1\/conversations\?limit=1&after=[\w-]+>; rel="next"$/);
  const pages = ['/chat/console', '/chat/docs', '/chat/graphql', '/chat/openapi.json'];
  for (const [path, expected] of [
    ['', pages], // which may be asked for without the slash at its end
    ['/', pages],
    ['/docs', ['/chat/', '/chat/openapi.json', '/chat/graphql', '/chat/console']],
    ['/console', []],
  ] as const) {
    const page = await (await fetch(behind.url + path)).text();
    const links = [...page.matchAll(/href="([^"#]+)"/g)].map(
      ([, link]) => new URL(String(link), `https://shop.example/chat${path}`).pathname,
    );
    expect(links.filter((link) => !link.startsWith('/chat/assets/'))).toEqual(['/chat/favicon.svg', ...expected]);
  }
});

describe('a list can be walked by its Link headers', () => {
  let owner: TestAccount;
  let conversationId: string;

  beforeAll(async () => {
    owner = await server.account();
    for (let index = 0; index < 23; index++) {
      // Some of the same moment, so that ties have to be told apart.
      if (index % 3 === 0) server.clock.advance(1_000);
      const { body } = await owner.rest('POST', '/conversations', {
        body: { status: index % 4 === 0 ? 'pending' : 'active', externalId: `order-${index}` },
      });
      conversationId ??= body.id;
    }
    for (let index = 0; index < 11; index++) {
      const body = { content: `message ${index}`, sender: 'agent' };
      await owner.rest('POST', `/conversations/${conversationId}/messages`, { body });
    }
    for (let index = 0; index < 9; index++) {
      await owner.rest('POST', '/api-keys', { body: { name: `key ${index}`, scopes: ['leads:read'] } });
    }
  });

  async function walk(path: string): Promise<{ ids: string[]; pages: string[] }> {
    const ids: string[] = [];
    const pages: string[] = [];
    for (let next: string | undefined = path; next !== undefined; ) {
      pages.push(next);
      const { status, headers, body }: RestResponse = await owner.rest('GET', next);
      expect(status).toBe(200);
      ids.push(...body.data.map((item: Json) => item.id));
      const link = /^<\/v1(.*)>; rel="next"$/.exec(headers['link'] ?? '')?.[1];
      expect(link === undefined).toBe(body.pagination.nextCursor === null);
      expect(body.pagination.hasMore).toBe(link !== undefined);
      next = link;
    }
    return { ids, pages };
  }

  async function walkByOffset(path: string, limit: number): Promise<string[]> {
    const ids: string[] = [];
    for (;;) {
      const { body } = await owner.rest('GET', `${path}&offset=${ids.length}&limit=${limit}`);
      ids.push(...body.data.map((item: Json) => item.id));
      if (!body.pagination.hasMore) {
        expect(ids).toHaveLength(body.pagination.total);
        return ids;
      }
    }
  }

  const lists = [
    '/conversations?',
    ...['createdAt', '-createdAt', 'lastActivityAt', '-lastActivityAt'].flatMap((sort) => [
      `/conversations?sort=${sort}`,
      `/conversations?status=active&sort=${sort}`,
      `/conversations?sort=${sort}&status=pending&createdAfter=2026-11-21T06%3A12%3A00.000Z`,
    ]),
    '/conversations/:id/messages?',
    '/conversations/:id/messages?sort=-sequence',
    '/api-keys?',
  ];

  test.each(lists)('%s', async (list) => {
    const path = list.replace(':id', conversationId);
    const { ids, pages } = await walk(`${path}&limit=4`);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(4);
    expect(ids).toEqual(await walkByOffset(path, 7));
    // Each page asks for the same list: nothing but the cursor is another.
    const parameters = (page: string) => new URLSearchParams(page.slice(page.indexOf('?') + 1));
    const [first = '', ...others] = pages;
    for (const page of others) {
      expect(parameters(page).has('after')).toBe(true);
      const expected = parameters(first);
      expected.set('after', parameters(page).get('after') ?? '');
      expected.sort();
      const given = parameters(page);
      given.sort();
      expect(given.toString()).toBe(expected.toString());
    }
  });

  test('which go on from an offset, too', async () => {
    const all = (await walk('/conversations?limit=100')).ids;
    const { ids, pages } = await walk('/conversations?limit=6&offset=5');
    expect(ids).toEqual(all.slice(5));
    expect(pages[1]).not.toContain('offset');
  });
});

describe('methods', () => {
  /** Each path of the API with the methods that it knows, made real by ids that exist. */
  const methodsByPath = new Map<string, string[]>();
  for (const { method, path, streams } of routes) {
    const methods = methodsByPath.get(path) ?? [];
    methods.push(method, ...(method === 'GET' && !streams ? ['HEAD'] : []));
    methodsByPath.set(path, methods);
  }
  const paths = [...methodsByPath].map(([path, methods]) => ({ path, allow: [...methods, 'OPTIONS'] }));
  let conversationId: string;

  beforeAll(async () => {
    ({ id: conversationId } = await newConversation({ message: { content: 'Hello – ça va?', sender: 'visitor' } }));
    await newConversation();
  });

  const real = (path: string): string => path.replace(/:\w+/, conversationId);

  /** The headers that are of one response only. */
  function lasting({ headers }: RestResponse): Record<string, string> {
    const ofOne = /^(date|x-request-id|keep-alive|connection|ratelimit.*|x-ratelimit.*)$/;
    return Object.fromEntries(Object.entries(headers).filter(([name]) => !ofOne.test(name)));
  }

  const readable = [
    ...paths.filter(({ allow }) => allow.includes('HEAD')).map(({ path }) => `/v1${path}`),
    '/v1/conversations?limit=1', // has a Link
    '/',
    '/v1/conversations/conv_x',
    '/v1/nothing',
    '/nothing',
  ];
  test.each(readable)('HEAD %s answers the headers of GET, and no body', async (target) => {
    const path = real(target);
    const got = await at('GET', path, authorized());
    // A GET behind it on the same connection would trip over a body that is not announced.
    const wire = openWire(server.url);
    await wire.send(requestText('HEAD', path, { headers: authorized() }));
    await wire.send(requestText('GET', path, { headers: { ...authorized(), Connection: 'close' } }));
    const head = await wire.response(true);
    expect(head.status).toBe(got.status);
    // What is left of the budget has a length of its own, and is in the account's answer.
    const headers = lasting({ ...head, headers: { ...head.headers } });
    expect(headers).toEqual(lasting(got));
    expect(Number(headers['content-length'])).toBeGreaterThan(0);
    expect((await wire.response()).status).toBe(got.status);
  });

  test.each(paths)('OPTIONS $path answers 204 and what is allowed', async ({ path, allow }) => {
    const response = await client.rest('OPTIONS', real(path));
    expect(response.status).toBe(204);
    expect(response.headers['allow']).toBe(allow.join(', '));
    expect(response.body).toBe('');
  });

  test.each(paths)('OPTIONS $path needs a credential, unless it is a preflight', async ({ path }) => {
    expect((await anonymous.rest('OPTIONS', real(path))).status).toBe(401);
    // Half of a preflight is none.
    expect((await anonymous.rest('OPTIONS', real(path), { headers: { origin: 'https://a.example' } })).status).toBe(
      401,
    );
    const preflight = await anonymous.rest('OPTIONS', real(path), {
      headers: { origin: 'https://shop.example', 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers).toMatchObject({ vary: 'Origin' });
    expect(Object.keys(preflight.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });

  const verbs = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'QUERY'];
  const wrong = paths.flatMap(({ path, allow }) =>
    verbs.filter((verb) => !allow.includes(verb)).map((verb) => ({ verb, path, allow })),
  );
  test.each(wrong)('$verb $path is not allowed', async ({ verb, path, allow }) => {
    const response = await at(verb, `/v1${real(path)}`, authorized());
    expect(response.status).toBe(405);
    expect(response.headers['allow']).toBe(allow.join(', '));
    if (verb !== 'HEAD') expect(response.body.code).toBe('METHOD_NOT_ALLOWED');
  });

  test('GraphQL knows GET, HEAD, POST and OPTIONS', async () => {
    for (const verb of verbs.filter((each) => !['GET', 'HEAD', 'POST'].includes(each))) {
      const response = await at(verb, '/graphql', authorized());
      expect(response.status).toBe(405);
      expect(response.headers['allow']).toBe('GET, HEAD, POST, OPTIONS');
      expect(response.body.errors[0].extensions.code).toBe('METHOD_NOT_ALLOWED');
    }
    const options = await at('OPTIONS', '/graphql', authorized());
    expect(options.status).toBe(204);
    expect(options.headers['allow']).toBe('GET, HEAD, POST, OPTIONS');
    const query = await at('HEAD', `/graphql?query=${encodeURIComponent('{ account { id } }')}`, authorized());
    expect([query.status, query.body]).toEqual([200, '']);
    const mutation = 'mutation { createConversation(input: {}) { eventCursor } }';
    const changing = await at('HEAD', `/graphql?query=${encodeURIComponent(mutation)}`, authorized());
    expect(changing.status).toBe(405);
    expect((await at('OPTIONS', '/graphql')).status).toBe(401);
    const preflight = { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'POST' };
    expect((await at('OPTIONS', '/graphql', preflight)).status).toBe(204);
  });
});

describe('paths', () => {
  const unknown = [
    '/v1',
    '/v1/',
    '/v1/nothing',
    '/v1/__proto__',
    '/v1/constructor',
    '/v1//account',
    '/v1/account/',
    '/v1/account/more',
    '/v1/Account',
    '/v1/account%20',
    '/v1/acc%6Funt',
    '/v1/account;a=b',
    '/v1/account#fragment',
    '/v1/conversations/',
    '/v1/conversations//',
    '/v1/conversations//messages',
    '/v1/conversations/../account',
    '/v1/./account',
    '/v1/conversations/%2e%2e/account',
    '/v1/conversations/conv_x/messages/',
    '/v1/conversations/conv_x/messages/msg_x',
    `/v1/${'a/'.repeat(5_000)}b`,
  ];
  test.each(unknown.map((target) => [target.slice(0, 60), target]))(
    '%s is NOT_FOUND, once it is known who asks',
    async (_, target = '') => {
      const response = await at('GET', target, authorized());
      expect(response.status).toBe(404);
      expect(response.body.code).toBe('NOT_FOUND');
      expect((await at('GET', target)).status).toBe(401);
    },
  );

  test.each(['/nothing', '//', '//v1/account', '/V1/account', '/v2/account', '/graphql/', '/graphql%00', '/v1x'])(
    '%s, outside of the API, is NOT_FOUND for everybody',
    async (target) => {
      for (const headers of [{}, authorized()]) {
        const response = await at('GET', target, headers);
        expect(response.status).toBe(404);
        expect(response.body.code).toBe('NOT_FOUND');
      }
    },
  );

  const malformed = [
    '%',
    '%zz',
    '%00',
    '%2F',
    '%2e%2e',
    '%C3',
    '%ED%A0%80',
    '%F0%9F%93%A6',
    '+',
    '*',
    'null',
    'undefined',
    '__proto__',
    'constructor',
    '0',
    '-1',
    'conv_',
    'conv_01m7yzcf3tfz1aan3df712nas',
    'conv_81m7yzcf3tfz1aan3df712nas7',
    "conv_x'%20OR%201=1--",
    'a'.repeat(10_000),
  ];
  test.each(malformed.map((id) => [id.slice(0, 60), id]))(
    'an id %s is NOT_FOUND wherever one is taken',
    async (_, id = '') => {
      const body = '{"content":"x","sender":"agent"}';
      const answers = [
        await at('GET', `/v1/conversations/${id}`, authorized()),
        await at('GET', `/v1/conversations/${id}/messages`, authorized()),
        await at('DELETE', `/v1/api-keys/${id}`, authorized()),
        await client.rest('PATCH', `/conversations/${encodeURIComponent(id)}`, { body: '{}' }),
        await client.rest('POST', `/conversations/${encodeURIComponent(id)}/messages`, { body }),
      ];
      expect(answers.map((answer) => [answer.status, answer.body.code])).toEqual(answers.map(() => [404, 'NOT_FOUND']));
    },
  );

  test('an id of another type, or in capitals, is NOT_FOUND', async () => {
    const conversation = await newConversation({ message: { content: 'x', sender: 'agent' } });
    const key = (await client.rest('GET', '/api-keys')).body.data[0];
    const others = [conversation.messages[0].id, key.id, client.account.id, conversation.id.toUpperCase()];
    for (const id of others) {
      expect((await client.rest('GET', `/conversations/${id}`)).body.code).toBe('NOT_FOUND');
      expect((await client.rest('GET', `/conversations/${id}/messages`)).body.code).toBe('NOT_FOUND');
    }
    expect((await client.rest('DELETE', `/api-keys/${conversation.id}`)).body.code).toBe('NOT_FOUND');
    expect((await client.rest('DELETE', `/api-keys/${key.id.toUpperCase()}`)).body.code).toBe('NOT_FOUND');
  });

  test('an id that is percent-encoded without need is the same id', async () => {
    const { id } = await newConversation();
    const encoded = id.replace('conv_', '%63%6Fnv%5f');
    expect((await at('GET', `/v1/conversations/${encoded}`, authorized())).body.id).toBe(id);
  });
});

describe('checks come in the order of the contract', () => {
  const preflight = { origin: 'https://shop.example', 'access-control-request-method': 'GET' };
  const foreign = { origin: 'https://shop.example' };
  const tooLarge = ' '.repeat(1024 * 1024 + 1);
  const text = { 'content-type': 'text/plain' };
  let spent: TestAccount;
  let reader: Client;
  let id: string;

  beforeAll(async () => {
    spent = await server.account({ requestsPerHour: 1 });
    await spent.rest('GET', '/account');
    reader = await client.withScopes('conversations:read');
    ({ id } = await newConversation());
  });

  const faults: [both: string, code: ErrorCode | 204, send: () => Promise<RestResponse>][] = [
    ['a preflight without a credential', 204, () => anonymous.rest('OPTIONS', '/nothing', { headers: preflight })],
    ['no credential, no such path', 'UNAUTHENTICATED', () => anonymous.rest('GET', '/nothing')],
    ['no credential, a wrong method', 'UNAUTHENTICATED', () => anonymous.rest('PUT', '/account')],
    ['no credential, no JSON', 'UNAUTHENTICATED', () => anonymous.rest('POST', '/conversations', { body: '{' })],
    ['no credential, too large', 'UNAUTHENTICATED', () => anonymous.rest('POST', '/conversations', { body: tooLarge })],
    ['a page’s key, no budget', 'FORBIDDEN', () => spent.rest('GET', '/account', { headers: foreign })],
    ['a page’s key, no such path', 'FORBIDDEN', () => client.rest('GET', '/nothing', { headers: foreign })],
    ['no budget, no such path', 'RATE_LIMITED', () => spent.rest('GET', '/nothing')],
    ['no budget, a wrong method', 'RATE_LIMITED', () => spent.rest('PUT', '/account')],
    ['no budget, no JSON', 'RATE_LIMITED', () => spent.rest('POST', '/conversations', { body: '{' })],
    ['no such path, no JSON', 'NOT_FOUND', () => client.rest('POST', '/nothing', { body: '{' })],
    ['a wrong method, no scope', 'METHOD_NOT_ALLOWED', () => reader.rest('PUT', '/conversations')],
    ['a wrong method, too large', 'METHOD_NOT_ALLOWED', () => client.rest('PUT', '/account', { body: tooLarge })],
    ['no scope, too large', 'FORBIDDEN', () => reader.rest('POST', '/conversations', { body: tooLarge })],
    ['no scope, no JSON', 'FORBIDDEN', () => reader.rest('POST', '/conversations', { body: '{' })],
    ['no scope, wrong type', 'FORBIDDEN', () => reader.rest('POST', '/conversations', { body: 'x', headers: text })],
    ['no scope, no such id', 'FORBIDDEN', () => reader.rest('PATCH', '/conversations/conv_x', { body: {} })],
    [
      'too large, wrong type',
      'PAYLOAD_TOO_LARGE',
      () => client.rest('POST', '/conversations', { body: tooLarge, headers: text }),
    ],
    [
      'wrong type, no such id',
      'UNSUPPORTED_MEDIA_TYPE',
      () => client.rest('PATCH', '/conversations/x', { body: 'x', headers: text }),
    ],
    ['no JSON, no such id', 'BAD_REQUEST', () => client.rest('PATCH', '/conversations/conv_x', { body: '{' })],
    ['no JSON, bad parameter', 'BAD_REQUEST', () => client.rest('POST', '/conversations?a=b', { body: '{' })],
    [
      'bad input, no such id',
      'VALIDATION_FAILED',
      () => client.rest('PATCH', '/conversations/conv_x', { body: { a: 1 } }),
    ],
    [
      'bad input, not allowed now',
      'VALIDATION_FAILED',
      () => client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed', a: 1 } }),
    ],
    ['GraphQL: no credential, a wrong method', 'UNAUTHENTICATED', () => at('PUT', '/graphql')],
    ['GraphQL: no credential, no JSON', 'UNAUTHENTICATED', () => anonymous.post('{')],
    ['GraphQL: no budget, no JSON', 'RATE_LIMITED', () => spent.post('{')],
    ['GraphQL: a wrong method, no JSON', 'METHOD_NOT_ALLOWED', () => at('PUT', '/graphql', authorized())],
  ];

  test.each(faults)('%s', async (_, code, send) => {
    const response = await send();
    if (code === 204) {
      expect(response.status).toBe(204);
      return;
    }
    expect(response.body.code ?? response.body.errors[0].extensions.code).toBe(code);
    expect(response.status).toBe(errorCodes[code].status);
  });

  test('and what they refuse changes nothing', async () => {
    expect((await client.rest('GET', `/conversations/${id}`)).body.version).toBe(1);
  });
});

describe('the pages for people', () => {
  test('the root says what this is, and links on', async () => {
    const { status, headers, body } = await at('GET', '/');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(body).toContain('href="/graphql"');
  });

  test('a browser gets a page at /graphql without a credential', async () => {
    const { status, headers } = await at('GET', '/graphql', {
      Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    });
    expect(status).toBe(200);
    expect(headers['content-type']).toMatch(/^text\/html/);
    expect(headers['vary']).toMatch(/^Accept\b/);
    expect(headers['cache-control']).toBe((await at('GET', '/docs')).headers['cache-control']);
  });

  test('it can be asked for by HEAD', async () => {
    const accept = { Accept: 'text/html' };
    const [get, head] = [await at('GET', '/graphql', accept), await at('HEAD', '/graphql', accept)];
    expect([head.status, head.body]).toEqual([200, '']);
    for (const name of ['content-type', 'content-length', 'etag', 'vary'])
      expect(head.headers[name]).toBe(get.headers[name]);
    expect((await at('HEAD', '/graphql', { Accept: 'application/json' })).status).toBe(401);
  });

  test('assets take the memory of one, however many ask for them and do not read them', async () => {
    const [path = ''] =
      /assets\/explorer-\w+\.js/.exec((await at('GET', '/graphql', { Accept: 'text/html' })).body) ?? [];
    const ask = async (): Promise<void> => {
      const wire = openWire(server.url);
      await wire.send(requestText('GET', `/${path}`));
      await wire.received(1);
      wire.pause();
    };
    const held = (): number => {
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    await ask();
    const before = held();
    for (let count = 0; count < 100; count++) await ask();
    expect(held() - before).toBeLessThan(30_000_000); // 66 MB, if each had its own
  });

  test('the page is no way around the credential', async () => {
    expect((await at('GET', '/graphql', { Accept: 'application/json' })).status).toBe(401);
    expect((await at('GET', '/graphql?query=%7B__typename%7D')).status).toBe(401);
  });
});

describe('what Yoga and Node would answer by themselves', () => {
  // Yoga answers its own health check for any URL that ends in it, before any of our plugins is asked.
  test('a path or a query that ends in /health needs a credential like any other', async () => {
    expect((await at('GET', '/v1/conversations/health')).status).toBe(401);
    expect((await at('GET', '/v1/conversations?externalId=/health')).status).toBe(401);
    expect((await at('GET', '/health')).status).toBe(404);
  });

  test('a browser gets a page at /graphql only', async () => {
    const html = { Accept: 'text/html' };
    expect((await at('GET', '/v1/conversations?externalId=/graphql', html)).status).toBe(401);
    expect((await at('GET', '/elsewhere/graphql', html)).status).toBe(404);
  });

  test('a Host or a target that makes no URL is refused, not answered with a stack', async () => {
    for (const text of [
      'GET /v1/account HTTP/1.1\r\nHost: a b\r\n\r\n',
      'GET /v1/account HTTP/1.1\r\nHost: [::1\r\n\r\n',
      'OPTIONS * HTTP/1.1\r\nHost: localhost:4000\r\n\r\n',
    ]) {
      const wire = openWire(server.url);
      await wire.send(text);
      const { status, body } = await wire.response();
      expect(status).toBeLessThan(500);
      expect(body).not.toContain('node_modules');
    }
  });

  test('a Host that is none is told at /graphql in its own form', async () => {
    const wire = openWire(server.url);
    await wire.send('POST /graphql HTTP/1.1\r\nHost: a b\r\nContent-Length: 0\r\n\r\n');
    const { status, headers, body } = await wire.response();
    expect(status).toBe(400);
    expect(JSON.parse(body).errors).toEqual([
      { message: expect.any(String), extensions: { code: 'BAD_REQUEST', requestId: headers['x-request-id'] } },
    ]);
  });

  test('a target in absolute form is answered like its path (RFC 9112, 3.2.2)', async () => {
    expect((await at('GET', 'http://localhost/v1/account', authorized())).status).toBe(200);
  });
});
