import { existsSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
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

/** Signs in to the console, whose session the other pages use, too. */
export async function signInToConsole(page: Page, url: string, secret: string): Promise<void> {
  await page.goto(`${url}/console`);
  await page.getByLabel('API key').fill(secret);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

/** Another tab of the same browser, with a place of its own. */
export async function openTab(page: Page, url: string): Promise<Page> {
  const opened = page.context().waitForEvent('page');
  await page.evaluate(`void window.open(${JSON.stringify(url)}, '_blank', 'noopener')`);
  return await opened;
}

/** Until what a page shows is as expected. */
export const shows = <T>(ask: () => Promise<T>, expected: T): Promise<T> =>
  eventually(ask, (shown) => JSON.stringify(shown) === JSON.stringify(expected)).catch(async () => {
    expect(await ask()).toEqual(expected);
    return expected;
  });

/** Where the letters of elements are shown. */
export async function lettersOf(elements: Locator) {
  const found = await elements.evaluateAll((all) =>
    all.map((element) => {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      const letters: DOMRect[] = [];
      for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        for (let at = 0; at < (node.nodeValue ?? '').length; at++) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + 1);
          letters.push(range.getBoundingClientRect());
        }
      }
      const [lefts, rights] = [letters.map(({ left }) => left), letters.map(({ right }) => right)];
      return { text: element.textContent, lefts, rights };
    }),
  );
  return found.map((each) => ({
    ...each,
    /** Whether these letters are shown from left to right. */
    areInOrder(...letters: string[]): boolean {
      const places = letters.map((letter) => each.lefts[each.text.indexOf(letter)] ?? Number.NaN);
      return places.every((place, at) => at === 0 || place > (places[at - 1] ?? Number.NaN));
    },
  }));
}
