import { afterEach, expect, test } from 'vitest';
import { whilePagesAreAway } from './support/away.ts';
import { openWidget, type Widget } from './support/chat-widget.ts';
import type { Json } from './support/client.ts';
import { temporaryFolder } from './support/files.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';
import { spendAll } from './support/spending.ts';
import { until } from './support/wait.ts';

// The chat widget that the GUIDE builds, in two pages of the same visitor.

let server: TestServer;
let pages: Widget[] = [];
afterEach(async () => {
  await Promise.all(pages.map((page) => page.dispose()));
  pages = [];
  await server.close();
});

const ada = { id: 'customer-7', name: 'Ada' };
const grace = { id: 'agent-3', name: 'Grace' };

/** How many messages the visitor has not read, of a conversation as REST shows it. */
function unreadIn({ messageCount, readPositions }: Json): number {
  const own = readPositions.find(({ reader }: Json) => reader === 'visitor');
  return messageCount - (own?.sequence ?? 0);
}

/** Waits until the pages show the visitor's conversations as the API has them, and what is unread of them. */
async function untilEqual({ rest }: Pick<TestAccount, 'rest'>): Promise<Json[]> {
  const { data } = (await rest('GET', `/conversations?visitorId=${ada.id}&sort=-lastActivityAt`)).body;
  const rowOf = ({ id, status, subject, messageCount, assignee }: Json) => [
    ...[id, status.toLowerCase(), subject, messageCount, assignee?.name],
  ];
  const rows = JSON.stringify(data.map(rowOf));
  const badge = data.reduce((sum: number, each: Json) => sum + unreadIn(each), 0);
  for (const page of pages)
    await until(() => JSON.stringify(page.list().map(rowOf)) === rows && page.badge() === badge);
  return data;
}

/** Waits until a page shows these messages, each once: the list may know of one before its event has arrived. */
async function shows(page: Widget, contents: readonly string[]): Promise<void> {
  const shown = () => page.shown().map(({ content }) => content);
  await until(() => shown().length >= contents.length);
  expect(shown()).toEqual(contents);
}

test('a visitor’s pages show the conversations as they are, each message once, and how much is unread, also after the server was away', async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  server = await startTestServer({ databasePath });
  const { port } = new URL(server.url);
  let account = await server.account();
  const later = () => server.clock.advance(1_000);
  const answer = (id: string, content: string) => {
    later();
    const body = { content, sender: 'agent', author: grace };
    return account.rest('POST', `/conversations/${id}/messages`, { body });
  };
  const startFor = async (visitor: object, content: string): Promise<string> => {
    later();
    const body = { visitor, message: { content, sender: 'agent', author: grace } };
    return (await account.rest('POST', '/conversations', { body })).body.id;
  };
  const bobs = await startFor({ id: 'customer-8', name: 'Bob' }, 'To Bob');
  const [one, two] = [
    await openWidget(server.url, account.secret, ada),
    await openWidget(server.url, account.secret, ada),
  ];
  pages = [one, two];
  await untilEqual(account);
  expect([one.list(), one.badge()]).toEqual([[], 0]);

  // The visitor writes first: that starts a conversation, in both pages.
  await one.start('Where is my parcel?');
  const [parcel] = await untilEqual(account);
  expect(parcel).toMatchObject({ status: 'pending', visitor: ada, messageCount: 1 });
  await account.rest('PATCH', `/conversations/${parcel.id}`, { body: { assignee: grace, subject: 'Parcel' } });
  await answer(parcel.id, 'On its way.');
  await answer(parcel.id, 'Here is its number.');
  await untilEqual(account);
  expect(pages.map((page) => page.badge())).toEqual([2, 2]);
  await shows(one, ['Where is my parcel?', 'On its way.', 'Here is its number.']);

  // What one page has shown is read in the other one, too, and nothing is read twice.
  await one.seen();
  const [read] = await untilEqual(account);
  expect(read.readPositions).toMatchObject([{ reader: 'agent-3' }, { reader: 'visitor', sequence: 3 }]);
  expect(pages.map((page) => page.badge())).toEqual([0, 0]);
  const spent = async () => (await account.rest('GET', '/account')).headers['x-ratelimit-remaining'];
  const before = Number(await spent());
  await one.seen();
  expect(before - Number(await spent())).toBe(1); // for looking

  // An agent begins another, and one that was Bob's becomes hers.
  const offer = await startFor(ada, 'May I help you?');
  await account.rest('PATCH', `/conversations/${bobs}`, { body: { visitor: ada } });
  await untilEqual(account);
  expect(pages.map((page) => page.badge())).toEqual([2, 2]);
  await two.open(offer);
  await two.send('Yes, please.');
  await untilEqual(account);
  expect(pages.map((page) => page.badge())).toEqual([1, 1]);
  await shows(two, ['May I help you?', 'Yes, please.']);

  await server.close();
  server = await startTestServer({ databasePath, config: { port: Number(port) }, clock: server.clock });
  account = { ...account, ...server.clientFor(account.secret) };
  await answer(offer, 'It is here.');
  await account.rest('PATCH', `/conversations/${offer}`, { body: { status: 'closed' } });
  await answer(parcel.id, 'Are you there?');
  await account.rest('DELETE', `/conversations/${bobs}`);
  await untilEqual(account);
  expect(pages.map((page) => page.badge())).toEqual([2, 2]);
  await shows(two, ['May I help you?', 'Yes, please.', 'It is here.']);
  await shows(one, ['Where is my parcel?', 'On its way.', 'Here is its number.', 'Are you there?']);
  await Promise.all([one.seen(), two.seen()]);
  const fresh = await openWidget(server.url, account.secret, ada);
  pages.push(fresh);
  await untilEqual(account);
  expect(pages.map((page) => page.badge())).toEqual([0, 0, 0]);

  // What is open when it is deleted is no longer shown.
  await account.rest('DELETE', `/conversations/${offer}`);
  await untilEqual(account);
  expect([two.shown(), one.list().map(({ subject }) => subject)]).toEqual([[], ['Parcel']]);
  const received = pages.map((page) => page.received.map(({ id }) => id));
  for (const ids of received) expect(new Set(ids).size).toBe(ids.length);
  expect(received[0]).toEqual(received[1]);
});

