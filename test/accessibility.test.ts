import { expect } from 'vitest';
import { axeFindings } from './support/axe.ts';
import { openPage } from './support/browser.ts';
import { longTest as test } from './support/effort.ts';
import { startTestServer } from './support/server.ts';

// Whoever can't see a page, or uses it with the keyboard alone, can use the pages that the service serves: axe finds nothing.

/** What axe finds in the markup of GraphiQL, which comes from its library as a whole: nothing in it is of this service. */
const ofGraphiQL = [
  'color-contrast', // of the title, in the library’s colour
  'landmark-one-main',
  'nested-interactive', // the close button in a tab
  'page-has-heading-one',
  'region',
];

test.for([
  ['/', 'h1', []],
  ['/docs', 'h1', []],
  ['/graphql', '.graphiql-container', ofGraphiQL],
] as const)('axe finds nothing in %s that is of this service', async ([path, shown, excepted], context) => {
  const server = await startTestServer();
  context.onTestFinished(() => server.close());
  const { page } = await openPage(context, [server.url]);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.goto(`${server.url}${path}`);
    await page.waitForSelector(shown);
    expect(await axeFindings(page, excepted)).toEqual([]);
  }
});
