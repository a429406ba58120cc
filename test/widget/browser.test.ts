import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, type TestContext } from 'vitest';
import { commandLine, serve } from '../cli/program.ts';
import { whilePagesAreAway } from '../support/away.ts';
import { axeFindings } from '../support/axe.ts';
import { lettersOf, openPage, openTab, shows } from '../support/browser.ts';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { minuteMs, TestClock } from '../support/clock.ts';
import { longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestServer, type TestServerOptions } from '../support/server.ts';
import { eventually, gate } from '../support/wait.ts';
import { type SiteOptions, startWidgetSite, visitorIn } from './visitor.ts';

// The chat widget in the page of a site, as the GUIDE shows it, with a visitor before it and an agent behind the service.

/** Which part of the widget has the focus. */
const focusedPart = (page: Page) =>
  page.evaluate("document.activeElement.shadowRoot?.activeElement?.getAttribute('part')");

/** What has the focus in the widget, in its words. */
const focusedName = (page: Page) =>
  page.evaluate(`(({ ariaLabel, textContent } = {}) => ariaLabel ?? textContent)(
    document.activeElement.shadowRoot?.activeElement ?? {})`);

/** What an agent does, through REST. */
function agentOf(client: Client) {
  const ask = async (method: string, path: string, body?: object): Promise<Json> => {
    const answer = await client.rest(method, path, body && { body });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const list = async (): Promise<Json[]> => (await ask('GET', '/conversations')).data;
  return {
    ask,
    list,
    /** The newest conversation, once there are so many. */
    conversation: async (count = 1): Promise<Json> => (await eventually(list, (found) => found.length === count))[0],
    /** Begins a conversation with the visitor. @returns its id */
    begin: async (subject: string, ...contents: string[]): Promise<string> => {
      const { id } = await ask('POST', '/conversations', { subject, visitor: { id: 'customer-7', name: 'Ada' } });
      for (const content of contents) await ask('POST', `/conversations/${id}/messages`, { sender: 'agent', content });
      return id;
    },
    contents: async (id: string): Promise<string[]> =>
      (await ask('GET', `/conversations/${id}`)).messages.map(({ content }: Json) => content),
    answer: (id: string, content: string) =>
      ask('POST', `/conversations/${id}/messages`, {
        sender: 'agent',
        content,
        author: { id: 'agent-3', name: 'Grace' },
      }),
  };
}

interface Options extends TestServerOptions {
  readonly requestsPerHour?: number;
  /** Whether the test lets the page's time pass. */
  readonly isTimed?: boolean;
  readonly site?: SiteOptions;
}

/** A service, a site and a visitor who has opened its page. */
async function open(context: TestContext, { requestsPerHour, isTimed, site: given, ...options }: Options = {}) {
  const site = await startWidgetSite(given);
  const clock = new TestClock(new Date().toISOString()); // the page shows the same time
  const server = await startTestServer({ clock, ...options, config: { corsOrigins: [site.origin] } });
  context.onTestFinished(() => server.close());
  const account = await server.account(requestsPerHour === undefined ? {} : { requestsPerHour });
  await site.connect(server.url, account.secret);
  const opened = await openPage(context, [site.origin, server.url]);
  if (isTimed) await opened.page.clock.install();
  await opened.page.goto(site.origin);
  const visitor = visitorIn(opened.page);
  return { ...opened, site, server, account, agent: agentOf(account), visitor };
}

test('a visitor writes and sees the answers arrive, with a badge for what is unread, in two tabs', async (context) => {
  const { page, errors, foreign, site, agent, visitor } = await open(context);
  await visitor.launcher.click();
  await visitor.field.fill('Where is');
  await visitor.field.press('Shift+Enter');
  await visitor.field.pressSequentially('<b>my parcel</b>?');
  await visitor.field.press('Enter');
  const question = 'Where is\n<b>my parcel</b>?';
  await shows(visitor.texts, [question]);
  const { id, status } = await agent.conversation();
  expect([status, await agent.contents(id)]).toEqual(['pending', [question]]);
  await agent.answer(id, 'On its way.');
  await shows(visitor.texts, [question, 'On its way.']);

  // The other tab begins closed, and has everything.
  const other = visitorIn(await openTab(page, site.origin));
  await shows(other.unread, '');
  await visitor.page.bringToFront();
  await visitor.field.press('Escape');
  expect(await visitor.panel.isVisible()).toBe(false);
  await agent.answer(id, 'It is there.');
  await agent.answer(id, 'Is it?');
  await shows(visitor.unread, '2');
  await shows(other.unread, '2');
  expect(await visitor.launcher.getAttribute('aria-label')).toBe('Open chat. Unread messages: 2');

  // Seen in one of them, it is read in both.
  await other.page.bringToFront();
  await other.launcher.click();
  await shows(other.unread, '');
  await shows(visitor.unread, '');
  await other.write('Yes, thank you.');
  const all = [question, 'On its way.', 'It is there.', 'Is it?', 'Yes, thank you.'];
  await shows(other.texts, all);
  await visitor.page.bringToFront();
  await visitor.launcher.click();
  await shows(visitor.texts, all);
  expect(await agent.contents(id)).toEqual(all);
  const [position] = (await agent.ask('GET', `/conversations/${id}`)).readPositions.filter(
    ({ reader }: Json) => reader === 'visitor',
  );
  expect(position.sequence).toBe(5);
  expect([errors, foreign]).toEqual([[], []]);
});

test('it keeps its place across reloads, shows that a conversation is closed, and begins the next one', async (context) => {
  const { page, errors, agent, visitor } = await open(context);
  await visitor.launcher.click();
  await visitor.write('Where is my parcel?');
  const parcel = await agent.conversation();
  await page.reload();
  await shows(visitor.texts, ['Where is my parcel?']);
  expect(await visitor.panel.isVisible()).toBe(true);

  await agent.ask('PATCH', `/conversations/${parcel.id}`, { status: 'closed' });
  await shows(visitor.notice, 'This conversation is closed. Write a message to start a new one.');
  await page.reload();
  await shows(visitor.notice, 'This conversation is closed. Write a message to start a new one.');
  await visitor.write('And my tent?');
  await visitor.write('It is green.');
  await shows(visitor.texts, ['And my tent?', 'It is green.']);
  const tent = await agent.conversation(2);
  expect(
    await eventually(
      () => agent.contents(tent.id),
      (found) => found.length === 2,
    ),
  ).toEqual(['And my tent?', 'It is green.']);
  expect(await agent.contents(parcel.id)).toEqual(['Where is my parcel?']);

  // An older one can be opened again, and stays open.
  await visitor.widget.getByRole('button', { name: 'Conversations', exact: true }).click();
  await visitor.widget.getByRole('button', { name: 'Where is my parcel?' }).click();
  await shows(visitor.texts, ['Where is my parcel?']);
  await page.reload();
  await shows(visitor.texts, ['Where is my parcel?']);
  expect(await page.evaluate('JSON.stringify([sessionStorage, localStorage])')).not.toContain('eyJ');
  expect(errors).toEqual([]);
});

test('what is written before the chat has loaded goes to where it belongs', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  const writeWhileLoading = async (...texts: string[]) => {
    const release = site.hold();
    await page.reload();
    for (const text of texts) await visitor.write(text);
    await shows(visitor.texts, texts);
    release();
    await eventually(visitor.isSent, (isSent) => isSent);
  };
  await visitor.launcher.click();
  await writeWhileLoading('Hello', 'Are you there?');
  await writeWhileLoading('I am.');
  await shows(visitor.texts, ['Hello', 'Are you there?', 'I am.']);
  const first = await agent.conversation();
  expect(await agent.contents(first.id)).toEqual(['Hello', 'Are you there?', 'I am.']);
  await agent.ask('PATCH', `/conversations/${first.id}`, { status: 'closed' });
  await writeWhileLoading('One more thing', 'or two');
  await shows(visitor.texts, ['One more thing', 'or two']);
  expect(await agent.contents((await agent.conversation(2)).id)).toEqual(['One more thing', 'or two']);
});

