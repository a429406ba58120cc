import { existsSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { onTestFinished, type TestContext } from 'vitest';

// Pages in a real browser.

const executablePath = '/usr/bin/chromium';

export interface OpenPage {
  readonly page: Page;
  /** What the browser's console shows as an error, and what nobody has caught. */
  readonly errors: string[];
  /** What the page has asked servers for that it should not know. */
  readonly foreign: string[];
}

/**
 * Opens an empty page in a browser of its own, which is closed with the test. Without the browser the test is skipped, and
 * says so; where all tests have to run, it fails.
 * @param origins the servers that the page may ask
 */
export async function openPage({ skip }: Pick<TestContext, 'skip'>, origins: readonly string[]): Promise<OpenPage> {
  if (!existsSync(executablePath)) {
    const advice = `There is no ${executablePath}, which tests of pages need: apt-get install chromium`;
    if (process.env['CI'] === 'true') throw new Error(advice);
    console.log(advice);
    skip(advice);
  }
  const { chromium } = await import('playwright-core'); // takes long to load
  const browser = await chromium.launch({
    executablePath,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
  onTestFinished(() => browser.close());
  const page = await browser.newPage();
  const errors: string[] = [];
  const foreign: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  const asked = (url: string): void => {
    const { origin, protocol } = new URL(url.replace(/^ws/, 'http'));
    if (protocol !== 'data:' && protocol !== 'blob:' && !origins.includes(origin)) foreign.push(url);
  };
  page.on('request', (request) => asked(request.url()));
  page.on('websocket', (socket) => asked(socket.url()));
  return { page, errors, foreign };
}
