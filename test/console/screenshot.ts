import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { launchBrowser } from '../support/chromium.ts';

// The README's picture of the console: that of a shop which `seed` has invented, with somebody's conversation open.
// `npm run screenshot` makes it again; `node test/console/screenshot.ts FILE` puts it elsewhere.

const width = 1120;
const height = 640;

const picture = fileURLToPath(new URL('screenshot.png', import.meta.url));
const file = resolve(process.argv[2] ?? picture);

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
const env = { ...process.env, PORT: '0', DATABASE_URL: `file:${folder}/shop.db`, NODE_ENV: 'production' };
const seeded = execFileSync(process.execPath, [main, 'seed', '--conversations', '1000', '--json'], { env });
const secret: string = JSON.parse(seeded.toString()).accounts[0].apiKey.secret;
const service = spawn(process.execPath, [main, 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
const ended = once(service, 'exit');
try {
  const url = await addressOf(createInterface(service.stdout));
  await takePicture(url, secret);
} finally {
  service.kill();
  await ended;
  rmSync(folder, { recursive: true });
}

/** The address at which the service listens. */
async function addressOf(lines: AsyncIterable<string>): Promise<string> {
  for await (const line of lines) {
    const { msg, url } = JSON.parse(line) as { readonly msg: string; readonly url?: string };
    if (msg === 'listening' && url !== undefined) return url;
  }
  throw new Error('The service has ended before it listened.');
}

interface Conversation {
  readonly id: string;
  readonly messageCount: number;
  readonly assignee: { readonly id: string; readonly name: string } | null;
}

/** A conversation that somebody is having with an agent. */
async function conversationOf(url: string, secret: string) {
  const headers = { authorization: `Bearer ${secret}` };
  const response = await fetch(`${url}/v1/conversations?status=active&sort=-lastActivityAt&limit=100`, { headers });
  const { data } = (await response.json()) as { readonly data: readonly Conversation[] };
  for (const { id, messageCount, assignee } of data) if (messageCount >= 4 && assignee) return { id, assignee };
  throw new Error('Nobody is having a conversation.');
}

async function takePicture(url: string, secret: string): Promise<void> {
  const { id, assignee } = await conversationOf(url, secret);
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme: 'light', reducedMotion: 'reduce' });
    await page.goto(`${url}/console#/inbox/${id}`);
    await page.getByLabel('API key').fill(secret);
    await page.getByLabel('Your name').fill(assignee.name);
    await page.getByLabel('Your id').fill(assignee.id);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('log').locator('li').first().waitFor();
    await page.getByText('Live', { exact: true }).waitFor();
    await page.getByRole('heading', { name: 'Inbox' }).focus(); // no cursor blinks
    await page.screenshot({ path: file, animations: 'disabled' });
  } finally {
    await browser.close();
  }
}
