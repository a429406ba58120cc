import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestServer, type TestServer } from '../support/server.ts';

// The page of the console and its files, as a browser loads them.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

async function get(path: string, headers: Record<string, string> = {}) {
  const response = await request(server.url + path, { headers: { 'accept-encoding': 'gzip', ...headers } });
  return {
    status: response.statusCode,
    headers: response.headers,
    bytes: Buffer.from(await response.body.arrayBuffer()),
  };
}

test('they take at most 150 kB, once', async () => {
  let sum = 0;
  for (const [path, type] of [
    ['/console', 'text/html'],
    ['/console/app.js', 'text/javascript'],
    ['/console/app.css', 'text/css'],
  ] as const) {
    const { status, headers, bytes } = await get(path);
    expect([path, status, headers['content-encoding']]).toEqual([path, 200, 'gzip']);
    expect(headers['content-type']).toContain(type);
    expect((await get(path, { 'if-none-match': String(headers['etag']) })).status).toBe(304);
    expect((await get(path, { 'accept-encoding': 'identity' })).bytes).toEqual(gunzipSync(bytes));
    sum += bytes.length;
  }
  console.log(`The console takes ${sum} bytes, compressed.`);
  expect(sum).toBeLessThanOrEqual(150_000);
});

test('the page runs nothing that stands in it, loads nothing from elsewhere, and cannot be framed', async () => {
  const { headers, bytes } = await get('/console');
  const policy = String(headers['content-security-policy']);
  expect(policy).not.toMatch(/unsafe|\*|https?:/);
  for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"]) {
    expect(policy).toContain(rule);
  }
  const page = gunzipSync(bytes).toString();
  expect(page).not.toMatch(/<script(?! type="module" src=)|<style|style=|https?:/);
});
