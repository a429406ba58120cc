import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { Origins } from '../../src/access/origins.ts';
import type { Config } from '../../src/config.ts';
import { updateAccount } from '../../src/domain/accounts.ts';
import { scopes } from '../../src/domain/caller.ts';
import { clientOf } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';

// Which pages may call with what, and what their browsers are told: the same on every way in.

const listed = 'https://shop.example';
const alsoListed = 'http://localhost:5173';
/** Pages that may not call. Each but the first looks much like one that may. */
const foreign = [
  'https://evil.example',
  'null',
  'http://shop.example',
  'https://shop.example:8443',
  'https://shop.example.evil.example',
  'https://evil-shop.example',
  'https://a.shop.example',
  'https://SHOP.example',
  'https://shop.example/',
  'https://shop.example, https://evil.example',
  '*',
];

let server: TestServer;
let account: TestAccount;
let token: string;

beforeAll(async () => {
  server = await startTestServer({ config: { corsOrigins: [listed, alsoListed] } });
  account = await server.account();
});
afterAll(() => server.close());
beforeEach(async () => {
  server.clock.advance(60_000); // failed authentications are limited by the minute
  token = await mint(server, account);
});

async function startOwn(config: Partial<Config>): Promise<TestServer> {
  const own = await startTestServer({ config });
  onTestFinished(() => own.close());
  return own;
}

async function mint({ url }: { url: string }, { secret }: TestAccount): Promise<string> {
  return (await clientOf(url, secret).rest('POST', '/tokens', { body: { scopes } })).body.token;
}

interface Seen {
  readonly status: number;
  readonly code?: string | undefined;
  readonly headers: Record<string, string>;
}

/** What a browser looks at before a page may see an answer. */
function corsOf({ headers }: { headers: Record<string, string> }): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')));
}

const exposed =
  'RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id, ETag, Link, Location, Idempotent-Replayed, Deprecation, Sunset';

const readableBy = (origin: string) => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': exposed,
});

describe('a preflight, without any credential,', () => {
  const paths = ['/v1/conversations', '/v1/nothing', '/v1/events/stream', '/graphql'];
  const ask = async (path: string, origin: string): Promise<Seen> => {
    const asking = httpRequest(`${server.url}${path}`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'authorization, content-type, if-match',
      },
    }).end();
    const [response] = (await once(asking, 'response')) as [IncomingMessage];
    response.resume();
    return { status: response.statusCode ?? 0, headers: response.headers as Record<string, string> };
  };

  test.each(paths)('tells a listed page what it may send: %s', async (path) => {
    for (const origin of [listed, alsoListed]) {
      const answer = await ask(path, origin);
      expect(answer).toMatchObject({ status: 204, headers: { vary: 'Origin' } });
      expect(answer.headers['ratelimit'], 'what is left is nobody’s business yet').toBeUndefined();
      expect(corsOf(answer)).toEqual({
        ...readableBy(origin),
        'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
        'access-control-allow-headers':
          'Authorization, Content-Type, GraphQL-Cost, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, X-Request-Id, traceparent, tracestate',
        'access-control-max-age': '7200',
      });
    }
  });

  test.each(paths)('tells any other page nothing: %s', async (path) => {
    for (const origin of [...foreign, server.url]) {
      const answer = await ask(path, origin);
      expect(answer).toMatchObject({ status: 204, headers: { vary: 'Origin' } });
      expect(corsOf(answer)).toEqual({});
    }
  });
});

/** Every kind of answer that there is, and its status when the page may call. */
const answers: [what: string, status: number, send: (headers: Record<string, string>) => Promise<Seen>][] = [
  ['an answer', 200, (headers) => clientOf(server.url, token).rest('GET', '/account', { headers })],
  ['something new', 201, (headers) => clientOf(server.url, token).rest('POST', '/conversations', { headers })],
  ['OPTIONS', 204, (headers) => clientOf(server.url, token).rest('OPTIONS', '/account', { headers })],
  ['an unknown id', 404, (headers) => clientOf(server.url, token).rest('GET', '/leads/lead_1', { headers })],
  ['an unknown path', 404, (headers) => clientOf(server.url, token).rest('GET', '/nothing', { headers })],
  ['bad input', 400, (headers) => clientOf(server.url, token).rest('POST', '/leads', { body: {}, headers })],
  ['GraphQL', 200, (headers) => clientOf(server.url, token).graphql('{ account { id } }', undefined, { headers })],
  [
    'a syntax error of GraphQL',
    400,
    (headers) =>
      clientOf(server.url, token).graphql('{', undefined, {
        headers: { ...headers, accept: 'application/graphql-response+json' },
      }),
  ],
  ['a stream', 200, (headers) => stream('/v1/events/stream', headers)],
  ['a stream of GraphQL', 200, (headers) => stream(`/graphql?query=${encodeURIComponent(following)}`, headers)],
];

const following = 'subscription { events { id } }';

async function stream(path: string, headers: Record<string, string>): Promise<Seen> {
  const reader = await SseReader.open(`${server.url}${path}`, { authorization: `Bearer ${token}`, ...headers });
  reader.close();
  return { status: reader.status, headers: reader.headers };
}