test('a visitor’s page whose subscription is refused when it connects again waits as it is told, and goes on', async () => {
  server = await startTestServer();
  const account = await server.account();
  const waits: number[] = [];
  // The page's time is the server's.
  const setTimeout = (go: () => void, ms: number) => {
    if (ms >= 1_000) waits.push(ms);
    server.clock.advance(ms);
    setImmediate(go);
  };
  const token = { requestsPerHour: 10 };
  const page = await openWidget(server.url, account.secret, ada, { token, globals: { setTimeout } });
  pages = [page];
  await page.start('Where is my parcel?');
  await until(() => page.received.length > 0);

  const scopes = ['conversations:read'];
  const made = await account.rest('POST', '/tokens', { body: { scopes, visitor: ada, ...token } });
  await spendAll(server.clientFor(made.body.token));
  page.interrupt();
  await until(() => waits.length > 0);
  expect(Math.max(...waits)).toBeGreaterThan(60_000);
  const [conversation] = await untilEqual(account);
  await account.rest('POST', `/conversations/${conversation.id}/messages`, {
    body: { content: 'On its way.', sender: 'agent' },
  });
  await untilEqual(account);
  await shows(page, ['Where is my parcel?', 'On its way.']);
});

test('a visitor’s page that was away for longer than the log reaches back reads its list and its open conversation anew', async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  server = await startTestServer({ databasePath });
  let account = await server.account();
  const pageWith = async (content: string) => {
    const page = await openWidget(server.url, account.secret, ada);
    pages.push(page);
    await page.start(content);
    server.clock.advance(1_000);
    return { page, id: page.list().at(0)?.id };
  };
  const parcel = await pageWith('Where is my parcel?');
  const tent = await pageWith('Where is my tent?');
  await untilEqual(account);

  server = await whilePagesAreAway(server, databasePath, async ({ clientFor }) => {
    account = { ...account, ...clientFor(account.secret) };
    await account.rest('POST', `/conversations/${parcel.id}/messages`, {
      body: { content: 'On its way.', sender: 'agent' },
    });
    await account.rest('DELETE', `/conversations/${tent.id}`);
  });
  account = { ...account, ...server.clientFor(account.secret) };
  await untilEqual(account);
  await shows(parcel.page, ['Where is my parcel?', 'On its way.']);
  expect(tent.page.shown()).toEqual([]);
  await parcel.page.send('Thank you.');
  await untilEqual(account);
});
