import type { Page } from 'playwright-core';
import type { TestContext } from 'vitest';
import { expect } from 'vitest';
import { commandLine, serve } from '../cli/program.ts';
import { axeFindings } from '../support/axe.ts';
import { lettersOf, openPage, openTab, shows } from '../support/browser.ts';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { minuteMs, TestClock } from '../support/clock.ts';
import { longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer } from '../support/server.ts';
import { eventually, gate } from '../support/wait.ts';
import { consoleIn } from './agent.ts';

// The inbox of the console in a browser, with an agent before it and visitors behind the service.

/** What visitors and other agents do, through REST. */
function othersOf(client: Client) {
  const ask = async (method: string, path: string, body?: object): Promise<Json> => {
    const answer = await client.rest(method, path, body && { body });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  return {
    ask,
    start: async (name: string, content: string, more: object = {}): Promise<string> =>
      (
        await ask('POST', '/conversations', {
          visitor: { name },
          message: { sender: 'visitor', content },
          ...more,
        })
      ).id,
    write: (id: string, content: string) =>
      ask('POST', `/conversations/${id}/messages`, { sender: 'visitor', content }),
    contents: async (id: string): Promise<string[]> =>
      (await ask('GET', `/conversations/${id}`)).messages.map(({ content }: Json) => content),
  };
}

/** A service, and an agent who has opened its console. */
async function open(context: TestContext) {
  const clock = new TestClock(new Date().toISOString()); // the page shows the same time
  const server = await startTestServer({ clock });
  context.onTestFinished(() => server.close());
  const account = await server.account();
  const opened = await openPage(context, [server.url]);
  await opened.page.setViewportSize({ width: 1440, height: 900 });
  await opened.page.goto(`${server.url}/console`);
  return { ...opened, server, account, others: othersOf(account), agent: consoleIn(opened.page) };
}

test('an agent signs in, sees what arrives, answers, closes and opens again, and is still there after a reload', async (context) => {
  const { page, errors, foreign, server, account, others, agent } = await open(context);
  const tent = await others.start('Ada', 'Where is\n<b>my tent</b>?');
  await agent.signIn(account.secret);
  await shows(agent.names, ['Ada']);
  server.clock.advance(1_000);
  await others.start('Alan', 'Hello');
  await shows(agent.names, ['Alan', 'Ada']);

  await agent.row('Ada').click();
  await shows(agent.texts, ['Where is\n<b>my tent</b>?']);
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Ada');
  expect(await agent.row('Ada').getAttribute('aria-current')).toBe('true');
  server.clock.advance(1_000);
  await others.write(tent, 'Are you there?');
  await shows(agent.texts, ['Where is\n<b>my tent</b>?', 'Are you there?']);
  await shows(agent.names, ['Ada', 'Alan']);
  const readTo = async () => (await others.ask('GET', `/conversations/${tent}`)).readPositions;
  await eventually(readTo, (all) => all.some(({ reader, sequence }: Json) => reader === 'agent-3' && sequence === 2));

  await agent.reply.pressSequentially('It is');
  await agent.reply.press('Shift+Enter');
  await agent.reply.pressSequentially('on its way.');
  await agent.reply.press('Enter');
  const all = ['Where is\n<b>my tent</b>?', 'Are you there?', 'It is\non its way.'];
  await shows(agent.texts, all);
  await eventually(agent.isSent, (isSent) => isSent);
  expect(await others.contents(tent)).toEqual(all);
  expect((await others.ask('GET', `/conversations/${tent}`)).messages[2].author).toEqual({
    id: 'agent-3',
    name: 'Grace',
  });

  await agent.button('Assign to me').click();
  await agent.thread.locator('.assignee', { hasText: 'Assigned to me' }).waitFor();
  await agent.thread.locator('summary').click();
  await agent.thread.getByLabel('New tag').fill('urgent');
  await agent.button('Add tag').click();
  await agent.button('Remove the tag urgent').waitFor();
  await agent.thread.getByLabel('Subject').fill('A tent');
  await agent.button('Save subject').click();
  await shows(() => agent.row('Ada').locator('.subject').allTextContents(), ['A tent']);
  await agent.button('Close').click();
  await shows(agent.names, ['Alan']);
  await agent.button('Reopen').click();
  await shows(agent.names, ['Ada', 'Alan']);
  expect(await others.ask('GET', `/conversations/${tent}`)).toMatchObject({
    status: 'active',
    subject: 'A tent',
    tags: ['urgent'],
    assignee: { id: 'agent-3', name: 'Grace' },
  });

  await page.reload();
  await shows(agent.texts, all);
  await page.goto(`${server.url}/console#/inbox/conv_unknown`);
  await agent.thread.getByText('does not exist').waitFor();
  await agent.button('Sign out').click();
  await page.getByLabel('API key').waitFor();
  await page.reload();
  await page.getByLabel('API key').waitFor();
  expect(await page.evaluate('JSON.stringify([sessionStorage, localStorage])')).not.toMatch(/eyJ|cs_/);
  expect([errors, foreign]).toEqual([[], []]);
});

test('words that are too long break on a phone, tags that are too many are counted, and what is written from right to left is shown so', async (context) => {
  const { page, server, account, others, agent } = await open(context);
  await page.setViewportSize({ width: 390, height: 844 });
  const long = 'Donaudampfschifffahrtsgesellschaft'.repeat(3);
  const about = {
    subject: long,
    assignee: { id: 'agent-9', name: long },
    tags: ['x'.repeat(50), 'two', 'three', 'four', 'five', 'six'],
  };
  const id = await others.start(long, 'שלום!', about);
  await others.ask('POST', '/leads', { name: long, email: 'ada@example.com' });
  await agent.signIn(account.secret);
  await shows(agent.names, [long]);
  const fits = (selector: string) =>
    page.locator(selector).evaluateAll((all) => all.every((each) => each.scrollWidth <= each.clientWidth));
  expect([await fits('.rows'), await fits('.marks')]).toEqual([true, true]);
  await agent.row(long).getByText('+2 tags').waitFor();
  await page.goto(`${server.url}/console#/inbox/${id}`);
  await shows(agent.texts, ['שלום!']);
  await agent.thread.locator('summary').click();
  expect([await fits('.thread-head'), await fits('.log')]).toEqual([true, true]);
  const [content] = await lettersOf(agent.thread.locator('.content'));
  expect(content?.areInOrder('!', 'ש')).toBe(true);
  // The name leaves room for the next column.
  await page.goto(`${server.url}/console#/leads`);
  const name = page.getByRole('rowheader', { name: long });
  expect((await name.boundingBox())?.width).toBeLessThan(340);
});

test('searching and filtering show what fits, with the matches marked', async (context) => {
  const { errors, account, others, agent } = await open(context);
  const assignee = { id: 'agent-3', name: 'Grace' };
  await others.start('Ada', 'Where is my tent?', { assignee, tags: ['delivery'] });
  const lamp = await others.start('Alan', 'The lamp is broken, and the tent too.');
  await others.ask('PATCH', `/conversations/${lamp}`, { status: 'closed' });
  await agent.signIn(account.secret);
  await shows(agent.names, ['Ada']);
  expect(await agent.row('Ada').locator('.unread').textContent()).toContain('1');

  const field = agent.page.getByRole('searchbox');
  await agent.list.getByLabel('Status').selectOption('all');
  await shows(agent.names, ['Alan', 'Ada']);
  await field.pressSequentially('tent');
  await shows(() => agent.list.locator('mark').allTextContents(), ['tent', 'tent']);
  await agent.list.getByLabel('Status').selectOption('closed');
  await shows(agent.names, ['Alan']);
  await field.fill('');
  await shows(() => agent.list.locator('mark').count(), 0);
  await agent.list.getByLabel('Status').selectOption('open');
  await agent.list.getByLabel('Assignee').selectOption('mine');
  await agent.list.getByLabel('Tag').fill('delivery');
  await agent.list.getByLabel('Tag').press('Enter');
  await agent.list.getByLabel('Unread').check();
  await shows(agent.names, ['Ada']);
  await agent.list.getByLabel('Assignee').selectOption('nobody');
  await shows(agent.names, []);
  expect(errors).toEqual([]);
});

test('a list whose rows were all closed says that there are none only if that is so', async (context) => {
  const { others, agent, account } = await open(context);
  for (let number = 1; number <= 51; number++) await others.start(`${number}`, 'Hello');
  await agent.signIn(account.secret);
  await shows(async () => (await agent.names()).length, 50);
  const { data } = await others.ask('GET', '/conversations?limit=50');
  for (const { id } of data) await others.ask('PATCH', `/conversations/${id}`, { status: 'closed' });
  await shows(agent.names, []);
  const none = agent.list.getByText('No conversations with this filter.');
  expect(await none.count()).toBe(0);
  await agent.button('Load more').click();
  await shows(agent.names, ['1']);
  const last = (await others.ask('GET', '/conversations?status=pending')).data[0].id;
  await others.ask('PATCH', `/conversations/${last}`, { status: 'closed' });
  await none.waitFor();
});

test('while the service is away the page says so, and then goes on without a missed or doubled message', async (context) => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { apiKey } = await commandLine(databasePath).json<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'A', '--plan', 'business'],
  );
  let running = await serve(databasePath);
  const { url } = running;
  const others = othersOf(clientOf(url, apiKey.secret));
  const id = await others.start('Ada', 'Hello');
  const { page, foreign } = await openPage(context, [url]);
  await page.goto(`${url}/console`);
  const agent = consoleIn(page);
  await page.setViewportSize({ width: 1440, height: 900 });
  await agent.signIn(apiKey.secret);
  await agent.row('Ada').click();
  await shows(agent.texts, ['Hello']);
  await shows(() => agent.connection.textContent(), 'Live');
  const texts = ['Hello'];
  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGKILL'] as const) {
    running.signal(signal);
    await running.ended;
    await shows(() => agent.connection.textContent(), 'Connecting …');
    await agent.answer(`while away ${texts.length}`);
    running = await serve(databasePath, { PORT: new URL(url).port });
    const startedMs = performance.now();
    await others.write(id, `after ${texts.length}`);
    await shows(() => agent.connection.textContent(), 'Live');
    await eventually(agent.isSent, (isSent) => isSent);
    texts.push(...(await others.contents(id)).slice(texts.length));
    await shows(agent.texts, texts);
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    await others.start(`Visitor ${texts.length}`, 'Hello');
  }
  expect(texts).toHaveLength(7);
  await shows(agent.names, ['Visitor 7', 'Ada', 'Visitor 5', 'Visitor 3']);
  expect(foreign).toEqual([]);
});

