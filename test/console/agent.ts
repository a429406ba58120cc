import type { Page } from 'playwright-core';

/** What an agent sees and does. */
export function consoleIn(page: Page) {
  const list = page.getByRole('region', { name: 'Conversations' });
  const thread = page.getByRole('region', { name: 'Conversation', exact: true });
  const reply = thread.getByRole('textbox', { name: 'Reply' });
  return {
    page,
    list,
    thread,
    reply,
    connection: page.locator('header [role=status]').first(),
    /** The names of the visitors in the list, in their order. */
    names: (): Promise<string[]> => list.locator('li .name').allTextContents(),
    row: (name: string) => list.getByRole('link').filter({ hasText: name }),
    texts: (): Promise<string[]> => thread.locator('li .content').allTextContents(),
    /** Whether all that was written is confirmed. */
    isSent: async (): Promise<boolean> => (await thread.locator('.is-draft, .has-failed').count()) === 0,
    button: (name: string) => page.getByRole('button', { name, exact: true }),
    async signIn(secret: string): Promise<void> {
      await page.getByLabel('API key').fill(secret);
      await page.getByLabel('Your name').fill('Grace');
      await page.getByLabel('Your id').fill('agent-3');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await list.waitFor();
    },
    async answer(text: string): Promise<void> {
      await reply.fill(text);
      await reply.press('Enter');
    },
  };
}