test('no message is missed or doubled when the service is killed, whoever has written it', async (context) => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { apiKey } = await commandLine(databasePath).json<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'A', '--plan', 'business'],
  );
  const site = await startWidgetSite();
  const environment = { CORS_ORIGINS: site.origin };
  let running = await serve(databasePath, environment);
  const { url } = running;
  await site.connect(url, apiKey.secret);
  const agent = agentOf(clientOf(url, apiKey.secret));
  const { page } = await openPage(context, [site.origin, url]);
  await page.goto(site.origin);
  const visitor = visitorIn(page);
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  for (const round of [1, 2, 3]) {
    await agent.answer(id, `before ${round}`);
    await visitor.write(`just before ${round}`);
    running.signal('SIGKILL');
    await running.ended;
    await visitor.write(`while away ${round}`);
    running = await serve(databasePath, { ...environment, PORT: new URL(url).port });
    await agent.answer(id, `after ${round}`);
    await eventually(visitor.isSent, (isSent) => isSent);
  }
  const contents = await agent.contents(id);
  expect(contents.toSorted()).toEqual(
    [
      'Hello',
      ...[1, 2, 3].flatMap((n) => ['before', 'just before', 'while away', 'after'].map((when) => `${when} ${n}`)),
    ].sort(),
  );
  await shows(visitor.texts, contents);
});