test('however long the service was away, the page is back within seconds', async (context) => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const clock = new TestClock(new Date().toISOString());
  let server = await startTestServer({ databasePath, clock });
  context.onTestFinished(() => server.close());
  const { secret } = await server.account();
  const { page } = await openPage(context, [server.url]);
  await page.clock.install();
  await page.goto(`${server.url}/console`);
  const agent = consoleIn(page);
  await agent.signIn(secret);
  await shows(() => agent.connection.textContent(), 'Live');
  const config = { port: Number(new URL(server.url).port) };
  await server.close();
  for (let tries = 0; tries < 20; tries++) {
    const tried = page.waitForEvent('websocket');
    await page.clock.fastForward(5_000);
    await tried;
  }
  server = await startTestServer({ databasePath, clock, config });
  const startedMs = performance.now();
  await othersOf(server.clientFor(secret)).start('Ada', 'Hello');
  await shows(agent.names, ['Ada']);
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  expect(await agent.connection.textContent()).toBe('Live');
});

test('a page that was loaded while the service is away says so, and goes on by itself', async (context) => {
  const { page, account, others, agent } = await open(context);
  await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await shows(agent.names, ['Ada']);
  const token = '**/console/session/token';
  let tries = 0;
  await page.route(token, (route) =>
    ++tries % 2 ? route.abort() : route.fulfill({ status: 502, body: 'Bad gateway' }),
  );
  await page.reload();
  await page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' }).waitFor();
  await page.getByText('It goes on by itself when the service is back.').waitFor();
  await page.getByRole('alert').filter({ hasText: 'The service answers 502.' }).waitFor();
  await page.unroute(token);
  await shows(agent.names, ['Ada']);
  expect(await page.getByRole('alert').count()).toBe(0);
});

