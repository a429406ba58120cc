import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** What axe finds in a page as it is shown now: each rule that is broken, and where. */
export async function axeFindings(page: Page, excepted: readonly string[] = []): Promise<readonly string[][]> {
  await page.evaluate(axe);
  const violations = (await page.evaluate('axe.run().then(({ violations }) => violations)')) as readonly Finding[];
  const found = violations.filter(({ id }) => !excepted.includes(id));
  return found.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]);
}
