import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestServer, type TestServer } from '../support/server.ts';

// The script of the chat widget, as pages load it.

const page = 'https://shop.example';
let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ config: { corsOrigins: [page] } });
});
afterAll(() => server.close());

async function get(headers: Record<string, string> = {}, method: 'GET' | 'HEAD' | 'OPTIONS' | 'POST' = 'GET') {
  const response = await request(`${server.url}/widget.js`, { method, headers });
  const bytes = Buffer.from(await response.body.arrayBuffer());
  return { status: response.statusCode, headers: response.headers, bytes };
}

test('it defines the element, and is sent in at most 20 kB', async () => {
  const { status, headers, bytes } = await get({ 'accept-encoding': 'gzip, br' });
  expect(status).toBe(200);
  expect(headers).toMatchObject({ 'content-encoding': 'gzip', 'content-length': `${bytes.length}` });
  expect(bytes.length).toBeLessThanOrEqual(20_000);
  const script = gunzipSync(bytes);
  expect(script.toString()).toContain('conversation-widget');
  expect((await get()).bytes).toEqual(script);
  expect((await get({ 'accept-encoding': 'gzip;q=0' })).bytes).toEqual(script);
});

test.each([
  ['of any origin', 'https://other.example'],
  ['that may call', page],
  ['that does not say where it is from', undefined],
])('a page %s may load it', async (_, origin) => {
  const { headers } = await get(origin === undefined ? {} : { origin });
  expect(headers).toMatchObject({
    'content-type': 'text/javascript; charset=utf-8',
    'access-control-allow-origin': '*',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
  });
});

test('it is not sent again to those who have it, in each of its encodings', async () => {
  const tags = new Set<unknown>();
  for (const encoding of ['gzip', 'identity']) {
    const { headers } = await get({ 'accept-encoding': encoding });
    expect(headers['cache-control']).toBe('public, max-age=300');
    expect(headers['vary']).toContain('Accept-Encoding');
    tags.add(headers['etag']);
    const again = await get({ 'accept-encoding': encoding, 'if-none-match': String(headers['etag']) });
    expect([again.status, again.bytes.length, again.headers['etag']]).toEqual([304, 0, headers['etag']]);
    expect(again.headers['access-control-allow-origin']).toBe('*');
  }
  expect(tags.size).toBe(2);
});

test('it knows GET, HEAD and OPTIONS', async () => {
  const [whole, head, options, refused] = [
    await get(),
    await get({}, 'HEAD'),
    await get({}, 'OPTIONS'),
    await get({}, 'POST'),
  ];
  expect([head.status, head.bytes.length]).toEqual([200, 0]);
  expect(head.headers['content-length']).toBe(whole.headers['content-length']);
  expect([options.status, options.headers['allow']]).toEqual([204, 'GET, HEAD, OPTIONS']);
  expect(refused.status).toBe(405);
});