test('a token is renewed when it ends, and nobody notices', async (context) => {
  const { page, server, account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await shows(() => agent.connection.textContent(), 'Live');
  await page.evaluate(`globalThis.changes = 0;
    new MutationObserver(() => globalThis.changes++).observe(
      document.querySelector('.connection'), { childList: true, characterData: true, subtree: true })`);
  const renewed = page.waitForResponse((response) => response.url().endsWith('/console/session/token'));
  server.clock.advance(16 * minuteMs);
  await renewed;
  await others.write(id, 'Are you there?');
  await shows(agent.texts, ['Hello', 'Are you there?']);
  await agent.answer('I am.');
  await eventually(agent.isSent, (isSent) => isSent);
  expect([await page.evaluate('globalThis.changes'), await others.contents(id)]).toEqual([
    0,
    ['Hello', 'Are you there?', 'I am.'],
  ]);
});

test('a page that is hidden marks nothing as read until it is seen', async (context) => {
  const { page, account, others, agent } = await open(context);
  const assignee = { id: 'agent-3', name: 'Grace' };
  const id = await others.start('Ada', 'Hello', { assignee });
  const become = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));`);
  const readTo = async (): Promise<number> =>
    (await others.ask('GET', `/conversations/${id}`)).readPositions.find(({ reader }: Json) => reader === 'agent-3')
      .sequence;
  await agent.signIn(account.secret);
  await become('hidden');
  await agent.row('Ada').click();
  await shows(agent.texts, ['Hello']);
  await others.write(id, 'Are you there?');
  await shows(agent.texts, ['Hello', 'Are you there?']);
  await shows(() => agent.row('Ada').locator('.unread').textContent(), '2 unread');
  expect(await readTo()).toBe(0);
  await become('visible');
  await shows(readTo, 2);
  await shows(() => agent.row('Ada').locator('.unread').count(), 0);
});

test('when its key is revoked, the page asks to sign in again and says why', async (context) => {
  const { page, account, others, agent } = await open(context);
  const { id, secret } = await others.ask('POST', '/api-keys', { name: 'console' });
  await page.getByLabel('API key').fill(`cs_${'x'.repeat(43)}`);
  await agent.button('Sign in').click();
  await page.getByRole('alert').filter({ hasText: 'credential' }).waitFor();
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Sign in'); // the keyboard goes on there
  await agent.signIn(secret);
  await shows(() => agent.connection.textContent(), 'Live');
  await others.ask('DELETE', `/api-keys/${id}`);
  await page.getByRole('status').filter({ hasText: 'its API key was revoked' }).waitFor();
  await agent.signIn(account.secret);
  await shows(() => agent.connection.textContent(), 'Live');
});

test('when another tab signs in to another account, the page neither shows it nor writes to it, and says why', async (context) => {
  const { page, server, account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await agent.reply.fill('I have it.');
  const second = await server.account();
  await othersOf(second).start('Alan', 'Good morning');
  const tab = consoleIn(await openTab(page, `${server.url}/console`));
  await tab.button('Sign out').click();
  await tab.signIn(second.secret);
  await shows(tab.names, ['Alan']);
  server.clock.advance(16 * minuteMs); // the tokens end
  await page.getByRole('status').filter({ hasText: 'another account' }).waitFor();
  expect(await agent.row('Alan').count()).toBe(0);
  await agent.signIn(account.secret);
  await shows(() => agent.reply.inputValue(), 'I have it.');
  await agent.reply.press('Enter');
  await shows(() => others.contents(id), ['Hello', 'I have it.']);
});

/** Lets every message that is sent fail, until nothing is routed any more. */
function failSends(page: Page): Promise<unknown> {
  return page.route('**/graphql', (route) =>
    route.request().postData()?.includes('mutation Send') ? route.fulfill({ status: 500 }) : route.continue(),
  );
}

test('what was not sent when a session ended is there in the next one, until the agent signs out', async (context) => {
  const { page, account, others, agent } = await open(context);
  const conversation = await others.start('Ada', 'Hello');
  const { id, secret } = await others.ask('POST', '/api-keys', { name: 'console' });
  await agent.signIn(secret);
  await agent.row('Ada').click();
  await failSends(page);
  await agent.answer('Hello Ada');
  await agent.thread.locator('.has-failed').waitFor();
  await page.unroute('**/graphql');
  await agent.reply.fill('I have it.');
  await others.ask('DELETE', `/api-keys/${id}`);
  await page.getByRole('status').filter({ hasText: 'its API key was revoked' }).waitFor();
  await agent.signIn(account.secret);
  await shows(() => agent.reply.inputValue(), 'I have it.');
  await agent.button('Try again').click();
  await shows(() => others.contents(conversation), ['Hello', 'Hello Ada']);
  await agent.button('Sign out').click();
  await agent.signIn(account.secret);
  await shows(() => agent.reply.inputValue(), '');
});

test('what was not sent into a conversation that was deleted meanwhile is said until that is seen', async (context) => {
  const { page, account, others, agent } = await open(context);
  const conversation = await others.start('Ada', 'Hello');
  await others.start('Alan', 'Good morning');
  const { id, secret } = await others.ask('POST', '/api-keys', { name: 'console' });
  await agent.signIn(secret);
  await agent.row('Ada').click();
  await failSends(page);
  await agent.answer('Hello Ada');
  await agent.thread.locator('.has-failed').waitFor();
  await agent.row('Alan').click();
  await agent.list.getByRole('link', { name: 'a message to Ada' }).waitFor();
  await others.ask('DELETE', `/api-keys/${id}`);
  await page.getByRole('status').filter({ hasText: 'its API key was revoked' }).waitFor();
  await others.ask('DELETE', `/conversations/${conversation}`);
  await agent.signIn(account.secret);
  await agent.list.getByRole('link', { name: 'a message to a conversation' }).click();
  await agent.thread.getByText('has been deleted.').waitFor();
  await agent.row('Alan').click();
  await shows(agent.texts, ['Good morning']);
  expect(await agent.list.getByRole('alert').count()).toBe(0);
});

test('what the key does not allow is said, and nothing breaks', async (context) => {
  const { page, errors, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  const keyWith = async (...scopes: string[]) =>
    (await others.ask('POST', '/api-keys', { name: 'some', scopes })).secret;
  await agent.signIn(await keyWith('conversations:read'));
  await agent.row('Ada').click();
  await agent.thread.getByText('the key lacks the scope conversations:write').waitFor();
  await shows(() => agent.connection.textContent(), 'Not live: the key lacks the scope events:read.');
  expect([await agent.button('Close').isDisabled(), await agent.texts()]).toEqual([true, ['Hello']]);
  await others.write(id, 'Are you there?');
  await agent.button('Refresh').click();
  await shows(agent.texts, ['Hello', 'Are you there?']);
  await agent.button('Sign out').click();
  await page.getByLabel('API key').fill(await keyWith('events:read'));
  await agent.button('Sign in').click();
  await page.getByText('the key lacks the scope conversations:read').waitFor();
  expect(errors).toEqual([]);
});

test('a message that was refused says why, until it is sent or discarded', async (context) => {
  const { others, account, agent, page } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await shows(agent.texts, ['Hello']);
  // The answer is under way when somebody else closes the conversation.
  let isClosed = false;
  await page.route('**/graphql', async (route) => {
    if (!isClosed && route.request().postData()?.includes('sendMessage')) {
      isClosed = true;
      await others.ask('PATCH', `/conversations/${id}`, { status: 'closed' });
    }
    await route.continue();
  });
  await agent.answer('Hello, Ada');
  await agent.thread.getByRole('alert').waitFor();
  expect(await agent.thread.getByRole('alert').textContent()).toMatch(/closed/);
  expect(await agent.texts()).toEqual(['Hello', 'Hello, Ada']);
  await agent.button('Reopen and send').click();
  await eventually(agent.isSent, (isSent) => isSent);
  expect([await agent.texts(), await others.contents(id)]).toEqual([
    ['Hello', 'Hello, Ada'],
    ['Hello', 'Hello, Ada'],
  ]);
});

test('in a narrow page the keyboard leads from the list to a conversation and back', async (context) => {
  const { page, errors, account, others, agent } = await open(context);
  await page.setViewportSize({ width: 390, height: 844 });
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').focus();
  await page.keyboard.press('Enter');
  await shows(agent.texts, ['Hello']);
  const focused = () => page.evaluate('document.activeElement.textContent');
  expect([await focused(), await agent.list.isVisible(), page.url().split('#')[1]]).toEqual([
    'Ada',
    false,
    `/inbox/${id}`,
  ]);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
  await agent.thread.getByRole('link', { name: 'Back to the list' }).press('Enter');
  await shows(() => agent.thread.isVisible(), false);
  expect(await focused()).toContain('Ada');
  expect(errors).toEqual([]);
});

test('the browser asks before the page is left with what was typed, and not when it was sent', async (context) => {
  const { page, account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await page.goto(`${page.url().split('#')[0]}#/inbox/${id}`);
  await agent.reply.fill('I have it');
  const asked = page.waitForEvent('dialog');
  await page.evaluate('void setTimeout(() => location.reload())');
  const dialog = await asked;
  expect(dialog.type()).toBe('beforeunload');
  await dialog.dismiss();
  expect(await agent.reply.inputValue()).toBe('I have it');
  await agent.button('Send').click();
  await shows(agent.texts, ['Hello', 'I have it']);
  await shows(() => agent.thread.getByText('Sending').count(), 0);
  let isAsked = false;
  page.on('dialog', (again) => {
    isAsked = true;
    void again.accept();
  });
  await page.reload();
  await shows(agent.texts, ['Hello', 'I have it']);
  expect(isAsked).toBe(false);
});