describe.each(answers)('%s, asked for with a token,', (_, status, send) => {
  test('can be read by a listed page, and its headers too', async () => {
    for (const origin of [listed, alsoListed]) {
      const answer = await send({ origin });
      expect(answer).toMatchObject({ status, headers: { vary: 'Origin' } });
      expect(corsOf(answer)).toEqual(readableBy(origin));
    }
  });

  test('is given to the service’s own page, which needs no leave to read it', async () => {
    const answer = await send({ origin: server.url });
    expect(answer.status).toBe(status);
    expect(corsOf(answer)).toEqual({});
  });

  test('is given to what is no page, and a cache is told that it may differ', async () => {
    const answer = await send({});
    expect(answer).toMatchObject({ status, headers: { vary: 'Origin' } });
    expect(corsOf(answer)).toEqual({});
  });

  test('is refused to any other page, which cannot even read why', async () => {
    const before = await server.app.ports.limiter.peek(account.account);
    for (const origin of foreign) {
      const answer = await send({ origin });
      expect({ origin, status: answer.status, cors: corsOf(answer) }).toEqual({ origin, status: 403, cors: {} });
    }
    const { remaining } = await server.app.ports.limiter.peek(account.account);
    expect(remaining, 'it costs nothing').toBe(before.remaining);
  });
});

describe('a refusal', () => {
  test('is told in the same words on both faces, and names the setting', async () => {
    const client = clientOf(server.url, token);
    const headers = { origin: 'https://evil.example' };
    const rest = await client.rest('GET', '/account', { headers });
    const graphql = await client.graphql('{ account { id } }', undefined, { headers });
    expect(rest).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
    expect(rest.body.detail).toContain('CORS_ORIGINS');
    expect(graphql).toMatchObject({
      status: 403,
      errors: [{ message: rest.body.detail, extensions: { code: 'FORBIDDEN' } }],
    });
  });

  test.each([
    ['no credential', 401, () => undefined],
    ['an unknown token', 401, () => `${token}x`],
    ['an API key', 403, () => account.secret],
  ])('of %s can be read by a listed page', async (_, status, credential) => {
    const client = clientOf(server.url, credential());
    const headers = { origin: listed };
    const both = [
      await client.rest('GET', '/account', { headers }),
      await client.graphql('{ account { id } }', undefined, { headers }),
    ];
    for (const answer of both) {
      expect(answer.status).toBe(status);
      expect(corsOf(answer)).toEqual(readableBy(listed));
    }
  });

  test('of a budget that is spent can be read by a listed page, with the time to wait', async () => {
    const own = await server.account({ plan: 'trial', requestsPerHour: 1 });
    const client = clientOf(server.url, await mint(server, own));
    const answer = await client.rest('GET', '/account', { headers: { origin: listed } });
    expect(answer).toMatchObject({ status: 429, headers: { 'retry-after': expect.any(String) } });
    expect(corsOf(answer)).toEqual(readableBy(listed));
  });
});

describe('a socket', () => {
  /** The status of an upgrade: 101, or what it is refused with. */
  async function upgrade(origin: string | undefined, { url }: { url: string } = server): Promise<number> {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', {
      headers: origin === undefined ? {} : { origin },
    });
    onTestFinished(() => socket.terminate());
    return await new Promise((resolve) => {
      socket.on('open', () => resolve(101));
      socket.on('unexpected-response', (_, { statusCode }) => resolve(statusCode ?? 0));
      socket.on('error', () => {});
    });
  }

  test.each(foreign)('is not opened for a page that may not call: %s', async (origin) => {
    expect(await upgrade(origin)).toBe(403);
  });

  test('is opened for a listed page, the service’s own, and what is no page', async () => {
    for (const origin of [listed, alsoListed, server.url, undefined]) expect(await upgrade(origin)).toBe(101);
  });

  test('of a listed page lets a token in and no key, and one of the service’s own page lets both in', async () => {
    const own = (origin: string): RawSocket => {
      const socket = new RawSocket(server.url, { headers: { origin } });
      onTestFinished(() => socket.socket.terminate());
      return socket;
    };
    const socket = await own(listed).init(token);
    socket.subscribe('1', '{ account { id } }');
    expect((await socket.first('1')).payload.data.account.id).toBe(account.account.id);
    const withKey = await own(listed).opened();
    withKey.send({ type: 'connection_init', payload: { authorization: `Bearer ${account.secret}` } });
    expect(await withKey.closed).toMatchObject({ code: 4403 });
    await own(server.url).init(account.secret);
    await own(server.url).init(token);
  });
});

