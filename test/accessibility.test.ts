import { expect } from 'vitest';
import { axeFindings } from './support/axe.ts';
import { openPage } from './support/browser.ts';
import { longTest as test } from './support/effort.ts';
import { startTestServer } from './support/server.ts';

// Whoever can't see a page, or uses it with the keyboard alone, can use the pages that the service serves: axe finds nothing.

test.for([
  ['/', 'h1'],
  ['/docs', 'h1'],
  ['/graphql', '.tools'],
] as const)('axe finds nothing in %s, light and dark, on a phone and on a desk', async ([path, shown], context) => {
  const server = await startTestServer();
  context.onTestFinished(() => server.close());
  const { page } = await openPage(context, [server.url]);
  for (const width of [390, 1_440]) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(`${server.url}${path}`);
      await page.waitForSelector(shown);
      expect(await axeFindings(page)).toEqual([]);
    }
  }
});