test('in a narrow page all of a message can be read, however long the name of its visitor is', async (context) => {
  const { page, account, others, agent } = await open(context);
  await page.setViewportSize({ width: 390, height: 844 });
  const name = `${'ada.lovelace.'.repeat(8)}@example.com`;
  const id = await others.start(name, `Here: https://example.com/${'path/'.repeat(30)}`);
  await agent.signIn(account.secret);
  await page.goto(`${page.url().split('#')[0]}#/inbox/${id}`);
  const message = agent.thread.getByRole('listitem');
  await message.waitFor();
  const box = await message.boundingBox();
  expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThan(390);
});

test('when a conversation is closed or deleted under a reply, the focus stays in it, and what was typed is back with it', async (context) => {
  const { page, account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  const focused = () => page.evaluate('document.activeElement.textContent');
  await agent.reply.fill('I have');
  await others.ask('PATCH', `/conversations/${id}`, { status: 'closed' });
  await agent.thread.getByText('This conversation is closed.').waitFor();
  await shows(focused, 'Ada');
  await agent.button('Reopen').click();
  await shows(() => agent.reply.inputValue(), 'I have');
  await agent.reply.focus();
  await others.ask('DELETE', `/conversations/${id}`);
  await agent.thread.getByText('has been deleted.').waitFor();
  await shows(focused, 'Ada');
  expect(await agent.thread.getByRole('status').textContent()).toBe('deleted'); // which a screen reader says
});

test('what is being typed as a tag or a subject stays while something happens', async (context) => {
  const { account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await agent.thread.locator('summary').click();
  const subject = agent.thread.getByLabel('Subject');
  const tag = agent.list.getByLabel('Tag');
  await subject.fill('A green tent');
  await tag.pressSequentially('deliv');
  await others.ask('PATCH', `/conversations/${id}`, { subject: 'A tent' });
  await agent.thread.locator('summary', { hasText: 'A tent' }).waitFor();
  expect([await subject.inputValue(), await tag.inputValue()]).toEqual(['A green tent', 'deliv']);
  await agent.button('Save subject').click();
  await agent.thread.locator('summary', { hasText: 'A green tent' }).waitFor();
  await others.ask('PATCH', `/conversations/${id}`, { subject: 'A blue tent' });
  await shows(() => subject.inputValue(), 'A blue tent');
});

test('what is typed while a subject or a tag is being saved stays, and the keyboard goes on where it was', async (context) => {
  const { page, account, others, agent } = await open(context);
  await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await agent.thread.locator('summary').click();
  const focused = () => page.evaluate('document.activeElement.textContent');
  let changing = gate();
  await page.route('**/graphql', async (route) => {
    if (route.request().postData()?.includes('updateConversation')) await changing.opened;
    await route.continue();
  });
  const fields = [
    { label: 'Subject', button: 'Save subject', shown: agent.thread.locator('summary bdi'), left: 'tent, green' },
    { label: 'New tag', button: 'Add tag', shown: agent.thread.locator('summary .tag'), left: '' },
  ];
  for (const { label, button, shown, left } of fields) {
    const field = agent.thread.getByLabel(label);
    const isBusy = () => agent.button('Assign to me').isDisabled();
    changing = gate();
    await field.pressSequentially('tent');
    await field.press('Enter');
    await shows(isBusy, true);
    await field.pressSequentially(', green');
    changing.open();
    await shows(() => shown.allTextContents(), ['tent']);
    await shows(isBusy, false);
    expect(await field.inputValue()).toBe('tent, green');

    changing = gate();
    if (label === 'New tag') await field.fill('green');
    await agent.button(button).focus();
    await page.keyboard.press('Enter');
    await shows(isBusy, true);
    expect(await focused()).toBe(button);
    await page.keyboard.press('Enter'); // nothing, since it is busy
    changing.open();
    await shows(isBusy, false);
    expect([await focused(), await field.inputValue()]).toEqual([button, left]);
  }
});

test('a subject that is typed and taken back is not being typed: it follows what others make of it', async (context) => {
  const { account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello', { subject: 'A tent' });
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await agent.thread.locator('summary').click();
  const subject = agent.thread.getByLabel('Subject');
  await subject.press('End');
  await subject.press('s');
  await subject.press('Backspace');
  await others.ask('PATCH', `/conversations/${id}`, { subject: 'A green tent' });
  await agent.thread.locator('summary', { hasText: 'A green tent' }).waitFor();
  expect(await subject.inputValue()).toBe('A green tent');
});

test('a message that is confirmed stays the element that it was while it was sent, so that it is not read out twice', async (context) => {
  const { page, account, others, agent } = await open(context);
  await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await shows(agent.texts, ['Hello']);
  const sending = gate();
  await page.route('**/graphql', async (route) => {
    if (route.request().postData()?.includes('mutation Send')) await sending.opened;
    await route.continue();
  });
  await agent.answer('Hello, Ada');
  const draft = await agent.thread.locator('.is-draft').elementHandle();
  sending.open();
  await eventually(agent.isSent, (isSent) => isSent);
  expect(await draft?.evaluate((element) => element.isConnected)).toBe(true);
});

test('why a message was not sent is in sight, and said also when another conversation is open', async (context) => {
  const { page, account, others, agent } = await open(context);
  const id = await others.start('Ada', '1');
  for (let number = 2; number <= 30; number++) await others.write(id, `${number}`);
  await others.start('Alan', 'Good morning');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await page.route('**/graphql', (route) => {
    const refused = { errors: [{ message: 'The conversation is full.', extensions: { code: 'QUOTA_EXCEEDED' } }] };
    return route.request().postData()?.includes('sendMessage') ? route.fulfill({ json: refused }) : route.continue();
  });
  await agent.answer('Hello, Ada');
  await agent.button('Discard').waitFor();
  const [log, button] = await Promise.all([
    agent.thread.getByRole('log').boundingBox(),
    agent.button('Discard').boundingBox(),
  ]);
  const end = (box: typeof log) => (box?.y ?? 0) + (box?.height ?? 0);
  expect(end(button)).toBeLessThan(end(log));
  await agent.row('Alan').click();
  await shows(agent.texts, ['Good morning']);
  await agent.list.getByRole('alert').getByRole('link', { name: 'a message to Ada' }).click();
  await agent.button('Discard').waitFor();
  expect(await agent.list.getByRole('alert').count()).toBe(0);
});

test('the keyboard goes on where a button was pressed that is busy or gone', async (context) => {
  const { page, server, account, others, agent } = await open(context);
  const id = await others.start('Ada', '1');
  for (let number = 2; number <= 120; number++) await others.write(id, `${number}`);
  for (let number = 1; number <= 120; number++) {
    server.clock.advance(10);
    await others.start(`Visitor ${number}`, 'Hello');
  }
  await agent.signIn(account.secret);
  const press = async (name: string): Promise<void> => {
    await agent.button(name).focus();
    await page.keyboard.press('Enter');
  };
  const focused = () => page.evaluate('document.activeElement.ariaLabel ?? document.activeElement.textContent');
  const lengthOf = (ask: () => Promise<readonly string[]>) => async () => (await ask()).length;
  await shows(lengthOf(agent.names), 50);
  await press('Load more');
  await shows(lengthOf(agent.names), 100);
  expect(await focused()).toBe('Load more');

  await page.goto(`${server.url}/console#/inbox/${id}`);
  await shows(lengthOf(agent.texts), 50);
  await press('Show older messages');
  await shows(lengthOf(agent.texts), 100);
  expect(await focused()).toBe('Show older messages');
  await page.keyboard.press('Enter');
  await shows(lengthOf(agent.texts), 120);
  await shows(focused, 'Messages');

  await page.route('**/graphql', (route) => {
    const refused = { errors: [{ message: 'The conversation is full.', extensions: { code: 'QUOTA_EXCEEDED' } }] };
    return route.request().postData()?.includes('sendMessage') ? route.fulfill({ json: refused }) : route.continue();
  });
  await agent.answer('Hello, Ada');
  await press('Try again');
  await shows(focused, 'Messages');
  await press('Discard');
  await shows(focused, 'Messages');
});

test('a double click closes a conversation once, and does not open it again', async (context) => {
  const { page, account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  const box = await agent.button('Close').boundingBox();
  const [x, y] = [(box?.x ?? 0) + 10, (box?.y ?? 0) + 10];
  await page.mouse.click(x, y);
  await agent.button('Reopen').waitFor();
  await page.mouse.move(x, y);
  await page.mouse.down({ clickCount: 2 });
  await page.mouse.up({ clickCount: 2 });
  await page.reload();
  await agent.button('Reopen').waitFor();
  expect((await others.ask('GET', `/conversations/${id}`)).status).toBe('closed');
});

test('pressing Enter twice closes a conversation once, and does not open it again', async (context) => {
  const { page, account, others, agent } = await open(context);
  const id = await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await agent.button('Close').press('Enter');
  await agent.button('Reopen').waitFor();
  await shows(() => page.evaluate('document.activeElement.textContent'), 'Ada');
  await page.keyboard.press('Enter');
  await page.reload();
  await agent.button('Reopen').waitFor();
  expect((await others.ask('GET', `/conversations/${id}`)).status).toBe('closed');
});

test('what is wrong with a tag is said with the name of its field', async (context) => {
  const { page, account, others, agent } = await open(context);
  await others.start('Ada', 'Hello');
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  await page.getByText('No subject').click();
  await page.getByLabel('New tag').fill('red, blue');
  await agent.button('Add tag').click();
  await shows(
    async () => (await agent.thread.getByRole('alert').textContent())?.trim(),
    'addTags: must not contain a comma.',
  );
});

test('long conversations are read as far back as the agent wants, and stay where they are', async (context) => {
  const { account, others, agent } = await open(context);
  const id = await others.start('Ada', '1');
  for (let number = 2; number <= 120; number++) await others.write(id, `${number}`);
  await agent.signIn(account.secret);
  await agent.row('Ada').click();
  const numbers = (from: number) => Array.from({ length: 121 - from }, (_, at) => `${from + at}`);
  await shows(agent.texts, numbers(71));
  const log = agent.thread.getByRole('log');
  const isAtEnd = () => log.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2);
  await eventually(isAtEnd, (holds) => holds);
  await log.evaluate((element) => element.scrollTo(0, 0));
  const item = log.locator('.content', { hasText: /^71$/ });
  const before = (await item.boundingBox())?.y ?? 0;
  await agent.button('Show older messages').click();
  await shows(agent.texts, numbers(21));
  expect(Math.abs(((await item.boundingBox())?.y ?? 0) - before)).toBeLessThan(60); // where the button was
  await agent.button('Show older messages').click();
  await shows(agent.texts, numbers(1));
  expect(await agent.button('Show older messages').count()).toBe(0);
});

test.for([
  { colorScheme: 'light', width: 390 },
  { colorScheme: 'dark', width: 390 },
  { colorScheme: 'light', width: 1440 },
  { colorScheme: 'dark', width: 1440 },
] as const)('axe finds nothing in $colorScheme colours at $width pixels', async ({ colorScheme, width }, context) => {
  const { page, account, others, agent, server } = await open(context);
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: 844 });
  expect(await axeFindings(page)).toEqual([]);
  const assignee = { id: 'agent-3', name: 'Grace' };
  const more = { subject: 'An order', assignee, tags: ['urgent', 'delivery'], metadata: { order: 1042 } };
  const id = await others.start('Ada Lovelace', 'Where is my tent?', more);
  server.clock.advance(1_000);
  await others.start('Alan', 'Hello');
  await others.ask('PATCH', `/conversations/${id}`, { status: 'active' });
  await agent.signIn(account.secret);
  await shows(agent.names, ['Alan', 'Ada Lovelace']);
  expect(await axeFindings(page)).toEqual([]);
  await page.getByRole('searchbox').fill('tent');
  await agent.list.locator('mark').waitFor();
  expect(await axeFindings(page)).toEqual([]);
  await agent.row('Ada').click();
  await agent.answer('It is on its way.');
  await eventually(agent.isSent, (isSent) => isSent);
  await agent.thread.locator('summary').click();
  expect(await axeFindings(page)).toEqual([]);
  await page.route('**/graphql', (route) => {
    const refused = { errors: [{ message: 'The conversation is full.', extensions: { code: 'QUOTA_EXCEEDED' } }] };
    return route.request().postData()?.includes('sendMessage') ? route.fulfill({ json: refused }) : route.continue();
  });
  await agent.answer('And it is green.');
  await agent.button('Try again').waitFor();
  expect(await axeFindings(page)).toEqual([]);
  await agent.button('Close').click();
  await agent.button('Reopen').waitFor();
  expect(await axeFindings(page)).toEqual([]);
});