describe('an origin that an account has added', () => {
  const added = 'https://own-shop.example';
  let other: TestAccount;

  beforeAll(async () => {
    other = await server.account();
    await updateAccount(server.app.ports, account.account.id, { origins: [added, added] });
  });

  const preflight = { origin: added, 'access-control-request-method': 'GET' };

  test('lets its pages call with tokens of this account, and read the answers', async () => {
    for (const path of ['/v1/account', '/graphql'] as const) {
      const answer = await request(`${server.url}${path}`, { method: 'OPTIONS', headers: preflight });
      await answer.body.dump();
      expect(answer.headers).toMatchObject({ 'access-control-allow-origin': added });
    }
    const client = clientOf(server.url, token);
    for (const answer of [
      await client.rest('GET', '/account', { headers: { origin: added } }),
      await client.graphql('{ account { id } }', undefined, { headers: { origin: added } }),
    ]) {
      expect(answer.status).toBe(200);
      expect(corsOf(answer)).toEqual(readableBy(added));
    }
    const socket = new RawSocket(server.url, { headers: { origin: added } });
    onTestFinished(() => socket.socket.terminate());
    await socket.init(token);
  });

  test('does not let them call with tokens of another account, on any face, and they can read why', async () => {
    const foreignToken = await mint(server, other);
    const client = clientOf(server.url, foreignToken);
    for (const answer of [
      await client.rest('GET', '/account', { headers: { origin: added } }),
      await client.graphql('{ account { id } }', undefined, { headers: { origin: added } }),
    ]) {
      expect(answer.status).toBe(403);
      expect(corsOf(answer)).toEqual(readableBy(added));
    }
    const socket = await new RawSocket(server.url, { headers: { origin: added } }).opened();
    onTestFinished(() => socket.socket.terminate());
    socket.send({ type: 'connection_init', payload: { authorization: `Bearer ${foreignToken}` } });
    expect(await socket.closed).toMatchObject({ code: 4403 });
  });

  test('never lets an API key in', async () => {
    expect((await account.rest('GET', '/account', { headers: { origin: added } })).status).toBe(403);
  });

  test('is forgotten when the list is replaced', async () => {
    const own = await server.account();
    const page = 'https://gone.example';
    const call = async () =>
      (await clientOf(server.url, await mint(server, own)).rest('GET', '/account', { headers: { origin: page } }))
        .status;
    await updateAccount(server.app.ports, own.account.id, { origins: [page] });
    expect(await call()).toBe(200);
    expect(await updateAccount(server.app.ports, own.account.id, { name: 'kept' })).toMatchObject({ origins: [page] });
    await updateAccount(server.app.ports, own.account.id, { origins: [] });
    expect(await call()).toBe(403);
  });

  test.each([
    ['more than twenty', Array.from({ length: 21 }, (_, index) => `https://page-${index}.example`)],
    ['one with a path', ['https://shop.example/chat']],
    ['a wildcard', ['https://*.shop.example']],
    ['null', ['null']],
    ['something else', ['chrome-extension://abc']],
  ])('is refused if it is %s', async (_, origins) => {
    await expect(updateAccount(server.app.ports, account.account.id, { origins })).rejects.toThrow(
      expect.objectContaining({ code: 'VALIDATION_FAILED' }),
    );
  });
});

describe('the service’s own page', () => {
  test('that of GraphQL is served to a browser, and may call with a key and with a token', async () => {
    const page = await request(`${server.url}/graphql`, { headers: { accept: 'text/html' } });
    await page.body.dump();
    expect([page.statusCode, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    for (const credential of [account.secret, token]) {
      const headers = { origin: server.url };
      expect(
        (await clientOf(server.url, credential).graphql('{ account { id } }', undefined, { headers })).status,
      ).toBe(200);
    }
  });

  test('is one at the public address, and one at the address that was asked, behind a proxy too', async () => {
    const own = await startOwn({ publicUrl: 'https://api.example/chat', corsOrigins: [listed] });
    const owner = await own.account();
    const statusesFrom = async (origin: string): Promise<number[]> => [
      (await owner.rest('GET', '/account', { headers: { origin } })).status,
      (await owner.graphql('{ account { id } }', undefined, { headers: { origin } })).status,
    ];
    const { host } = new URL(own.url);
    for (const origin of ['https://api.example', `http://${host}`, `https://${host}`]) {
      expect(await statusesFrom(origin)).toEqual([200, 200]);
    }
    for (const origin of ['http://api.example', 'https://api.example:8443', listed, 'null']) {
      expect(await statusesFrom(origin)).toEqual([403, 403]);
    }
  });

  test('is never `null`, whatever the host is called', async () => {
    const origins = new Origins({ listed: [listed], storage: server.app.ports.storage });
    for (const host of [undefined, 'null', '']) {
      expect(origins.isOwn({ origin: 'null', host })).toBe(false);
      expect(origins.isOwn({ host })).toBe(false);
    }
    expect(await origins.isListed({ origin: 'null' })).toBe(false);
  });
});

test('no page may call where none is listed', async () => {
  const own = await startOwn({});
  const owner = await own.account();
  const client = clientOf(own.url, await mint(own, owner));
  for (const origin of [listed, 'null']) {
    const answer = await client.rest('GET', '/account', { headers: { origin } });
    expect(answer.status).toBe(403);
    expect(corsOf(answer)).toEqual({});
  }
  expect((await client.rest('GET', '/account', { headers: { origin: own.url } })).status).toBe(200);
});
