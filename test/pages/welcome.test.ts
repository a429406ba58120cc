import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { request } from 'undici';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { openPage, shows } from '../support/browser.ts';
import { otherMachine } from '../support/chromium.ts';
import type { Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// The page at `/`.

let server: TestServer;
let account: TestAccount;
beforeEach(async () => {
  server = await startTestServer();
  account = await server.account();
});
afterEach(() => server.close());

async function pageOf({ url }: TestServer) {
  const { headers, body } = await request(`${url}/`);
  return { headers, text: await body.text() };
}

/** What a person copies from it. */
async function commands(): Promise<string[]> {
  const { text } = await pageOf(server);
  return [...text.matchAll(/<code>(curl[\s\S]*?)<\/code>/g)].map(([, command = '']) =>
    command.replaceAll('http://127.0.0.1:4000', server.url).replaceAll('&lt;', '<').replaceAll('&amp;', '&'),
  );
}

const shell = () => ({ env: { PATH: process.env['PATH'], KEY: account.secret } });
const run = async (command = ''): Promise<Json> =>
  JSON.parse((await promisify(execFile)('bash', ['-c', command], shell())).stdout);

longTest('its commands start a conversation, ask for it, hear of the next one, and make a webhook', async () => {
  const [start, ask, hear = '', webhook, ...others] = await commands();
  expect(others).toEqual([]);
  const { id, messages } = await run(start);
  expect(messages).toMatchObject([{ content: 'Where is my parcel?' }]);
  expect((await run(ask)).data.conversations.nodes).toMatchObject([
    { id, status: 'PENDING', lastMessage: { preview: 'Where is my parcel?' } },
  ]);

  const following = spawn('bash', ['-c', `exec ${hear}`], shell());
  onTestFinished(() => void following.kill());
  let heard = '';
  following.stdout.on('data', (piece) => {
    heard += piece;
  });
  await until(() => heard !== ''); // it begins with a sign that it is there
  expect((await account.rest('POST', '/conversations')).status).toBe(201);
  await until(() => heard.includes('CONVERSATION_STARTED'));
  following.kill();

  expect(await run(webhook)).toMatchObject({
    url: 'https://example.com/hooks',
    secret: expect.stringMatching(/^whsec_/),
  });
});

test('it runs the script that its policy names, and no other', async () => {
  const { headers, text } = await pageOf(server);
  const scripts = [...text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = '']) => script);
  const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
  expect(hashes).toHaveLength(1);
  expect(headers['content-security-policy']).toContain(`script-src ${hashes[0]};`);
});

test('behind a proxy its links and commands have the address there', async () => {
  const behind = await startTestServer({ config: { publicUrl: 'https://example.com/talk/' } });
  onTestFinished(() => behind.close());
  const { text } = await pageOf(behind);
  expect(text).toContain('curl https://example.com/talk/v1/conversations');
  expect(text).toContain('href="/talk/docs"');
  expect(text).not.toContain('curl http:');
});

test('the icon of all pages is there', async () => {
  const { statusCode, headers, body } = await request(`${server.url}/favicon.svg`);
  expect([statusCode, headers['content-type']]).toEqual([200, 'image/svg+xml']);
  expect(await body.text()).toMatch(/^<svg /);
});

longTest('a person copies a command with the address at which the page was opened', async (context) => {
  const { page, errors, foreign } = await openPage(context, [server.url]);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`${server.url}/`);
  await page.getByRole('button', { name: 'Copy: Start a conversation' }).click();
  await page.getByRole('button', { name: 'Copied: Start a conversation' }).waitFor();
  const copied: unknown = await page.evaluate('navigator.clipboard.readText()');
  expect(copied).toBe((await commands())[0]);
  expect([errors, foreign]).toEqual([[], []]);
});

longTest('where a page may not write to the clipboard, the command is selected', async (context) => {
  const origin = `http://${otherMachine}:${new URL(server.url).port}`;
  const { page, errors, foreign } = await openPage(context, [origin]);
  await page.goto(`${origin}/`);
  await page.getByRole('button', { name: 'Copy: Start a conversation' }).click();
  const [command = ''] = await commands();
  await shows(() => page.evaluate('String(getSelection())'), command.replaceAll(server.url, origin));
  expect([errors, foreign]).toEqual([[], []]);
});
