import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestServer, type TestServer } from '../support/server.ts';

// The scripts and styles of `/console`, `/docs` and the page at `/graphql`, and these pages, as a browser loads them.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

async function get(path: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') {
  const response = await request(server.url + path, { method, headers: { accept: 'text/html', ...headers } });
  return {
    status: response.statusCode,
    headers: response.headers,
    bytes: Buffer.from(await response.body.arrayBuffer()),
  };
}

/** The addresses of what a page loads. */
async function assetsOf(path: string): Promise<string[]> {
  const { bytes } = await get(path);
  return [...bytes.toString().matchAll(/(?:href|src)="(assets\/[^"]+)"/g)].map(([, address]) => `/${address}`);
}

test.each([
  ['/console', 75_000],
  ['/docs', 14_000],
  ['/graphql', 230_000],
])('what %s loads may be kept for ever, and takes at most %i bytes, once', async (path, most) => {
  const addresses = await assetsOf(path);
  expect(addresses.map((address) => address.replace(/.*-[A-Z0-9]{8}\./, '')).sort()).toEqual(['css', 'js']);
  let sum = 0;
  for (const address of addresses) {
    const plain = await get(address);
    const zipped = await get(address, { 'accept-encoding': 'gzip' });
    const smallest = await get(address, { 'accept-encoding': 'gzip, deflate, br' });
    expect([plain, zipped, smallest].map(({ headers }) => headers['content-encoding'])).toEqual([
      undefined,
      'gzip',
      'br',
    ]);
    expect(gunzipSync(zipped.bytes)).toEqual(plain.bytes);
    expect(brotliDecompressSync(smallest.bytes)).toEqual(plain.bytes);
    for (const { status, headers } of [plain, zipped, smallest]) {
      expect([status, headers['cache-control'], headers['vary']]).toEqual([
        200,
        'public, max-age=31536000, immutable',
        'Accept-Encoding, Origin',
      ]);
      expect(headers['content-type']).toBe(
        address.endsWith('js') ? 'text/javascript; charset=utf-8' : 'text/css; charset=utf-8',
      );
      expect(headers['x-content-type-options']).toBe('nosniff');
    }
    expect(new Set([plain, zipped, smallest].map(({ headers }) => headers['etag'])).size).toBe(3);
    sum += zipped.bytes.length;
  }
  console.log(`${path} takes ${sum} bytes, compressed with gzip.`);
  expect(sum).toBeLessThanOrEqual(most);
});

test('they can be asked for by HEAD, and are not sent to who has them', async () => {
  const [address = ''] = await assetsOf('/graphql');
  const gzip = { 'accept-encoding': 'gzip' };
  const [whole, head] = [await get(address, gzip), await get(address, gzip, 'HEAD')];
  for (const name of ['content-length', 'content-type', 'etag', 'cache-control']) {
    expect(head.headers[name]).toBe(whole.headers[name]);
  }
  expect([head.status, head.bytes.length]).toEqual([200, 0]);
  const known = await get(address, { ...gzip, 'if-none-match': String(whole.headers['etag']) });
  expect([known.status, known.bytes.length]).toEqual([304, 0]);
});

test('a page of another version gets those of this one, which nobody keeps under the name that it asked for', async () => {
  for (const address of (await Promise.all(['/console', '/docs', '/graphql'].map(assetsOf))).flat()) {
    const [own, other] = [await get(address), await get(address.replace(/-[A-Z0-9]{8}\./, '-0THER0NE.'))];
    expect([other.status, other.headers['content-type'], other.headers['cache-control']]).toEqual([
      200,
      own.headers['content-type'],
      'no-store',
    ]);
    expect(other.bytes).toEqual(own.bytes);
    expect((await get(address)).headers['cache-control']).toBe('public, max-age=31536000, immutable');
  }
});

test('nothing else of the folder is served', async () => {
  const [address = ''] = await assetsOf('/docs');
  const others = [
    'names.json',
    '',
    `${address.slice(8)}.gz`,
    '../main.js',
    '..%2fmain.js',
    '%2e%2e/main.js',
    'reference.js',
    'names-0THER0NE.json',
    'reference-0THER0NE.js.gz',
    'main-0THER0NE.js',
  ];
  for (const name of others) expect([name, (await get(`/assets/${name}`)).status]).toEqual([name, 404]);
});

test.each(['/console', '/docs', '/graphql'])(
  '%s runs nothing that stands in it, loads nothing from elsewhere, cannot be framed, and is asked for again',
  async (path) => {
    const { status, headers, bytes } = await get(path);
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    const policy = String(headers['content-security-policy']);
    // What browsers write into the attributes of an editor is no style of the page.
    expect(policy.replace("style-src-attr 'unsafe-inline'", '')).not.toMatch(/unsafe|\*|https?:|data:|blob:/);
    for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
      expect(policy).toContain(rule);
    }
    const page = bytes.toString();
    expect(page).not.toMatch(/<script(?! type="module" src=)|<style|style=|\son\w+=/);
    expect(page).not.toMatch(/(?:src|href)="(?:https?:|\/\/)/);
    expect(headers['cache-control']).toBe('public, no-cache'); // it names files that an upgrade takes away
    expect((await get(path, { 'if-none-match': String(headers['etag']) })).status).toBe(304);
  },
);