/** Lets a page believe that it is shown, or that it is not. */
const become = (page: Page, state: 'hidden' | 'visible') =>
  page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));`);

/** Uses up the visitor's share of the requests, which is half of a small limit. */
async function spendShare({ account, server }: Awaited<ReturnType<typeof open>>): Promise<void> {
  const body = { scopes: ['conversations:read'], visitor: { id: 'customer-7' } };
  const { token } = (await account.rest('POST', '/tokens', { body })).body;
  const client = server.clientFor(token);
  await eventually(
    () => client.rest('GET', '/conversations?limit=1'),
    ({ status }) => status === 429,
  );
}

test('a message that was refused says so, and is there once when it is sent again', async (context) => {
  const opened = await open(context, { requestsPerHour: 100 });
  const { agent, visitor, server, site } = opened;
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await spendShare(opened);
  await visitor.write('Where is my parcel?');
  const again = visitor.widget.getByRole('button', { name: 'Try again' });
  await again.waitFor();
  expect(await agent.contents(id)).toEqual(['Hello']);
  // When it can be sent, the token has expired, too.
  const tokens = site.tokens();
  server.clock.advance(61 * minuteMs);
  await again.click();
  await eventually(visitor.isSent, (isSent) => isSent);
  await agent.answer(id, 'On its way.');
  const all = ['Hello', 'Where is my parcel?', 'On its way.'];
  await shows(visitor.texts, all);
  expect([await agent.contents(id), site.tokens()]).toEqual([all, tokens + 1]);
});

test('a message that was refused can be written anew, or taken back', async (context) => {
  const opened = await open(context, { requestsPerHour: 100 });
  const { page, agent, visitor } = opened;
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await spendShare(opened);
  await visitor.write('Where is my parcle?');
  await visitor.field.fill('It is green.');
  await visitor.widget.getByRole('button', { name: 'Edit' }).click();
  expect(await visitor.field.inputValue()).toBe('Where is my parcle?\nIt is green.');
  expect(await visitor.texts()).toEqual(['Hello']);
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  const discard = visitor.widget.getByRole('button', { name: 'Discard' });
  await discard.waitFor();
  expect(await axeFindings(page)).toEqual([]);
  await discard.click();
  expect(await visitor.texts()).toEqual(['Hello']);
  expect(await focusedPart(page)).toBe('field');
  expect(await agent.contents(id)).toEqual(['Hello']);
});

test('a message that is being sent arrives also when the visitor follows a link', async (context) => {
  const { page, site, server, account, agent, visitor } = await open(context);
  const [arrival, answer] = [gate(), gate()];
  // A slow network between the page and the service: the browser asks first whether it may send at all.
  const { origin } = await startProxy(server.url, async ({ method, url }) => {
    if (method !== 'OPTIONS' || url !== '/v1/conversations') return;
    arrival.open();
    await answer.opened;
  });
  await site.connect(origin, account.secret);
  await page.goto(site.origin);
  await visitor.launcher.click();
  await shows(visitor.notice, '');
  await visitor.write('Hello');
  await arrival.opened;
  await page.goto('about:blank');
  answer.open();
  expect(await agent.contents((await agent.conversation()).id)).toEqual(['Hello']);
});

/** Starts a proxy in front of a service, which passes a request on when it may. It is ended with the test. */
async function startProxy(url: string, may: (request: IncomingMessage) => Promise<void>): Promise<{ origin: string }> {
  const proxy = createServer(async (req, res) => {
    await may(req);
    const { method, headers } = req;
    const passed = request(`${url}${req.url}`, { ...(method && { method }), headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    passed.on('error', () => res.destroy());
    req.pipe(passed);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => {
    proxy.close();
    proxy.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
}

/** Lets what the page sends to such an address fail until it is let again. */
async function refuse(page: Page, url: string): Promise<() => Promise<void>> {
  await page.route(url, (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()));
  return () => page.unroute(url);
}

test('a message that could not be sent says so in the list, too, when another conversation is open by then', async (context) => {
  const { page, agent, visitor } = await open(context);
  await agent.begin('A tent', 'It is green.');
  await agent.begin('A lamp', 'It is red.');
  await visitor.launcher.dblclick(); // which does not close it again
  await visitor.openFromList('A tent');
  await shows(visitor.texts, ['It is green.']);
  const sending = gate();
  await page.route('**/messages', async (route) => {
    await sending.opened;
    await route.fulfill({
      status: 422,
      headers: { 'Access-Control-Allow-Origin': '*' },
      json: { code: 'QUOTA_EXCEEDED', detail: 'The conversation is full.' },
    });
  });
  await visitor.write('And the pegs?');
  await visitor.openFromList('A lamp');
  await shows(visitor.texts, ['It is red.']);
  sending.open();
  await visitor.list.click();
  const rows = visitor.widget.locator('[part=conversation]');
  await rows.filter({ hasText: 'A tent' }).getByText('Not sent.').waitFor();
  expect(await rows.filter({ hasText: 'A lamp' }).getByText('Not sent.').isVisible()).toBe(false);
});

test('what is written after a first message that could not be sent stays with it', async (context) => {
  const { page, agent, visitor } = await open(context, { isTimed: true });
  await visitor.launcher.click();
  await shows(visitor.notice, '');
  const allow = await refuse(page, '**/v1/conversations');
  const failed = page.waitForEvent('requestfailed');
  await visitor.write('Hello');
  await visitor.write('Are you there?');
  await failed;
  await page.clock.fastForward(21_000);
  await visitor.widget.getByText('Not sent.').first().waitFor();
  await allow();
  const again = visitor.widget.getByRole('button', { name: 'Try again' });
  await eventually(
    () => again.count(),
    (count) => count === 2,
  );
  await again.last().click();
  await eventually(visitor.isSent, (isSent) => isSent);
  await shows(visitor.texts, ['Hello', 'Are you there?']);
  expect(await agent.contents((await agent.conversation()).id)).toEqual(['Hello', 'Are you there?']);
});

test('what is written into a new conversation stays together, whatever is opened meanwhile', async (context) => {
  const { page, agent, visitor } = await open(context);
  await agent.begin('Other', 'c1');
  await visitor.launcher.click();
  await shows(visitor.texts, ['c1']);
  const arrival = gate();
  await page.route('**/v1/conversations', async (route) => {
    await arrival.opened;
    await route.continue();
  });
  await visitor.list.click();
  await visitor.widget.getByRole('button', { name: 'New conversation' }).click();
  await visitor.write('Hello');
  await visitor.write('Are you there?');
  await visitor.openFromList('Other');
  await shows(visitor.texts, ['c1']);
  arrival.open();
  const { id } = await agent.conversation(2);
  await eventually(
    () => agent.contents(id),
    (contents) => JSON.stringify(contents) === JSON.stringify(['Hello', 'Are you there?']),
  );
  expect(await visitor.texts()).toEqual(['c1']);
});

test('a message that could not be sent is kept when its conversation is deleted, whatever is open', async (context) => {
  const { page, site, agent, visitor } = await open(context, { isTimed: true });
  await page.goto('about:blank');
  await agent.begin('Other', 'c1');
  const deleted = await agent.begin('Deleted', 'd1');
  await page.goto(site.origin);
  await visitor.launcher.click();
  await shows(visitor.texts, ['d1']);
  await refuse(page, '**/messages');
  const failed = page.waitForEvent('requestfailed');
  await visitor.write('Hello');
  await failed;
  await page.clock.fastForward(21_000);
  await visitor.widget.getByText('Not sent.').waitFor();
  await visitor.openFromList('Other');
  await shows(visitor.texts, ['c1']);
  await agent.ask('DELETE', `/conversations/${deleted}`);
  await visitor.list.click();
  await shows(() => visitor.widget.locator('[part=conversation] .subject').allTextContents(), ['Other']);
  await visitor.widget.getByRole('button', { name: 'New conversation' }).click();
  await shows(visitor.texts, ['Hello']);
});

test('what was seen while the service refused is said to be read when it answers again', async (context) => {
  const opened = await open(context, { requestsPerHour: 100 });
  const { page, agent, visitor, server } = opened;
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await spendShare(opened);
  const refused = page.waitForResponse((response) => response.status() === 429);
  await agent.answer(id, 'On its way.');
  await refused;
  await shows(visitor.unread, '1');
  server.clock.advance(61 * minuteMs);
  await agent.ask('PATCH', `/conversations/${id}`, { subject: 'Parcel' });
  await shows(visitor.unread, '');
  const { readPositions } = await agent.ask('GET', `/conversations/${id}`);
  expect(readPositions).toContainEqual(expect.objectContaining({ reader: 'visitor', sequence: 2 }));
});

test('the list goes as far back as the visitor wants', async (context) => {
  const { page, site, agent, visitor, server } = await open(context);
  await page.goto('about:blank');
  const subjects: string[] = [];
  for (let n = 1; n <= 70; n++) {
    server.clock.advance(1_000);
    subjects.unshift(`Order ${n}`);
    await agent.ask('POST', '/conversations', { subject: `Order ${n}`, visitor: { id: 'customer-7', name: 'Ada' } });
  }
  await page.goto(site.origin);
  await visitor.launcher.click();
  await visitor.widget.getByRole('button', { name: 'Conversations', exact: true }).click();
  const shown = () => visitor.widget.locator('[part=conversation] .subject').allTextContents();
  await shows(shown, subjects.slice(0, 50));
  const earlier = visitor.widget.getByRole('button', { name: 'Show earlier conversations' });
  await earlier.click();
  await shows(shown, subjects);
  expect([await earlier.isVisible(), await focusedName(page)]).toEqual([false, 'Conversations']);
  // What has the focus keeps it when others move, and gives it back when it is gone.
  const { id } = (await agent.ask('GET', '/conversations?limit=100')).data.find(
    ({ subject }: Json) => subject === 'Order 2',
  );
  await visitor.widget.getByRole('button', { name: /^Order 2 / }).focus();
  server.clock.advance(1_000);
  await agent.begin('Order 71');
  await shows(shown, ['Order 71', ...subjects]);
  expect(await focusedName(page)).toMatch(/^Order 2/);
  await agent.ask('DELETE', `/conversations/${id}`);
  await shows(shown, ['Order 71', ...subjects.filter((subject) => subject !== 'Order 2')]);
  expect(await focusedName(page)).toBe('Conversations');
  await visitor.widget.getByRole('button', { name: /^Order 1 / }).click();
  expect(await visitor.panel.isVisible()).toBe(true);
});

test('what is unread is right for a conversation that was not in the list', async (context) => {
  const { page, site, agent, visitor, server } = await open(context);
  await page.goto('about:blank');
  const old = await agent.begin('Old', 'o1', 'o2', 'o3');
  await agent.ask('PUT', `/conversations/${old}/read-positions/visitor`, { sequence: 3 });
  for (let n = 1; n <= 50; n++) {
    server.clock.advance(1_000);
    await agent.begin(`Order ${n}`);
  }
  await page.goto(site.origin);
  await visitor.launcher.click();
  await visitor.list.click();
  await visitor.widget.getByRole('button', { name: 'Show earlier conversations' }).waitFor();
  await page.evaluate(`globalThis.badges = [];
    const badge = document.querySelector('conversation-widget').shadowRoot.querySelector('[part=badge]');
    new MutationObserver(() => globalThis.badges.push(badge.textContent)).observe(badge, { childList: true })`);
  await agent.answer(old, 'o4');
  await shows(visitor.unread, '1');
  await visitor.openFromList('Old');
  await shows(visitor.texts, ['o1', 'o2', 'o3', 'o4']);
  await shows(visitor.unread, '');
  expect(await page.evaluate('badges')).toEqual(['1', '']);
});

test('the tabs of a visitor follow the events once, and miss none when the tab that does so is closed', async (context) => {
  const { page, errors, site, agent, visitor, server } = await open(context);
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  const tabs = [await openTab(page, site.origin), await openTab(page, site.origin), await openTab(page, site.origin)];
  const others = tabs.map(visitorIn);
  for (const other of others) await shows(other.texts, ['Hello']);
  const texts = ['Hello'];
  const answer = async (text: string) => {
    texts.push(text);
    await agent.answer(id, text);
  };
  await answer('On its way.');
  for (const other of [visitor, ...others]) await shows(other.texts, texts);
  expect(server.app.sessions.size).toBe(1);
  // Any of them may be the one that goes on.
  for (const tab of [page, tabs[0], tabs[1]]) {
    const closed = tab?.goto('about:blank');
    for (let n = 1; n <= 10; n++) await answer(`Step ${texts.length}`);
    await closed;
    await answer('And more.');
    for (const other of others.filter((each) => each.page.url() !== 'about:blank')) await shows(other.texts, texts);
    await eventually(
      async () => server.app.sessions.size,
      (size) => size === 1,
    );
  }
  expect(errors).toEqual([]);
});

test('a tab that goes on for others has perhaps read more than they have heard, and they miss none of it', async (context) => {
  const { page, site, agent, visitor, server } = await open(context, { isTimed: true });
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  const second = visitorIn(await openTab(page, site.origin));
  await shows(second.texts, ['Hello']);
  await become(second.page, 'hidden');
  await page.clock.fastForward(31_000);
  // The first can no longer reach the service, and does not hear of the answer, as the third does.
  await page.route('**/v1/events/stream*', (route) => route.abort());
  server.clock.advance(16 * minuteMs); // its token ends, and with it the stream
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 0,
  );
  await agent.answer(id, 'On its way.');
  const third = visitorIn(await openTab(page, site.origin));
  await shows(third.texts, ['Hello', 'On its way.']);
  await become(second.page, 'visible');
  await page.goto('about:blank');
  await agent.answer(id, 'It is there.');
  for (const each of [second, third]) await shows(each.texts, ['Hello', 'On its way.', 'It is there.']);
});

test('a tab that hears of an event before it knows that it has missed one, misses none', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  // The answer of what the second tab reads is on its way for long, and so is its question where the first stands.
  const [read, arrival] = [gate(), gate()];
  await page.context().route('**/graphql', async (route) => {
    const response = await route.fetch();
    read.open();
    await arrival.opened;
    await route.fulfill({ response });
  });
  await page.context().addInitScript(`
    const post = BroadcastChannel.prototype.postMessage;
    BroadcastChannel.prototype.postMessage = function (said) {
      if (said === 'where') window.ask = () => post.call(this, said);
      else post.call(this, said);
    };`);
  const second = visitorIn(await openTab(page, site.origin));
  await read.opened;
  await agent.answer(id, 'On its way.');
  await shows(visitor.texts, ['Hello', 'On its way.']);
  arrival.open();
  await eventually(
    () => second.page.evaluate('window.ask !== undefined'),
    (hasAsked) => hasAsked === true,
  );
  await agent.answer(id, 'It is there.');
  await shows(visitor.texts, ['Hello', 'On its way.', 'It is there.']);
  await second.page.evaluate('window.ask()');
  await shows(second.texts, ['Hello', 'On its way.', 'It is there.']);
});

test('what the visitor opens while everything is read anew stays open', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  await visitor.launcher.click();
  await shows(visitor.notice, '');
  const first = await agent.begin('First', 'a1');
  const newest = await agent.begin('Newest', 'b1');
  // The second tab reads everything twice, the second time when it has found the first.
  const [asked, arrival] = [gate(), gate()];
  let reads = 0;
  await page.context().route('**/graphql', async (route) => {
    const isReload = route.request().postData()?.includes('eventCursor') && ++reads === 2;
    const response = await route.fetch();
    if (isReload) {
      asked.open();
      await arrival.opened;
    }
    await route.fulfill({ response });
  });
  const second = visitorIn(await openTab(page, site.origin));
  await second.launcher.click();
  await shows(second.texts, ['b1']);
  await asked.opened;
  await second.openFromList('First');
  await shows(second.texts, ['a1']);
  arrival.open();
  await agent.answer(newest, 'b2');
  await agent.answer(first, 'a2');
  await shows(second.texts, ['a1', 'a2']);
});

test('a tab that knows where the others stand reads nothing when another one comes', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  let reads = 0;
  page.context().on('requestfinished', (request) => {
    if (request.method() === 'POST' && request.url().endsWith('/graphql')) reads++;
  });
  const others = [];
  for (const count of [2, 4]) {
    others.push(visitorIn(await openTab(page, site.origin)));
    await eventually(
      async () => reads,
      (made) => made === count,
    );
  }
  await agent.answer(id, 'On its way.');
  for (const each of [visitor, ...others]) await shows(each.texts, ['Hello', 'On its way.']);
  expect(reads).toBe(4);
});

test('where the browser keeps tabs from each other, each follows for itself', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  await page.context().addInitScript(`LockManager.prototype.request =
    () => Promise.reject(new DOMException('No storage here.', 'SecurityError'));`);
  await page.reload();
  await visitor.launcher.click();
  await visitor.write('Hello');
  const second = visitorIn(await openTab(page, site.origin));
  await shows(second.texts, ['Hello']);
  await agent.answer((await agent.conversation()).id, 'On its way.');
  for (const each of [visitor, second]) await shows(each.texts, ['Hello', 'On its way.']);
});

test('when the site takes the visitor for somebody else, nothing of the one before is left, and tabs keep apart', async (context) => {
  const { page, site, agent, visitor, server } = await open(context);
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  site.serve({ id: 'customer-8', name: 'Alan' });
  const other = visitorIn(await openTab(page, site.origin));
  await other.launcher.click();
  await other.write('Good morning');
  await agent.conversation(2);
  await agent.answer(id, 'On its way.');
  await shows(visitor.texts, ['Hello', 'On its way.']);
  await shows(other.texts, ['Good morning']);
  expect(server.app.sessions.size).toBe(2);
  server.clock.advance(16 * minuteMs); // the tokens end
  await shows(visitor.texts, ['Good morning']);
  await other.write('I am Alan.');
  for (const each of [visitor, other]) await shows(each.texts, ['Good morning', 'I am Alan.']);
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 1,
  );
});

test('what was written before the site takes the visitor for somebody else is not sent as theirs', async (context) => {
  const { page, site, agent, visitor, server } = await open(context);
  await visitor.launcher.click();
  await shows(visitor.notice, '');
  site.serve({ id: 'customer-8', name: 'Alan' });
  await page.route('**/v1/events/stream*', (route) => route.abort());
  const draft = gate();
  const held = page.waitForRequest(
    (request) => request.method() === 'POST' && request.url().endsWith('/v1/conversations'),
  );
  await page.route('**/v1/conversations', (route) => draft.opened.then(() => route.continue()), { times: 1 });
  server.clock.advance(16 * minuteMs); // the token ends, and the message is the first to notice
  await visitor.write('I am Ada.');
  await held; // so the answer finds the draft there
  await visitor.field.fill('And I have a secret.');
  draft.open();
  await shows(visitor.texts, []);
  expect(await visitor.field.inputValue()).toBe('');
  await visitor.write('I am Alan.');
  await eventually(visitor.isSent, (isSent) => isSent);
  expect(await agent.contents((await agent.conversation()).id)).toEqual(['I am Alan.']);
});

test('a page whose stream is refused for want of requests waits as it is told, and misses nothing', async (context) => {
  const opened = await open(context, { requestsPerHour: 100, isTimed: true });
  const { page, agent, visitor, server } = opened;
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await spendShare(opened);
  const refused = page.waitForResponse((response) => response.status() === 429);
  server.clock.advance(16 * minuteMs); // its token ends, and with it the stream
  const seconds = Number(await (await refused).headerValue('retry-after'));
  await agent.answer(id, 'On its way.');
  server.clock.advance(seconds * 1_000);
  await page.clock.fastForward(seconds * 1_000);
  await shows(visitor.texts, ['Hello', 'On its way.']);
});

test('a chat for whose stream there is no place sends meanwhile, and has everything when there is one', async (context) => {
  const { page, account, agent, visitor, server, site } = await open(context, { isTimed: true });
  await page.goto('about:blank');
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 0,
  );
  const body = { scopes: ['events:read'], visitor: { id: 'customer-7' } };
  const { token } = (await account.rest('POST', '/tokens', { body })).body;
  const others = new AbortController();
  const options = { headers: { authorization: `Bearer ${token}` }, signal: others.signal };
  const places = Array.from({ length: 20 }, () => fetch(`${server.url}/v1/events/stream`, options));
  for (const { status } of await Promise.all(places)) expect(status).toBe(200);
  const refused = page.waitForResponse((response) => response.status() === 409);
  await page.goto(site.origin);
  await refused;
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await agent.answer(id, 'On its way.');
  others.abort();
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 0,
  );
  await page.clock.fastForward(31_000);
  await shows(visitor.texts, ['Hello', 'On its way.']);
});

test('a chat that is told to wait for longer than an hour asks again after one, and not before', async (context) => {
  const { page, site, visitor } = await open(context, { isTimed: true });
  await page.route('**/graphql', async (route) => {
    if (route.request().method() !== 'POST') return await route.continue();
    const headers = {
      'Access-Control-Allow-Origin': site.origin,
      'Access-Control-Expose-Headers': 'Retry-After',
      'Retry-After': '3000000', // in milliseconds, a timer cannot wait for so long
    };
    await route.fulfill({ status: 503, headers });
  });
  await page.addInitScript(`const set = setTimeout;
    globalThis.waits = [];
    globalThis.setTimeout = (work, ms, ...given) => {
      waits.push(ms);
      return set(work, ms, ...given);
    };`);
  await page.reload();
  await visitor.launcher.click();
  await shows(() => page.evaluate('Math.max(...waits)'), 61 * minuteMs);
  await shows(visitor.notice, 'Connecting…');
  await page.unroute('**/graphql');
  await page.clock.fastForward(61 * minuteMs);
  await shows(visitor.notice, '');
});

test('a conversation that is opened while the service is away opens when it is back', async (context) => {
  const { page, site, agent, visitor } = await open(context, { isTimed: true });
  await page.goto('about:blank');
  const other = await agent.begin('Other', 'c1');
  await agent.begin('Newest', 'd1');
  await page.goto(site.origin);
  await visitor.launcher.click();
  await shows(visitor.texts, ['d1']);
  const allow = await refuse(page, '**/graphql');
  const failed = page.waitForEvent('requestfailed');
  await visitor.openFromList('Other');
  await failed;
  await page.clock.fastForward(21_000);
  await page.waitForEvent('requestfailed');
  await allow();
  await page.clock.fastForward(31_000);
  await shows(visitor.texts, ['c1']);
  await agent.answer(other, 'c2');
  await shows(visitor.texts, ['c1', 'c2']);
});

test('a token is renewed before it ends', async (context) => {
  const { page, errors, agent, visitor, site } = await open(context, { isTimed: true });
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  expect(site.tokens()).toBe(1);
  await page.clock.fastForward(15 * minuteMs - 5_000);
  await visitor.write('Are you there?');
  await eventually(visitor.isSent, (isSent) => isSent);
  expect([site.tokens(), await agent.contents(id), errors]).toEqual([2, ['Hello', 'Are you there?'], []]);
});

test('it asks for nothing while nothing happens, and for nothing at all once it is gone', async (context) => {
  const { page, agent, visitor, server } = await open(context, { isTimed: true });
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await agent.answer(id, 'Hello, Ada');
  await eventually(
    async () => (await agent.ask('GET', `/conversations/${id}`)).readPositions,
    (positions) => positions.some(({ reader, sequence }: Json) => reader === 'visitor' && sequence === 2),
  );
  const asked: string[] = [];
  page.on('request', (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
  await page.clock.fastForward(35_000); // for longer without a sign of life, it would connect again
  await page.evaluate("document.querySelector('conversation-widget').remove()");
  await page.clock.fastForward(60 * minuteMs);
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 0,
  );
  expect(asked).toEqual([]);
});

test('long conversations are read as far back as the visitor scrolls, and stay where they are', async (context) => {
  const { page, agent, visitor } = await open(context);
  await visitor.launcher.click();
  await visitor.write('1');
  const { id } = await agent.conversation();
  for (let n = 2; n <= 70; n++) await agent.answer(id, `${n}`);
  const numbers = (from: number) => Array.from({ length: 71 - from }, (_, at) => `${from + at}`);
  await shows(visitor.texts, numbers(1));
  await page.reload();
  await shows(visitor.texts, numbers(41));
  const log = visitor.widget.getByRole('log');
  const isAtEnd = () => log.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2);
  await eventually(isAtEnd, (holds) => holds);
  await log.evaluate((element) => element.scrollTo(0, 0));
  await shows(visitor.texts, numbers(11));
  const isSeen = async (at: number): Promise<boolean> => {
    const [item, view] = [await log.locator('li').nth(at).boundingBox(), await log.boundingBox()];
    return item !== null && view !== null && item.y >= view.y && item.y + item.height <= view.y + view.height;
  };
  expect([await isSeen(0), await isSeen(30)]).toEqual([false, true]); // 11, and 41 that was the first before
  // Not by a click or a call of `focus`, before which the browser would scroll to the button.
  const older = visitor.widget.getByRole('button', { name: 'Show older messages' });
  await older.evaluate((button) => button.focus({ preventScroll: true }));
  await older.dispatchEvent('click');
  await shows(visitor.texts, numbers(1));
  expect(await older.isVisible()).toBe(false);
  // The button that had the focus is gone.
  expect(await focusedPart(page)).toBe('log');
});

test('a page that was away for longer than the log reaches back reads anew, and keeps how far back it was read', async (context) => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { page, agent, visitor, server, account, site } = await open(context, { databasePath });
  await visitor.launcher.click();
  await visitor.write('1');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  for (let n = 2; n <= 40; n++) await agent.answer(id, `${n}`);
  await page.reload();
  await visitor.widget.getByRole('button', { name: 'Show older messages' }).dispatchEvent('click');
  const numbers = Array.from({ length: 40 }, (_, at) => `${at + 1}`);
  await shows(visitor.texts, numbers);
  const work = (elsewhere: TestServer) => agentOf(elsewhere.clientFor(account.secret)).answer(id, '41');
  const back = await whilePagesAreAway(server, databasePath, work, { corsOrigins: [site.origin] });
  context.onTestFinished(() => back.close());
  await shows(visitor.texts, [...numbers, '41']);
});

test('when the open conversation was deleted while the page was away, another is shown with its own messages', async (context) => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { page, agent, visitor, server, account, site } = await open(context, { databasePath });
  await page.goto('about:blank');
  const other = await agent.begin('Other', 'c1', 'c2');
  const opened = await agent.begin('Opened', 'a1', 'a2');
  await page.goto(site.origin);
  await visitor.launcher.click();
  await shows(visitor.texts, ['a1', 'a2']);
  const work = (elsewhere: TestServer) =>
    agentOf(elsewhere.clientFor(account.secret)).ask('DELETE', `/conversations/${opened}`);
  const back = await whilePagesAreAway(server, databasePath, work, { corsOrigins: [site.origin] });
  context.onTestFinished(() => back.close());
  await shows(visitor.texts, ['c1', 'c2']);
  expect(await page.evaluate('JSON.stringify(sessionStorage)')).toContain(other);
});

test('who is not known to the site is told that there is no chat, and gets it once that has changed', async (context) => {
  const { page, site, visitor } = await open(context);
  site.serve(undefined);
  await page.reload();
  await visitor.launcher.click();
  await shows(visitor.notice, 'The chat is not available right now.');
  site.serve({ id: 'customer-7', name: 'Ada' });
  await visitor.widget.getByRole('button', { name: 'Try again' }).click();
  await visitor.write('Hello');
  await eventually(visitor.isSent, (isSent) => isSent);
});

test.for(['light', 'dark'] as const)('axe finds nothing in it in %s colours', async (colorScheme, context) => {
  const { page, agent, visitor } = await open(context);
  await page.emulateMedia({ colorScheme });
  await visitor.launcher.click();
  expect(await axeFindings(page)).toEqual([]);
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await agent.answer(id, 'Hello, Ada');
  await shows(visitor.texts, ['Hello', 'Hello, Ada']);
  expect(await axeFindings(page)).toEqual([]);
  await visitor.widget.getByRole('button', { name: 'Conversations', exact: true }).click();
  expect(await axeFindings(page)).toEqual([]);
  await visitor.field.press('Escape');
  await agent.answer(id, 'How can I help?');
  await shows(visitor.unread, '1');
  expect(await axeFindings(page)).toEqual([]);
  await agent.ask('PATCH', `/conversations/${id}`, { status: 'closed' });
  await visitor.launcher.click();
  expect(await axeFindings(page)).toEqual([]);
});

test('the keyboard is enough: the focus goes into the chat and comes back', async (context) => {
  const { page, visitor } = await open(context);
  const focused = () => focusedPart(page);
  await page.keyboard.press('Tab');
  expect(await focused()).toBe('launcher');
  await visitor.widget.locator('[part=log][aria-live=polite]').waitFor({ state: 'attached' });
  await page.keyboard.press('Enter');
  expect(await focused()).toBe('field');
  // Who listens hears a message once: its row is not replaced when it is confirmed.
  await page.evaluate(`globalThis.changes = [];
    new MutationObserver((records) => globalThis.changes.push(...records)).observe(
      document.querySelector('conversation-widget').shadowRoot.querySelector('ol'), { childList: true })`);
  await page.keyboard.type('Hello');
  await page.keyboard.press('Enter');
  await page.keyboard.type('Are you there?');
  await page.keyboard.press('Enter');
  await shows(visitor.texts, ['Hello', 'Are you there?']);
  await eventually(visitor.isSent, (isSent) => isSent);
  const changes = 'changes.map(({ addedNodes, removedNodes }) => [addedNodes.length, removedNodes.length])';
  expect(await page.evaluate(changes)).toEqual([
    [1, 0],
    [1, 0],
  ]);
  expect(await focused()).toBe('field');
  await page.keyboard.press('Escape');
  expect([await focused(), await visitor.panel.isVisible()]).toEqual(['launcher', false]);
});

test('on a phone words and names that are too long break, and nothing behind the chat gets the focus', async (context) => {
  const { page, agent, visitor } = await open(context);
  await page.setViewportSize({ width: 320, height: 568 });
  await visitor.launcher.click();
  const long = 'Donaudampfschifffahrtsgesellschaft'.repeat(3);
  await visitor.write(long);
  const { id } = await agent.conversation();
  const author = { id: 'agent-3', name: long };
  await agent.ask('POST', `/conversations/${id}/messages`, { sender: 'agent', content: long, author });
  await shows(visitor.texts, [long, long]);
  expect(await visitor.widget.getByRole('log').evaluate((log) => log.scrollWidth - log.clientWidth)).toBe(0);
  await visitor.field.focus();
  await page.keyboard.press('Tab');
  expect(await focusedPart(page)).toBe('send');
  await page.keyboard.press('Tab');
  expect(await focusedPart(page)).not.toBe('launcher');
  await visitor.field.press('Escape');
  expect([await focusedPart(page), await visitor.panel.isVisible()]).toEqual(['launcher', false]);
});

test('what was begun elsewhere opens in a tab that has nothing yet, and what is unread opens with the chat', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  const other = visitorIn(await openTab(page, site.origin));
  await other.launcher.click();
  await shows(other.notice, '');
  await visitor.page.bringToFront();
  await visitor.launcher.click();
  await visitor.write('Hello');
  await shows(other.texts, ['Hello']);
  await visitor.field.press('Escape');
  const offer = await agent.ask('POST', '/conversations', {
    subject: 'An offer',
    visitor: { id: 'customer-7', name: 'Ada' },
    message: { sender: 'agent', content: 'May I help you?' },
  });
  await shows(visitor.unread, '1');
  await visitor.launcher.click();
  await shows(visitor.texts, ['May I help you?']);
  await shows(visitor.unread, '');

  // What is deleted while it is open is no longer shown.
  await agent.ask('DELETE', `/conversations/${offer.id}`);
  await shows(visitor.texts, []);
  expect(await agent.list()).toHaveLength(1);
  await visitor.write('Are you there?');
  expect((await agent.conversation(2)).lastMessage.preview).toBe('Are you there?');
});

test('a conversation that opens because nothing else is open shows what was written in it before', async (context) => {
  const { page, site, agent, visitor } = await open(context);
  await page.goto('about:blank');
  const other = await agent.begin('Other', 'c1', 'c2');
  const deleted = await agent.begin('Deleted', 'd1');
  await page.goto(site.origin);
  await visitor.launcher.click();
  await shows(visitor.texts, ['d1']);
  await agent.ask('DELETE', `/conversations/${deleted}`);
  await shows(visitor.texts, []);
  await agent.ask('PATCH', `/conversations/${other}`, { status: 'closed' });
  await shows(visitor.texts, ['c1', 'c2']);
});

test('a tab that is hidden marks nothing as read and ends its connection, and has everything when it is seen again', async (context) => {
  const { page, agent, visitor, server } = await open(context, { isTimed: true });
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await become(page, 'hidden');
  await agent.answer(id, 'On its way.');
  await shows(visitor.texts, ['Hello', 'On its way.']);
  await shows(visitor.unread, '1');
  await page.clock.fastForward(31_000);
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 0,
  );
  await agent.answer(id, 'It is there.');
  await become(page, 'visible');
  await shows(visitor.texts, ['Hello', 'On its way.', 'It is there.']);
  await shows(visitor.unread, '');
});

test('a page that is left and kept to go back to ends its connection, and has everything when it is back', async (context) => {
  const { page, agent, visitor, server } = await open(context);
  // The tests’ browser keeps no such pages: this one only believes so.
  const dispatch = (type: string) =>
    page.evaluate(`dispatchEvent(new PageTransitionEvent('${type}', { persisted: true }))`);
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await eventually(visitor.isSent, (isSent) => isSent);
  await dispatch('pagehide');
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 0,
  );
  await agent.answer(id, 'On its way.');
  await dispatch('pageshow');
  await shows(visitor.texts, ['Hello', 'On its way.']);
});

test('words, welcome, icon and looks are the page’s, if it wants', async (context) => {
  const { page, errors, visitor } = await open(context, {
    site: {
      attributes: 'text-open="Frag uns" text-message="Deine Nachricht" text-you="Du"',
      content: '<p slot="welcome">Was können wir tun?</p><span slot="icon">?</span>',
    },
  });
  await page.evaluate(`const sheet = new CSSStyleSheet();
    sheet.replaceSync('conversation-widget { --conversation-widget-accent: rgb(1, 2, 3) }'
      + 'conversation-widget::part(launcher) { border-radius: 4px }');
    document.adoptedStyleSheets = [sheet];`);
  expect(await visitor.launcher.getAttribute('aria-label')).toBe('Frag uns');
  const looks = await visitor.launcher.evaluate((element) => {
    const { backgroundColor, borderRadius } = getComputedStyle(element);
    return [backgroundColor, borderRadius];
  });
  expect(looks).toEqual(['rgb(1, 2, 3)', '4px']);
  expect(await page.getByText('?', { exact: true }).isVisible()).toBe(true);
  await visitor.launcher.click();
  const welcome = page.getByText('Was können wir tun?');
  expect(await welcome.isVisible()).toBe(true);
  const field = visitor.widget.getByRole('textbox', { name: 'Deine Nachricht' });
  await field.fill('Hallo');
  await field.press('Enter');
  await shows(visitor.texts, ['Hallo']);
  expect([await welcome.isVisible(), await visitor.widget.getByText('Du:').count()]).toEqual([false, 1]);
  expect(errors).toEqual([]);
});

test('it works with a script of the site’s own, and goes on where it was when the page moves it or changes an attribute', async (context) => {
  const { page, errors, agent, visitor, server } = await open(context, { site: { hasScript: true } });
  await visitor.launcher.click();
  await visitor.write('Hello');
  const { id } = await agent.conversation();
  await agent.answer(id, 'Hello, Ada');
  await shows(visitor.texts, ['Hello', 'Hello, Ada']);
  // Another place in the page: it goes on, with what is typed and what is not sent yet.
  const departure = gate();
  await page.route('**/messages', async (route) => {
    await departure.opened;
    await route.continue();
  });
  await visitor.write(`Thank you${'\n'.repeat(40)}!`);
  await visitor.field.fill('One more thing');
  await page.evaluate("document.querySelector('main').append(document.querySelector('conversation-widget'))");
  const log = visitor.widget.getByRole('log');
  expect(await log.evaluate((element) => element.scrollTop)).toBeGreaterThan(0);
  departure.open();
  await eventually(visitor.isSent, (isSent) => isSent);
  const all = ['Hello', 'Hello, Ada', `Thank you${'\n'.repeat(40)}!`];
  await shows(visitor.texts, all);
  expect(await visitor.field.inputValue()).toBe('One more thing');
  // Other attributes: it begins anew, where it was.
  await page.evaluate("document.querySelector('conversation-widget').setAttribute('token-url', '/chat-token?again')");
  await shows(visitor.texts, all);
  await eventually(
    async () => server.app.sessions.size,
    (size) => size === 1,
  );
  await visitor.write('Thanks');
  await eventually(
    () => agent.contents(id),
    (contents) => contents.length === 4,
  );
  expect(errors).toEqual([]);
});

test.for(['ltr', 'rtl'] as const)(
  'names, times and titles stand in their order in a page that is %s',
  async (direction, context) => {
    const { page, agent, visitor } = await open(context);
    await page.evaluate(`document.documentElement.dir = '${direction}'`);
    await visitor.launcher.click();
    await visitor.write('Hello');
    const { id } = await agent.conversation();
    const author = { id: 'agent-3', name: 'דנה' };
    await agent.ask('POST', `/conversations/${id}/messages`, { sender: 'agent', content: 'שלום', author });
    await shows(visitor.texts, ['Hello', 'שלום']);
    const [, about] = await lettersOf(visitor.widget.locator('[part=meta]'));
    expect(about?.text).toMatch(/^דנה · \d+:\d+ [AP]M$/);
    expect([about?.areInOrder('נ', ':'), about?.areInOrder(':', 'M')]).toEqual([direction === 'ltr', true]);
    await agent.begin('דואר', 'c1');
    await agent.begin('Parcel', 'd1');
    await visitor.list.click();
    const titles = visitor.widget.locator('.subject');
    await shows(() => titles.count(), 3);
    const starts = (await lettersOf(titles)).map(({ lefts: all, rights }) =>
      direction === 'ltr' ? Math.min(...all) : Math.max(...rights),
    );
    expect(new Set(starts.map(Math.round)).size).toBe(1);
  },
);
