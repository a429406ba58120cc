import type { Page } from 'playwright-core';
import type { TestContext } from 'vitest';
import { expect } from 'vitest';
import { analytics } from '../../src/console/documents-of-views.ts';
import { axeFindings } from '../support/axe.ts';
import { lettersOf, openPage, shows, signInToConsole } from '../support/browser.ts';
import type { Client, Json } from '../support/client.ts';
import { hourMs, minuteMs, TestClock } from '../support/clock.ts';
import { longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { Receiver } from '../support/receiver.ts';
import { startTestServer } from '../support/server.ts';
import { eventually, gate } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';

// The views of the console beside the inbox, in the browser of somebody who has signed in.

interface Options {
  /** Those of the key, if it has not all of them. */
  readonly scopes?: readonly string[];
  readonly databasePath?: string;
  readonly clock?: TestClock;
}

async function open(context: TestContext, options: Options = {}) {
  const { scopes, clock = new TestClock(new Date().toISOString()), ...file } = options; // the page shows the same time
  const server = await startTestServer({ ...file, clock, config: { webhookPolicy: anywhere } });
  context.onTestFinished(() => server.close());
  const account = await server.account();
  const opened = await openPage(context, [server.url]);
  const { page } = opened;
  const secret = scopes ? (await ask(account, 'POST', '/api-keys', { name: 'narrow', scopes })).secret : account.secret;
  const signIn = async (): Promise<void> => {
    await signInToConsole(page, server.url, secret);
    opened.errors.length = 0; // the browser has noted that nobody had signed in yet
  };
  await signIn();
  return {
    ...opened,
    server,
    clock,
    account,
    secret,
    signIn,
    async show(view: string): Promise<void> {
      await page.goto(`${server.url}/console#/${view}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
    },
  };
}

async function ask(client: Client, method: string, path: string, body?: object): Promise<Json> {
  const answer = await client.rest(method, path, body && { body });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** The texts of the cells of a table, row by row. */
const cellsOf = async (page: Page, caption: string): Promise<string[][]> => {
  const rows = await page.getByRole('table', { name: caption }).locator('tbody tr').all();
  return await Promise.all(rows.map((row) => row.locator('th, td').allInnerTexts()));
};

const count = (page: Page, caption: string, expected: number): Promise<string[][]> =>
  eventually(
    () => cellsOf(page, caption),
    (rows) => rows.length === expected,
  );

test('the view is that of the address, also if it changes in the moment after the first one is drawn', async (context) => {
  const { page, errors, account, show } = await open(context);
  await ask(account, 'POST', '/conversations', { subject: 'A tent' });
  await page.addInitScript(`new MutationObserver((_, observer) => {
    if (document.querySelector('nav') === null) return;
    observer.disconnect();
    location.hash = '#/events';
  }).observe(document, { childList: true, subtree: true })`);
  await page.reload();
  await count(page, 'Events, newest first', 1);
  await show('leads');
  await page.getByText('There are no leads yet.').waitFor();
  expect(errors).toEqual([]);
});

test('leads are listed page by page, found by their email address, and appear as they are captured', async (context) => {
  const { page, errors, foreign, account, show } = await open(context);
  await show('leads');
  await page.getByText('There are no leads yet.').waitFor();
  const { id } = await ask(account, 'POST', '/conversations', { subject: 'A tent' });
  const ada = { name: 'Ada', email: 'ada@example.com', phone: '+49 30 1234', company: 'Engines' };
  await ask(account, 'POST', '/leads', { ...ada, conversationId: id });
  const caption = 'Leads, newest first';
  const [row] = await count(page, caption, 1);
  expect(row?.slice(0, 4)).toEqual(['Ada', 'ada@example.com', '+49 30 1234', 'Engines']);
  expect(await page.getByRole('link', { name: 'Open the conversation of Ada' }).getAttribute('href')).toBe(
    `#/inbox/${id}`,
  );

  for (let n = 1; n <= 60; n++) await ask(account, 'POST', '/leads', { name: `Lead ${n}`, phone: `+49 30 ${n}` });
  await count(page, caption, 61);
  await page.reload();
  await count(page, caption, 50);
  await page.getByRole('button', { name: 'Load more' }).click();
  const all = await count(page, caption, 61);
  expect([all[0]?.[0], all[60]?.[0]]).toEqual(['Lead 60', 'Ada']);
  expect(await page.getByRole('button', { name: 'Load more' }).isVisible()).toBe(false);

  await page.getByLabel('Email address').fill('ADA@example.com');
  await page.keyboard.press('Enter');
  await count(page, caption, 1);
  await page.getByRole('button', { name: 'Show all' }).click();
  await count(page, caption, 50);
  // With a conversation its leads are deleted.
  await page.getByLabel('Email address').fill('ada@example.com');
  await page.keyboard.press('Enter');
  await count(page, caption, 1);
  await ask(account, 'DELETE', `/conversations/${id}`);
  await page.getByText('No lead has the email address ada@example.com.').waitFor();
  expect([errors, foreign]).toEqual([[], []]);
});

test('what a visitor leaves as an email address adds nobody and no text to a message to it', async (context) => {
  const { page, account, show } = await open(context);
  const email = 'ada@example.com?bcc=eve@example.com&body=Pay%20here#,mallory@example.com';
  await ask(account, 'POST', '/leads', { email });
  await show('leads');
  const href = (await page.getByRole('link', { name: email }).getAttribute('href')) ?? '';
  expect([new URL(href).search, decodeURIComponent(new URL(href).pathname)]).toEqual(['', email]);
  expect(href).not.toContain(',');
});

test.for([
  ['leads', 'Leads, newest first'],
  ['events', 'Events, newest first'],
] as const)(
  'what could not be read of the %s while the service was away is shown when it is back',
  async ([view, caption], context) => {
    const config = { databasePath: `${temporaryFolder()}/test.db`, clock: new TestClock(new Date().toISOString()) };
    const { server, page, account, show } = await open(context, config);
    await ask(account, 'POST', '/leads', { name: 'Ada', phone: '+49 30 1234' });
    await server.close();
    await show(view);
    await page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' }).waitFor();
    const again = await startTestServer({ ...config, config: { port: Number(new URL(server.url).port) } });
    context.onTestFinished(() => again.close());
    await count(page, caption, 1);
    expect(await page.getByRole('alert').count()).toBe(0);
  },
);

test('events that could not be read on while the service was away are read when it is back, after those shown', async (context) => {
  const config = { databasePath: `${temporaryFolder()}/test.db`, clock: new TestClock(new Date().toISOString()) };
  const { server, page, account, show } = await open(context, config);
  for (let n = 1; n <= 120; n++) await ask(account, 'POST', '/leads', { email: `lead-${n}@example.com` });
  await show('events');
  await page.getByRole('button', { name: 'Read from the oldest event' }).click();
  await count(page, 'Events, newest first', 100);
  await server.close();
  await page.getByRole('button', { name: 'Read the next 100' }).click();
  await page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' }).waitFor();
  const again = await startTestServer({ ...config, config: { port: Number(new URL(server.url).port) } });
  context.onTestFinished(() => again.close());
  await count(page, 'Events, newest first', 120);
  expect(await page.getByRole('alert').count()).toBe(0);
});

test('the log of events says that it follows only while it does, and goes on as soon as the page is live', async (context) => {
  const config = { databasePath: `${temporaryFolder()}/test.db`, clock: new TestClock(new Date().toISOString()) };
  const { server, page, account, show } = await open(context, config);
  await page.clock.install();
  await show('events');
  const said = page.locator('.view').getByRole('status');
  await shows(() => said.textContent(), 'Live');
  await server.close();
  const connection = page.locator('.connection');
  await shows(() => connection.textContent(), 'Connecting …');
  await shows(() => said.textContent(), '');
  for (let tries = 0; tries < 10; tries++) {
    const tried = page.waitForEvent('websocket');
    await page.clock.fastForward(5_000);
    await tried;
  }
  const again = await startTestServer({ ...config, config: { port: Number(new URL(server.url).port) } });
  context.onTestFinished(() => again.close());
  await ask(again.clientFor(account.secret), 'POST', '/conversations', { subject: 'A tent' });
  await count(page, 'Events, newest first', 1);
  expect([await connection.textContent(), await said.textContent()]).toEqual(['Live', 'Live']);
});

test('what was written from right to left stands in its order in an event', async (context) => {
  const { page, account, show } = await open(context);
  const { id } = await ask(account, 'POST', '/conversations', { subject: 'אוהל' });
  await ask(account, 'PATCH', `/conversations/${id}`, { subject: 'דואר' });
  await ask(account, 'POST', '/leads', { conversationId: id, name: 'דנה', phone: '+49 30' });
  await show('events');
  await count(page, 'Events, newest first', 3);
  const [change] = await lettersOf(page.getByText('subject: '));
  const [lead] = await lettersOf(page.locator('td div', { hasText: '+49 30' }));
  expect([change?.text, lead?.text]).toEqual(['subject: אוהל → דואר', 'דנה, +49 30']);
  expect([change?.areInOrder('ל', '→', 'ר'), lead?.areInOrder('ה', '4', '3')]).toEqual([true, true]);
});

test('events appear as they happen, of the types chosen, and none is missed while it is paused', async (context) => {
  const { page, errors, foreign, account, show } = await open(context);
  const { id } = await ask(account, 'POST', '/conversations', { subject: 'A tent' });
  await show('events');
  const caption = 'Events, newest first';
  const [started] = await count(page, caption, 1);
  expect([started?.[0], started?.[1], started?.[3]]).toEqual(['conversation.started', 'A tent', '1']);

  await ask(account, 'POST', `/conversations/${id}/messages`, { sender: 'visitor', content: 'Is it green?' });
  await ask(account, 'PATCH', `/conversations/${id}`, { subject: 'A green tent', tags: ['tents'] });
  await ask(account, 'POST', '/leads', { email: 'ada@example.com', conversationId: id });
  const rows = await count(page, caption, 4);
  const words = rows.map(([type, what = '', , sequence]) => [sequence, type, what.split('\n')]);
  expect(words).toEqual([
    ['4', 'lead.captured', ['A green tent', 'ada@example.com']],
    ['3', 'conversation.updated', ['A green tent', 'subject: A tent → A green tent', 'tags: nothing → tents']],
    ['2', 'message.received', ['A tent', 'visitor: Is it green?']],
    ['1', 'conversation.started', ['A tent']],
  ]);

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused.').waitFor();
  await ask(account, 'PATCH', `/conversations/${id}`, { status: 'closed' });
  await page.getByRole('link', { name: 'Leads' }).click();
  await page.getByRole('link', { name: 'Events' }).click();
  expect((await count(page, caption, 5))[0]?.[0]).toBe('conversation.closed');

  await page.getByText('Types: all').click();
  await page.getByLabel('conversation.deleted').check();
  await page.getByText('Nothing has happened yet.').waitFor();
  await page.getByLabel('lead.captured').check();
  await count(page, caption, 1);
  await ask(account, 'DELETE', `/conversations/${id}`);
  const [deleted] = await count(page, caption, 2);
  expect(deleted?.slice(0, 2)).toEqual(['conversation.deleted', `The conversation ${id} was deleted.`]);
  await page.reload();
  await page.getByText('Erased: its conversation was deleted.').first().waitFor();
  expect([errors, foreign]).toEqual([[], []]);
});

/** Chooses types in the events view, by their boxes. */
const choose = async (page: Page, type: string): Promise<void> => {
  const boxes = page.locator('details');
  if ((await boxes.getAttribute('open')) === null) await boxes.locator('summary').click();
  await page.getByLabel(type).check();
};

test('an event that arrives when other types have just been shown is there once, and only if it is of these', async (context) => {
  const { page, errors, account, show } = await open(context);
  const { id } = await ask(account, 'POST', '/conversations', { subject: 'A tent' });
  // The events that sockets receive can be held back, until the table shows what was chosen.
  await page.addInitScript(`const { get, set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage');
    Object.defineProperty(WebSocket.prototype, 'onmessage', { get, set(take) {
      const isHeld = ({ data }) => globalThis.held && JSON.parse(data).type === 'next';
      set.call(this, (event) => isHeld(event) ? globalThis.held.push(() => take(event)) : take(event));
    } });
    globalThis.hold = () => {
      globalThis.held = [];
      new MutationObserver((_, observer) => {
        if (document.querySelectorAll('tbody tr').length !== 2) return;
        observer.disconnect();
        const all = globalThis.held;
        globalThis.held = undefined;
        for (const each of all) each();
      }).observe(document, { childList: true, subtree: true });
    };`);
  await page.reload();
  await show('events');
  const caption = 'Events, newest first';
  await count(page, caption, 1);
  const write = () => ask(account, 'POST', `/conversations/${id}/messages`, { sender: 'visitor', content: 'Hello' });
  await page.evaluate('hold()');
  await write();
  await ask(account, 'PATCH', `/conversations/${id}`, { subject: 'A green tent' });
  await write();
  // Two sockets, which follow for all views and for this one, are told of three events.
  await shows(() => page.evaluate('held?.length'), 6);
  await choose(page, 'message.received');
  await count(page, caption, 2);
  await write();
  const sequences = async () => (await cellsOf(page, caption)).map(([, , , sequence]) => sequence);
  await shows(sequences, ['5', '4', '2']);
  expect(errors).toEqual([]);
});

test('the types that were chosen last are shown, and what was asked for before them is given up', async (context) => {
  const { page, errors, account, show } = await open(context);
  const { id } = await ask(account, 'POST', '/conversations', { subject: 'A tent' });
  await ask(account, 'POST', `/conversations/${id}/messages`, { sender: 'visitor', content: 'Hello' });
  await show('events');
  const caption = 'Events, newest first';
  await count(page, caption, 2);
  const late = gate();
  context.onTestFinished(() => late.open());
  const isOfOne = (text: string | null): boolean => text?.includes('query Log') === true && !text.includes('STARTED');
  await page.route('**/graphql', async (route) => {
    if (isOfOne(route.request().postData())) await late.opened;
    else await route.continue();
  });
  const types = async () => (await cellsOf(page, caption)).map(([type]) => type);
  const givenUp = page.waitForEvent('requestfailed', (request) => isOfOne(request.postData()));
  await choose(page, 'message.received');
  await choose(page, 'conversation.started');
  await givenUp;
  await page.getByText('Types: conversation.started, message.received').waitFor();
  await ask(account, 'POST', `/conversations/${id}/messages`, { sender: 'visitor', content: 'Hello' });
  await shows(types, ['message.received', 'message.received', 'conversation.started']);
  expect(await page.getByRole('alert').count()).toBe(0);
  expect(errors).toEqual([]);
});

test('a long log is followed from now on, and read from its oldest event when that is asked for', async (context) => {
  const { page, errors, account, show } = await open(context);
  for (let n = 1; n <= 120; n++) await ask(account, 'POST', '/leads', { email: `lead-${n}@example.com` });
  await show('events');
  const caption = 'Events, newest first';
  await page.getByText('Nothing has happened yet.').waitFor();
  await ask(account, 'POST', '/leads', { email: 'lead-121@example.com' });
  expect((await count(page, caption, 1))[0]?.[3]).toBe('121');
  await page.getByRole('button', { name: 'Read from the oldest event' }).click();
  expect((await count(page, caption, 100))[0]?.[3]).toBe('100');
  await page.getByRole('button', { name: 'Read the next 100' }).click();
  expect((await count(page, caption, 121))[0]?.[3]).toBe('121');
  await ask(account, 'POST', '/leads', { email: 'lead-122@example.com' });
  expect((await count(page, caption, 122))[0]?.[3]).toBe('122');
  expect(errors).toEqual([]);
});

test('a webhook is created, tested, resent, changed and deleted', async (context) => {
  const { page, errors, foreign, account, clock, show } = await open(context);
  const receiver = await Receiver.open(clock, ({ number }) =>
    number === 1 ? { status: 503, body: 'Closed for lunch' } : { status: 200, body: 'Thanks' },
  );
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await show('webhooks');
  await page.getByRole('button', { name: 'New webhook' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('URL').fill('ftp://example.com');
  await dialog.getByRole('button', { name: 'Create' }).click();
  expect(await dialog.getByRole('alert').innerText()).toMatch(/^url: must be .+\.$/);
  await dialog.getByLabel('URL').fill(`${receiver.url}/hooks`);
  await dialog.getByLabel('Description').fill('To the shop');
  await dialog.getByLabel('lead.captured').uncheck();
  await dialog.getByRole('button', { name: 'Create' }).click();
  const secret = await dialog.getByLabel('Secret').inputValue();
  expect(secret).toMatch(/^whsec_/);
  receiver.trust('/hooks', secret);
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await dialog.getByText('Copied.').waitFor();
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe(secret);
  await dialog.getByRole('button', { name: 'Done' }).click();
  const focused = () => page.evaluate('document.activeElement.innerText');
  await shows(focused, 'New webhook');
  const [made] = (await ask(account, 'GET', '/webhooks')).data;
  expect([made.url, made.description, made.events]).toEqual([
    `${receiver.url}/hooks`,
    'To the shop',
    ['conversation.started', 'message.received', 'conversation.closed'],
  ]);

  await page.getByRole('link', { name: made.url }).click();
  await page.getByText('Nothing has been sent yet.').waitFor();
  await shows(focused, made.url);
  await page.getByRole('main').getByRole('link', { name: 'Webhooks' }).click();
  await shows(focused, 'Webhooks');
  await page.getByRole('link', { name: made.url }).click();
  await page.getByText('Nothing has been sent yet.').waitFor();
  await shows(focused, made.url);
  await page.getByRole('button', { name: 'Send a test' }).click();
  const deliveries = 'Deliveries, newest first';
  const [delivery] = await eventually(
    () => cellsOf(page, deliveries),
    ([row]) => row?.[3] === '1',
  );
  expect(delivery?.slice(1, 4)).toEqual(['conversation.started (test)', 'failed', '1']);
  await page.getByRole('table', { name: deliveries }).getByRole('link').click();
  const attempts = 'Attempts, oldest first';
  const [failed] = await count(page, attempts, 1);
  expect([failed?.[1], failed?.[3], failed?.[4]]).toEqual(['503', 'a request', 'Closed for lunch']);
  await page.getByRole('button', { name: 'Resend' }).click();
  const [, succeeded] = await count(page, attempts, 2);
  expect([succeeded?.[1], succeeded?.[3], succeeded?.[4]]).toEqual(['200', 'a request', 'Thanks']);
  await page.getByText('succeeded', { exact: true }).waitFor();
  expect(receiver.to('/hooks').map(({ verifiedBy }) => verifiedBy)).toEqual([[secret], [secret]]);

  await page.getByRole('link', { name: 'Webhook', exact: true }).click();
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByText('disabled by request').waitFor();
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('enabled', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'New secret' }).click();
  await dialog.getByRole('button', { name: 'Make a new secret' }).click();
  const next = await dialog.getByLabel('Secret').inputValue();
  expect([/^whsec_/.test(next), next === secret]).toEqual([true, false]);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  await dialog.getByLabel('Description').fill('To the shop and the store');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('To the shop and the store').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await shows(focused, 'Delete');
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('There are no webhooks yet.').waitFor();
  await shows(focused, 'Webhooks');
  expect((await ask(account, 'GET', '/webhooks')).data).toEqual([]);
  await show(`webhooks/${made.id}`);
  await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click();
  await page.getByText('There is no such webhook.').waitFor();
  expect([errors, foreign]).toEqual([[], []]);
});

test('a webhook whose answer was lost is made once, however often that is tried, and its secret is shown', async (context) => {
  const { page, account, show } = await open(context);
  let answers = 0;
  await page.route('**/graphql', async (route) => {
    if (!route.request().postData()?.includes('CreateWebhook')) return route.continue();
    const response = await route.fetch();
    answers++;
    if (answers === 1) return route.abort();
    const lost = { errors: [{ message: 'It broke afterwards.', extensions: { code: 'INTERNAL' } }] };
    return route.fulfill(answers === 2 ? { json: lost } : { response });
  });
  await show('webhooks');
  await page.getByRole('button', { name: 'New webhook' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('URL').fill('https://shop.example/hooks');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.getByText('It broke afterwards.').waitFor();
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Create'); // the keyboard goes on there
  await dialog.getByRole('button', { name: 'Create' }).click();
  expect(await dialog.getByLabel('Secret').inputValue()).toMatch(/^whsec_/);
  await dialog.getByRole('button', { name: 'Done' }).click();
  expect(answers).toBe(3);
  expect((await ask(account, 'GET', '/webhooks')).data).toHaveLength(1);
  // Something else is another webhook, also after a failure.
  answers = 1;
  await page.getByRole('button', { name: 'New webhook' }).click();
  await dialog.getByLabel('URL').fill('https://shop.example/wrong');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.getByText('It broke afterwards.').waitFor();
  await dialog.getByLabel('URL').fill('https://shop.example/right');
  await dialog.getByRole('button', { name: 'Create' }).click();
  expect(await dialog.getByLabel('Secret').inputValue()).toMatch(/^whsec_/);
  expect((await ask(account, 'GET', '/webhooks')).data).toHaveLength(3);
});

test('what has failed is sent again when that is asked for, and how much it is is said also if an answer is lost', async (context) => {
  const { page, account, clock, server, signIn, show } = await open(context);
  const receiver = await Receiver.open(clock, ({ number }) => (number <= 10 ? { status: 500 } : {}));
  const made = await ask(account, 'POST', '/webhooks', { url: `${receiver.url}/hooks` });
  receiver.trust('/hooks', made.secret);
  const path = `/webhooks/${made.id}/deliveries`;
  await ask(account, 'POST', '/conversations', { subject: 'A tent' });
  const delivery = async (): Promise<Json> => (await ask(account, 'GET', path)).data[0];
  for (let attempt = 1; attempt <= 10; attempt++) {
    const { nextAttemptAt } = await eventually(delivery, ({ attemptCount }) => attemptCount === attempt);
    if (nextAttemptAt !== null) clock.advanceTo(Date.parse(nextAttemptAt));
    await server.app.webhooks.look();
  }
  await page.goto('about:blank');
  await signIn(); // anew: that took days
  await show(`webhooks/${made.id}`);
  const deliveries = 'Deliveries, newest first';
  expect((await count(page, deliveries, 1))[0]?.slice(2, 4)).toEqual(['failed', '10']);
  let answers = 0;
  await page.route('**/graphql', async (route) => {
    if (!route.request().postData()?.includes('recoverWebhook')) return route.continue();
    const response = await route.fetch();
    return ++answers === 1 ? route.abort() : route.fulfill({ response });
  });
  await page.getByRole('button', { name: 'Resend what failed' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resend' }).click();
  await page.getByText('Being sent again: 1.').waitFor();
  await eventually(
    () => cellsOf(page, deliveries),
    ([row]) => row?.[2] === 'succeeded',
  );
});

test('a key is created with a key, and revoked; the plan and what is left of it are shown', async (context) => {
  const { page, errors, foreign, account, secret, server, show } = await open(context);
  await show('keys');
  await page.getByText('test, plan business').waitFor();
  expect(await page.getByText(/of 1,000,000 requests of the last 60 minutes are used/).isVisible()).toBe(true);
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('dashboard');
  await dialog.getByLabel('analytics:read').check();
  await dialog.getByLabel('An API key of yours').fill(secret);
  await dialog.getByRole('button', { name: 'Create' }).click();
  const made = await dialog.getByLabel('Secret').inputValue();
  await dialog.getByRole('button', { name: 'Done' }).click();
  const caption = 'API keys, newest first';
  const [row] = await count(page, caption, 2);
  expect([row?.[0], row?.[1], row?.[2], row?.[5]]).toEqual(['dashboard', made.slice(0, 8), 'analytics:read', 'never']);
  const client = server.clientFor(made);
  expect((await client.rest('GET', '/analytics')).status).toBe(200);
  expect((await client.rest('GET', '/leads')).status).toBe(403);

  await page.getByRole('button', { name: 'Revoke dashboard' }).click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText(/^revoked/).waitFor();
  await shows(() => page.evaluate('document.activeElement.innerText'), 'Keys and plan');
  expect((await client.rest('GET', '/analytics')).status).toBe(401);
  expect((await ask(account, 'GET', '/api-keys')).data).toHaveLength(2);
  expect(await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])')).not.toContain('cs_');
  expect([errors, foreign]).toEqual([[], []]);
});

/** Some days of an account, as its analytics count them. */
async function makeDays(account: Client, clock: TestClock): Promise<void> {
  const now = clock.now();
  for (let day = 9; day >= 0; day--) {
    clock.nowMs = now - day * 24 * hourMs - 3 * hourMs;
    for (let n = 0; n <= day % 4; n++) {
      const message = { sender: 'visitor', content: 'Hello' };
      const { id } = await ask(account, 'POST', '/conversations', { subject: `Day ${day}, ${n}`, message });
      clock.nowMs += (n + 1) * minuteMs;
      await ask(account, 'POST', `/conversations/${id}/messages`, { sender: 'agent', content: 'Hello' });
      if (n === 0) await ask(account, 'POST', `/conversations/${id}/messages`, { sender: 'bot', content: 'Hello' });
      if (n === 1) await ask(account, 'POST', '/leads', { email: `ada-${day}@example.com`, conversationId: id });
      if (n !== 2) await ask(account, 'PATCH', `/conversations/${id}`, { status: 'closed' });
    }
  }
  clock.nowMs = now;
}

/** How many pixels of the charts have been drawn in the colours of their lines. */
const drawn = (page: Page): Promise<number[]> =>
  page.evaluate(`[...document.querySelectorAll('.chart canvas')].map((canvas) => {
    const colour = getComputedStyle(document.documentElement).getPropertyValue('--series-1').trim();
    const wanted = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 255 && wanted.every((value, index) => data[at + index] === value)) count++;
    }
    return count;
  })`);

const areDrawn = (page: Page): Promise<number[]> =>
  eventually(
    () => drawn(page),
    (counts) => counts.length === 4 && counts.every((pixels) => pixels > 50),
  );

test('charts are drawn of the figures that the API has, in the colours of the system', async (context) => {
  const { page, errors, foreign, account, clock, show } = await open(context);
  await page.goto('about:blank'); // no token is good on the days before
  await makeDays(account, clock);
  const isReport = (text: string | null): boolean => text?.includes('query Analytics') === true;
  const asked = page.waitForRequest((request) => isReport(request.postData()));
  await show('analytics');
  const { variables } = (await asked).postDataJSON();
  const { totals, previous, series } = (await account.graphql(analytics, variables)).data.analytics;
  await areDrawn(page);
  for (const summary of await page.getByText('As a table').all()) await summary.click();
  const figures = async (title: string) => (await cellsOf(page, `${title}: the figures`)).map(([, ...cells]) => cells);
  const text = (value: number) => String(value);
  expect(series).toHaveLength(30);
  expect(await figures('Conversations')).toEqual(
    series.map((each: Json) => [text(each.conversationsStarted), text(each.conversationsClosed)]),
  );
  expect(await figures('Messages')).toEqual(
    series.map(({ messages }: Json) => [text(messages.visitor), text(messages.agent), text(messages.bot)]),
  );
  expect(await figures('Leads')).toEqual(series.map(({ leads }: Json) => [text(leads)]));
  const medians = (await figures('Median time to the first response')).flat();
  expect(medians.map((median) => median === '–')).toEqual(
    series.map(({ firstResponseSeconds }: Json) => firstResponseSeconds.median === null),
  );
  const [, first = ''] = (await page.locator('.totals > div').first().allInnerTexts())[0]?.split('\n') ?? [];
  expect([first, totals.conversationsStarted > 0, previous.conversationsStarted]).toEqual([
    text(totals.conversationsStarted),
    true,
    0,
  ]);

  // Pointing at a day shows its figures.
  await page.locator('.u-over').first().hover();
  await page.getByText(/^Started: \d+$/).waitFor();

  await page.emulateMedia({ colorScheme: 'dark' });
  await areDrawn(page);
  await page.setViewportSize({ width: 390, height: 800 });
  const fits = async () => (await page.locator('.chart canvas').first().boundingBox())?.width ?? 0;
  await eventually(fits, (width) => width > 250 && width < 390);
  await areDrawn(page);
  await page.getByLabel('Days').selectOption('7');
  await page.getByLabel('By').selectOption('week');
  await eventually(
    () => figures('Leads'),
    (rows) => rows.length === 1 || rows.length === 2,
  );
  expect([errors, foreign]).toEqual([[], []]);
});

test.for([320, 390, 844])(
  'all views can be seen and chosen at %i pixels, also by the keyboard',
  async (width, context) => {
    const { page, show } = await open(context);
    await page.setViewportSize({ width, height: 700 });
    await show('keys');
    const links = await page.getByRole('navigation', { name: 'Views' }).getByRole('link').all();
    for (const link of links) {
      const { x = -1, width: own = 0 } = (await link.boundingBox()) ?? {};
      expect([x >= 0, x + own <= width, own >= 24]).toEqual([true, true, true]);
      // Nothing lies over it, or cuts it off.
      expect(
        await link.evaluate((element) => {
          const { left, right, top, bottom } = element.getBoundingClientRect();
          return [left + 1, right - 1].map((at) => document.elementFromPoint(at, (top + bottom) / 2) === element);
        }),
      ).toEqual([true, true]);
    }
    const names: string[] = [];
    await links[0]?.focus();
    for (const _ of links) {
      names.push(await page.evaluate('document.activeElement.innerText'));
      await page.keyboard.press('Tab');
    }
    expect(names).toEqual(['Inbox', 'Leads', 'Events', 'Webhooks', 'Analytics', 'Keys']);
  },
);

const views = ['leads', 'events', 'webhooks', 'analytics', 'keys'];

test('what the key may not do is said in a sentence', async (context) => {
  const { page, errors, show } = await open(context, { scopes: ['conversations:read'] });
  const needed = ['leads:read', 'events:read', 'webhooks:manage', 'analytics:read', 'keys:manage'];
  for (const [index, view] of views.entries()) {
    await show(view);
    await page.getByText(`This needs the scope \`${needed[index]}\``).waitFor();
  }
  // Browsers note each refusal.
  expect(errors.filter((error) => !error.includes('403'))).toEqual([]);
});

test.for([
  ['light', 390],
  ['light', 1440],
  ['dark', 390],
  ['dark', 1440],
] as const)('axe finds nothing in %s colours at %i pixels', async ([colorScheme, width], context) => {
  const { page, errors, account, clock, show } = await open(context);
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: 900 });
  const look = async (name: string): Promise<void> => {
    expect([name, ...(await axeFindings(page))]).toEqual([name]);
    // The page itself never scrolls sideways: tables do, in their own boxes.
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  };
  for (const view of ['leads', 'events', 'webhooks']) {
    await show(view);
    await page.locator('.empty').waitFor();
    await look(`${view}-empty`);
  }
  await page.goto('about:blank');
  await makeDays(account, clock);
  const receiver = await Receiver.open(clock, () => ({ status: 200, body: 'Thank you very much' }));
  const made = await ask(account, 'POST', '/webhooks', { url: `${receiver.url}/hooks`, description: 'To the shop' });
  receiver.trust('/hooks', made.secret);
  for (const view of views) {
    await show(view);
    if (view === 'events') await page.getByRole('button', { name: 'Read from the oldest event' }).click();
    await page.locator('table, canvas').first().waitFor({ state: 'attached' });
    if (view === 'analytics') await areDrawn(page);
    await look(view);
  }
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await look('keys-new');
  await page.keyboard.press('Escape');
  await show('webhooks');
  await page.getByRole('button', { name: 'New webhook' }).click();
  await dialog.waitFor();
  await look('webhooks-new');
  await page.keyboard.press('Escape');
  await show(`webhooks/${made.id}`);
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText('succeeded', { exact: true }).waitFor();
  await look('webhook');
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.waitFor();
  await look('webhook-delete');
  await page.keyboard.press('Escape');
  await page.getByRole('table').getByRole('link').first().click();
  await page.getByText('Thank you very much').waitFor();
  await look('attempts');
  expect(errors).toEqual([]);
});
