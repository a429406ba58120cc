import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestServer, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { openWire, requestText, type Wire } from './wire.ts';

// What a request says of itself, before anybody asks what it is about: its host, its target, an upgrade.

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const upgrade = {
  Connection: 'keep-alive, Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

async function open(text: string): Promise<Wire> {
  const wire = openWire(server.url);
  await wire.send(text);
  return wire;
}

/** The code of an error on either face. */
function codeIn(body: string): unknown {
  const { code, errors } = JSON.parse(body);
  return code ?? errors[0].extensions.code;
}

describe('Host', () => {
  const upgradeLines = Object.entries(upgrade).map(([name, value]) => `${name}: ${value}\r\n`);
  const requests = {
    'a page': 'GET / HTTP/1.1\r\n',
    'a probe': 'GET /healthz HTTP/1.1\r\n',
    'an unknown path': 'GET /nowhere HTTP/1.1\r\n',
    REST: 'GET /v1/account HTTP/1.1\r\n',
    GraphQL: 'GET /graphql HTTP/1.1\r\n',
    'a socket': `GET /graphql HTTP/1.1\r\n${upgradeLines.join('')}`,
    'a request in HTTP/1.0': 'GET / HTTP/1.0\r\n',
    'a target in absolute form': 'GET http://localhost/v1/account HTTP/1.1\r\n',
  };
  const wrong = ['a\r\nHost: b', 'a\r\nhOST: a', 'a b', 'a/b', 'me@a', 'a:b', '[::1', 'a"', 'caf\u00e9', 'a,\tb'];

  test.each(Object.entries(requests))('of %s that is repeated or no host is BAD_REQUEST', async (_, lines) => {
    for (const host of wrong) {
      const wire = await open(`${lines}Host: ${host}\r\nX-Request-Id: mine\r\n\r\n`);
      const { status, headers, body } = await wire.response();
      expect({ host, status, code: codeIn(body) }).toEqual({ host, status: 400, code: 'BAD_REQUEST' });
      expect(headers['x-request-id']).toBe('mine');
      await wire.ended;
    }
  });

  test.each(['localhost', 'A_b.c-d.', 'a:', 'a:80', '[::1]', '[::1]:80', '127.0.0.1', ' a ', 'a%20b', ''])(
    'may be %j',
    async (host) => {
      const wire = await open(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      expect((await wire.response()).status).toBe(200);
    },
  );

  test('may be empty for GraphQL, and missing in HTTP/1.0', async () => {
    const body = '{"query":"{ __typename }"}';
    const { secret } = await server.account();
    const headers = { Host: '', Authorization: `Bearer ${secret}` };
    expect((await (await open(requestText('POST', '/graphql', { headers, body }))).response()).status).toBe(200);
    expect((await (await open('GET /healthz HTTP/1.0\r\n\r\n')).response()).status).toBe(200);
  });
});

describe('a target in absolute form', () => {
  test.each([
    ['http://a.example/healthz', 200],
    ['HTTPS://a.example:80/healthz?x', 200],
    ['http://a.example', 200],
    ['http://a.example?x=1', 200],
    ['http://me@a.example/healthz', 400],
    ['ftp://a.example/healthz', 400],
  ])('is taken for its path: %s', async (target, status) => {
    const wire = await open(requestText('GET', target));
    expect((await wire.response()).status).toBe(status);
  });

  test('opens a socket too', async () => {
    const wire = await open(requestText('GET', 'http://a.example/graphql', { headers: upgrade }));
    expect((await wire.response()).status).toBe(101);
  });

  test('says which host is meant, whatever Host says', async () => {
    const { secret } = await server.account();
    const ask = async (target: string): Promise<number> => {
      const headers = { Origin: 'https://a.example', Authorization: `Bearer ${secret}` };
      return (await (await open(requestText('GET', target, { headers }))).response()).status;
    };
    expect(await ask('http://a.example/v1/account')).toBe(200);
    expect(await ask('/v1/account')).toBe(403); // a key in a page of another host
  });
});

test('a hundred headers are too many, however short', async () => {
  const headers = (count: number): string => Array.from({ length: count }, (_, index) => `X-${index}: y\r\n`).join('');
  const few = await open(`GET /healthz HTTP/1.1\r\nHost: a\r\n${headers(98)}\r\n`);
  expect((await few.response()).status).toBe(200);
  for (const count of [99, 500]) {
    const many = await open(`GET /healthz HTTP/1.1\r\nHost: a\r\n${headers(count)}\r\n`);
    const { status, body } = await many.response();
    expect({ status, code: codeIn(body) }).toEqual({ status: 431, code: 'BAD_REQUEST' });
  }
});

describe('an upgrade', () => {
  const asked = requestText('GET', '/graphql', { headers: upgrade });

  test('behind requests that are not answered yet is refused after their answers', async () => {
    const wire = await open(`${requestText('GET', '/nowhere')}${requestText('GET', '/healthz')}${asked}`);
    expect((await wire.response()).status).toBe(404);
    expect((await wire.response()).status).toBe(200);
    const { status, body } = await wire.response();
    expect({ status, code: codeIn(body) }).toEqual({ status: 400, code: 'BAD_REQUEST' });
    await wire.ended;
  });

  test('on a connection whose requests have been answered opens a socket', async () => {
    const wire = await open(requestText('GET', '/nowhere'));
    expect((await wire.response()).status).toBe(404);
    await wire.send(asked);
    expect((await wire.response()).status).toBe(101);
  });

  test('that has a body is refused', async () => {
    const wire = await open(requestText('GET', '/graphql', { headers: upgrade, body: '{}' }));
    const { status, body } = await wire.response();
    expect({ status, code: codeIn(body) }).toEqual({ status: 400, code: 'BAD_REQUEST' });
  });
});

describe('CONNECT', () => {
  const asked = 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\nbytes for example.com';

  test('is METHOD_NOT_ALLOWED', async () => {
    const wire = await open(requestText('GET', '/nowhere'));
    expect((await wire.response()).status).toBe(404);
    await wire.send(asked);
    const { status, body } = await wire.response();
    expect({ status, code: codeIn(body) }).toEqual({ status: 405, code: 'METHOD_NOT_ALLOWED' });
    await wire.ended;
    const { status: alone, headers } = await (await open(asked)).response();
    expect([alone, headers['allow']]).toEqual([405, '']);
  });

  test('closes the connection if a request before it is not answered yet', async () => {
    const { secret } = await server.account();
    const release = await server.holdWrites();
    const headers = { Authorization: `Bearer ${secret}` };
    const wire = await open(requestText('POST', '/v1/conversations', { headers, body: '{}' }));
    await until(() => server.storage.waitingWrites > 0);
    await wire.send(asked);
    await expect(wire.response()).rejects.toThrow('The connection ended after ""');
    await release();
  });
});
