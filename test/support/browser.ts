import { existsSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, type TestContext } from 'vitest';
import { executablePath, launchBrowser } from './chromium.ts';
import { eventually } from './wait.ts';

// Pages in a real browser.

export interface OpenPage {
  readonly page: Page;
  /** What the browser's console shows as an error, and what nobody has caught. */
  readonly errors: string[];
  /** What the page has asked servers for that it should not know. */
  readonly foreign: string[];
}

/** Without the browser the test is skipped, and says so; where all tests have to run, it fails. */
export function needBrowser({ skip }: Pick<TestContext, 'skip'>): void {
  if (existsSync(executablePath)) return;
  const advice = `There is no ${executablePath}, which tests of pages need: apt-get install chromium`;
  if (process.env['CI'] === 'true') throw new Error(advice);
  console.log(advice);
  skip(advice);
}

/**
 * Opens an empty page in a browser of its own, which is closed with the test.
 * @param origins the servers that the page may ask
 */
export async function openPage(context: Pick<TestContext, 'skip'>, origins: readonly string[]): Promise<OpenPage> {
  needBrowser(context);
  const browser = await launchBrowser();
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

/** Until what a page shows is as expected. */
export const shows = <T>(ask: () => Promise<T>, expected: T): Promise<T> =>
  eventually(ask, (shown) => JSON.stringify(shown) === JSON.stringify(expected)).catch(async () => {
    expect(await ask()).toEqual(expected);
    return expected;
  });
