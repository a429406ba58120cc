import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Client } from '../../src/client/index.ts';
import { inbox as inboxDocument } from '../../src/console/documents.ts';
import { type Filter, firstFilter, variablesOf } from '../../src/console/inbox/filter.ts';
import { Inbox } from '../../src/console/inbox/inbox.ts';
import { Live } from '../../src/console/live.ts';
import { scopes as allScopes, type Scope } from '../../src/domain/caller.ts';
import { whilePagesAreAway } from '../support/away.ts';
import type { Json, Client as TestClient } from '../support/client.ts';
import { effort, longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { sendMany } from '../support/send-many.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { gate, until } from '../support/wait.ts';

// The inbox of the console without its page: what it shows is what the API lists, whatever happens in which order.

const grace = { id: 'agent-3', name: 'Grace' };
const linus = { id: 'agent-4', name: 'Linus' };

/** What the console's page does when somebody has signed in. */
function follow(url: string, secret: string, scopes: readonly Scope[] = allScopes, send = fetch) {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const credential = async () => {
    const response = await fetch(`${url}/v1/tokens`, { method: 'POST', headers, body: JSON.stringify({ scopes }) });
    if (!response.ok) throw new Error(`It answers ${response.status}.`);
    return (await response.json()).token as string;
  };
  const session = { client: new Client({ url, credential, fetch: send }), agent: grace, scopes };
  const live = new Live(session, () => {});
  const following = live.start();
  onTestFinished(async () => {
    live.stop();
    await following;
  });
  const inboxes: Inbox[] = [];
  return {
    live,
    async inbox(filter: Filter = firstFilter): Promise<Inbox> {
      const inbox = new Inbox({ session, live });
      inboxes.push(inbox);
      inbox.list.filter = filter;
      await inbox.start();
      return inbox;
    },
  };
}

/** A conversation as the inbox shows it; its metadata is read when it is opened. */
const shown = ({ list }: Inbox): Json[] => list.rows.map(({ metadata: _, ...row }) => row);

/** All that the API lists under a filter. */
async function listed({ graphql }: Pick<TestClient, 'graphql'>, filter: Filter): Promise<Json[]> {
  const rows: Json[] = [];
  for (let after: string | null = null; ; ) {
    const { data, errors } = await graphql(inboxDocument, { ...variablesOf(filter, grace.id), first: 100, after });
    expect(errors).toBe(undefined);
    rows.push(...data.conversations.nodes);
    if (!data.conversations.pageInfo.hasNextPage) return rows;
    after = data.conversations.pageInfo.endCursor;
  }
}

/** Waits until the inbox shows what the API lists. */
async function untilEqual(inbox: Inbox, client: TestClient): Promise<void> {
  const expected = await listed(client, inbox.list.filter);
  await until(() => isDeepStrictEqual(shown(inbox), expected)).catch(() => expect(shown(inbox)).toEqual(expected));
}

/** The messages of a conversation by REST. */
async function messagesOf({ rest }: TestClient, id: string): Promise<string[]> {
  return (await rest('GET', `/conversations/${id}/messages?limit=100`)).body.data.map(({ content }: Json) => content);
}

const contentsOf = ({ thread }: Inbox): string[] => (thread?.messages ?? []).map(({ content }) => content);

/** What other people do; which conversation is meant is a place in the list of all. */
const step = fc.record({
  what: fc.constantFrom(
    'start',
    'write',
    'write',
    'answer',
    'answer',
    'status',
    'assign',
    'tag',
    'untag',
    'read',
    'delete',
  ),
  place: fc.nat({ max: 7 }),
  agent: fc.constantFrom(grace, linus),
  isClosed: fc.boolean(),
  isAssigned: fc.boolean(),
  sequence: fc.nat({ max: 4 }),
  seconds: fc.nat({ max: 1 }),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function take({ rest }: TestClient, ids: string[], each: Step): Promise<void> {
  const id = ids[each.place % Math.max(1, ids.length)];
  const author = { id: each.agent.id, name: each.agent.name };
  const patch = (body: object) => rest('PATCH', `/conversations/${id}`, { body });
  if (each.what === 'start' || id === undefined) {
    const message = each.isClosed ? { sender: 'visitor', content: 'Hello' } : undefined;
    const body = {
      subject: `${ids.length}`,
      ...(each.isAssigned && { assignee: each.agent, tags: ['a'] }),
      ...(message && { message }),
    };
    ids.push((await rest('POST', '/conversations', { body })).body.id);
  } else if (each.what === 'write') {
    await rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content: `v${each.sequence}` } });
  } else if (each.what === 'answer') {
    const body = { sender: 'agent', content: `a${each.sequence}`, author };
    await rest('POST', `/conversations/${id}/messages`, { body }); // a closed one refuses it
  } else if (each.what === 'status') await patch({ status: each.isClosed ? 'closed' : 'active' });
  else if (each.what === 'assign') await patch({ assignee: each.isAssigned ? each.agent : null });
  else if (each.what === 'tag') await patch({ addTags: [each.isClosed ? 'a' : 'b'] });
  else if (each.what === 'untag') await patch({ removeTags: ['a'] });
  else if (each.what === 'read') {
    const body = { sequence: each.sequence };
    await rest('PUT', `/conversations/${id}/read-positions/${each.agent.id}`, { body }); // too far is refused
  } else {
    await rest('DELETE', `/conversations/${id}`);
    ids.splice(ids.indexOf(id), 1);
  }
}

const filters: readonly Filter[] = [
  firstFilter,
  { ...firstFilter, status: 'all' },
  { ...firstFilter, status: 'closed', tag: 'a' },
  { ...firstFilter, status: 'all', assignee: 'mine' },
  { ...firstFilter, status: 'pending', assignee: 'nobody' },
  { ...firstFilter, status: 'all', isUnread: true },
];

longTest(
  'under each filter the list is what the API lists, and the thread too, for whatever happens, also after a restart',
  async () => {
    const databasePath = `${temporaryFolder()}/test.db`;
    let server: TestServer = await startTestServer({ databasePath });
    onTestFinished(() => server.close());
    const config = { port: Number(new URL(server.url).port) };
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { minLength: 4, maxLength: 12 }), { minLength: 3, maxLength: 3 }),
        async (parts) => {
          const account = await server.account();
          let client: TestClient = account;
          const ids: string[] = [(await client.rest('POST', '/conversations', { body: {} })).body.id];
          const run = async (steps: readonly Step[] = []) => {
            for (const each of steps) {
              server.clock.advance(1_000 * each.seconds);
              await take(client, ids, each);
            }
          };
          const [opened = ''] = ids;
          const { inbox, live } = follow(server.url, account.secret);
          const [before, during, after] = parts;
          // What happens while the list is read is in it, too.
          const [inboxes] = await Promise.all([Promise.all(filters.map(inbox)), run(before)]);
          await inboxes[0]?.open(opened);
          await run(during);
          for (const each of inboxes) await untilEqual(each, client);
          await server.close();
          server = await startTestServer({ databasePath, config, clock: server.clock });
          client = server.clientFor(account.secret);
          await run(after);
          for (const each of inboxes) await untilEqual(each, client);
          const [first] = inboxes;
          if (ids.includes(opened)) {
            const expected = await messagesOf(client, opened);
            await until(() => first !== undefined && isDeepStrictEqual(contentsOf(first), expected));
          } else await until(() => first?.thread?.isGone === true);
          live.stop();
        },
      ),
      { numRuns: effort(2, 40), endOnFailure: true },
    );
  },
);

longTest('a long list is read page by page, and is at each moment the beginning of what the API lists', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const account = await server.account();
  const ids: string[] = [];
  for (let number = 1; number <= 120; number++) {
    server.clock.advance(1_000);
    ids.push((await account.rest('POST', '/conversations', { body: { subject: `${number}` } })).body.id);
  }
  const { inbox } = follow(server.url, account.secret);
  const page = await inbox();
  const isBeginning = async (least: number) => {
    const all = await listed(account, firstFilter);
    await until(
      () => page.list.rows.length >= least && isDeepStrictEqual(shown(page), all.slice(0, page.list.rows.length)),
    );
  };
  const write = async (place: number) => {
    server.clock.advance(1_000);
    await account.rest('POST', `/conversations/${ids[place]}/messages`, { body: { sender: 'visitor', content: 'Hi' } });
  };
  await isBeginning(50);
  await write(0); // far below what is shown: it comes to the top
  await isBeginning(51);
  await account.rest('PATCH', `/conversations/${ids[110]}`, { body: { status: 'closed' } });
  await isBeginning(50);
  await account.rest('PATCH', `/conversations/${ids[20]}`, { body: { addTags: ['a'] } }); // not yet shown
  await isBeginning(50);
  await Promise.all([page.list.loadMore(), write(30)]);
  await isBeginning(100);
  await page.list.loadMore();
  await untilEqual(page, account);
  expect([page.list.rows.length, page.list.hasMore]).toEqual([119, false]);
});

/** Runs a mutation of each of many conversations, some with each request. @returns their ids */
async function ofMany({ graphql }: TestClient, mutation: string, inputs: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (let from = 0; from < inputs.length; from += 40) {
    const calls = inputs
      .slice(from, from + 40)
      .map((input, at) => `m${at}: ${mutation}(input: {${input}}) { conversation { id } }`);
    const { data, errors } = await graphql(`mutation { ${calls.join(' ')} }`);
    expect(errors).toBe(undefined);
    ids.push(...Object.values<Json>(data).map(({ conversation }) => conversation.id));
  }
  return ids;
}

/** Begins so many. @returns their ids, the oldest first */
const startMany = (client: TestClient, count: number): Promise<string[]> =>
  ofMany(client, 'createConversation', Array<string>(count).fill('metadata: {}'));

longTest(
  'a list shows the latest 500, also when others come, and those before them when these are closed',
  async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const account = await server.account();
    await startMany(account, 502);
    const page = await follow(server.url, account.secret).inbox();
    while (page.list.hasMore) await page.list.loadMore();
    const isLatest = async () => {
      const latest = (await listed(account, firstFilter)).slice(0, 500);
      await until(() => isDeepStrictEqual(shown(page), latest));
    };
    await isLatest();
    expect(page.list.isFull).toBe(true);
    const [newest = ''] = await startMany(account, 1);
    await isLatest();
    expect([page.list.isFull, page.list.hasMore]).toEqual([true, false]);
    const closed = shown(page).slice(100);
    await ofMany(
      account,
      'updateConversation',
      closed.map(({ id }) => `id: "${id}", status: CLOSED`),
    );
    await until(() => page.list.hasMore);
    while (page.list.hasMore) await page.list.loadMore();
    await untilEqual(page, account);
    expect([shown(page)[0]?.['id'], page.list.isFull]).toEqual([newest, false]);
  },
);

longTest('a list to which a thousand others come is read anew from its beginning', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const account = await server.account();
  const page = await follow(server.url, account.secret).inbox();
  await startMany(account, 1_010);
  await until(() => page.list.hasMore);
  const latest = await listed(account, firstFilter);
  await until(() => isDeepStrictEqual(shown(page), latest.slice(0, shown(page).length)));
  expect(shown(page).length).toBeLessThan(500);
});

/** A service with a conversation that an agent has open. */
async function openThread(scopes?: readonly Scope[], send = fetch) {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const account = await server.account();
  const body = { subject: 'Tent', message: { sender: 'visitor', content: 'Where is it?' }, metadata: { order: 7 } };
  const { id } = (await account.rest('POST', '/conversations', { body })).body;
  const { inbox: open } = follow(server.url, account.secret, scopes, send);
  const inbox = await open();
  await inbox.open(id);
  const ask = (method: string, path = '', given?: object) =>
    account.rest(method, `/conversations/${id}${path}`, given && { body: given });
  return { server, account, inbox, id, ask };
}

test('a message that is sent is shown once from the first moment, and is there once', async () => {
  const { inbox, account, id } = await openThread();
  const all = () => [...contentsOf(inbox), ...inbox.drafts.map(({ content }) => content)];
  const seen: string[][] = [];
  inbox.listen(() => seen.push(all()));
  for (const text of ['One', 'Two', 'Three']) {
    inbox.type(id, text);
    inbox.send();
    expect(all().at(-1)).toBe(text);
  }
  await until(() => inbox.drafts.length === 0);
  const expected = ['Where is it?', 'One', 'Two', 'Three'];
  expect([all(), await messagesOf(account, id)]).toEqual([expected, expected]);
  for (const texts of seen) expect(new Set(texts).size).toBe(texts.length);
  expect(inbox.thread?.messages[1]).toMatchObject({ sender: 'AGENT', author: grace });
  await until(() => inbox.thread?.row?.unreadCount === 0); // who answers has read
});

test('without events, what others wrote before an answer is shown with it', async () => {
  const { inbox, id, ask } = await openThread(['conversations:read', 'conversations:write']);
  await ask('POST', '/messages', { sender: 'visitor', content: 'Are you there?' });
  inbox.type(id, 'It is on its way.');
  inbox.send();
  await until(() => inbox.drafts.length === 0);
  await until(() => contentsOf(inbox).length > 2);
  expect(contentsOf(inbox)).toEqual(['Where is it?', 'Are you there?', 'It is on its way.']);
});

test('what others wrote into an empty conversation is shown, also when its event comes after an answer', async () => {
  const arriving = gate();
  vi.stubGlobal(
    'WebSocket',
    class extends WebSocket {
      override set onmessage(take: (message: MessageEvent) => void) {
        super.onmessage = (message) => void arriving.opened.then(() => take(message));
      }
    },
  );
  onTestFinished(() => void vi.unstubAllGlobals());
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret, rest } = await server.account();
  const { id } = (await rest('POST', '/conversations', { body: {} })).body;
  const page = follow(server.url, secret);
  const inbox = await page.inbox();
  await inbox.open(id);
  await until(() => page.live.connection === 'live');
  await rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content: 'Where is it?' } });
  inbox.type(id, 'It is on its way.');
  inbox.send();
  await until(() => inbox.drafts.length === 0);
  arriving.open();
  await until(() => contentsOf(inbox).length === 2);
  expect(contentsOf(inbox)).toEqual(['Where is it?', 'It is on its way.']);
});

test('a message that was refused says why, and can be discarded, or sent once more', async () => {
  const { inbox, account, id, ask } = await openThread([
    'conversations:read',
    'conversations:write', // without events, the page does not know that the conversation is closed
  ]);
  await ask('PATCH', '', { status: 'closed' });
  for (const text of ['One', 'Two']) {
    inbox.type(id, text);
    inbox.send();
  }
  const failures = () => inbox.drafts.map(({ content, error }) => [content, (error as Json)?.code]);
  await until(() => failures().every(([, code]) => code !== undefined));
  expect(failures()).toEqual([
    ['One', 'CONVERSATION_CLOSED'],
    ['Two', 'CONVERSATION_CLOSED'],
  ]);
  const [one, two] = inbox.drafts;
  if (one) inbox.discard(one);
  expect(await inbox.change({ status: 'ACTIVE' })).toBe(true);
  if (two) inbox.resend(two);
  await until(() => inbox.drafts.length === 0);
  const expected = ['Where is it?', 'Two'];
  expect([contentsOf(inbox), await messagesOf(account, id)]).toEqual([expected, expected]);
});

test('nobody closes a conversation past what it does not show: it is shown first', async () => {
  const { inbox, ask } = await openThread(['conversations:read', 'conversations:write']);
  await ask('PATCH', '', { assignee: linus });
  expect(await inbox.change({ status: 'CLOSED' }, true)).toBe(false);
  expect(String(inbox.thread?.refusal)).toContain('has changed in the meantime');
  expect(inbox.thread?.row).toMatchObject({ status: 'PENDING', assignee: linus });
  expect(await inbox.change({ status: 'CLOSED' }, true)).toBe(true);
  expect([inbox.thread?.refusal, (await ask('GET')).body.status]).toEqual([undefined, 'closed']);
  expect(inbox.list.rows).toEqual([]); // closed, it is none of those that are shown
});

test('what is seen while an earlier message is being marked is marked, too', async () => {
  const { inbox, ask } = await openThread();
  let last = 0;
  inbox.listen(() => {
    const sequence = inbox.thread?.messages.at(-1)?.sequence ?? 0;
    if (sequence === last) return;
    last = sequence;
    void inbox.seen(); // as the page does when there is another message
  });
  const write = () => ask('POST', '/messages', { sender: 'visitor', content: 'Are you there?' });
  for (let count = 4; count < 30; count += 3) {
    await Promise.all([write(), write(), write()]);
    await until(() => inbox.thread?.row?.messageCount === count && inbox.thread.row.unreadCount === 0);
  }
});

test('what was seen while the service refused is marked when the conversation is opened again, or something happens', async () => {
  let isRefused = true;
  const { inbox, id, ask } = await openThread(undefined, async (url, init) =>
    isRefused && `${init?.body}`.includes('markRead')
      ? Response.json({ code: 'QUOTA_EXCEEDED' }, { status: 409 })
      : fetch(url, init),
  );
  const isUnread = () => inbox.thread?.row?.unreadCount !== 0;
  await inbox.seen();
  expect(isUnread()).toBe(true);
  isRefused = false;
  await inbox.open(undefined);
  await inbox.open(id);
  await inbox.seen();
  expect(isUnread()).toBe(false);

  isRefused = true;
  await ask('POST', '/messages', { sender: 'visitor', content: 'Are you there?' });
  await until(isUnread);
  await inbox.seen();
  expect(isUnread()).toBe(true);
  isRefused = false;
  await ask('PATCH', '', { addTags: ['b'] });
  await until(() => inbox.thread?.row?.tags[0] === 'b');
  await inbox.seen();
  expect(isUnread()).toBe(false);
});

test('each action costs one request, and following costs none', async () => {
  const { inbox, account, id, ask } = await openThread();
  await ask('PATCH', '', { addTags: ['b'] });
  await until(() => inbox.list.rows[0]?.tags[0] === 'b'); // it follows
  const remaining = async () => Number((await account.rest('GET', '/account')).headers['x-ratelimit-remaining']);
  const cost = async (work: () => Promise<unknown>): Promise<number> => {
    const before = await remaining();
    await work();
    return before - (await remaining()) - 1; // the question itself
  };
  const answer = async () => {
    inbox.type(id, 'Hello');
    inbox.send();
    await until(() => inbox.drafts.length === 0);
  };
  expect([
    await cost(() => inbox.change({ assignee: grace }, true)),
    await cost(() => inbox.change({ addTags: ['a'] })),
    await cost(() => inbox.change({ subject: 'A tent' })),
    await cost(() => inbox.seen()),
    await cost(() => inbox.seen()),
    await cost(answer),
    await cost(() => inbox.find('tent')),
    await cost(() => inbox.filter(firstFilter)),
    await cost(async () => {
      await inbox.find('');
      await inbox.open(undefined);
      await inbox.open(id);
    }),
  ]).toEqual([1, 1, 1, 1, 0, 1, 1, 2, 1]); // a filter holds for the list and for what is searched
});

test('what is found is shown with its matches, and kept up to date', async () => {
  const { inbox, ask, account } = await openThread();
  await inbox.find(' where ');
  const [found] = inbox.search.results;
  expect(found?.excerpt).toEqual([
    { text: 'Where', match: true },
    { text: ' is it?', match: false },
  ]);
  await ask('PATCH', '', { addTags: ['a'] });
  await until(() => inbox.search.results[0]?.row.tags[0] === 'a');
  await ask('PATCH', '', { status: 'closed' });
  await until(() => inbox.search.results.length === 0);
  await inbox.filter({ ...firstFilter, status: 'all' });
  expect(inbox.search.results.map(({ row }) => row.status)).toEqual(['CLOSED']);
  await ask('DELETE');
  await until(() => inbox.search.results.length === 0 && inbox.thread?.isGone === true);
  expect((await account.rest('GET', '/conversations')).body.data).toEqual([]);
});

/** A `fetch` whose answer to the operation of a name is held back until it is let go. */
function holding(name: string) {
  const [asked, letGo] = [gate(), gate()];
  const send: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (String(init?.body).includes(name)) {
      asked.open();
      await letGo.opened;
    }
    return response;
  };
  return { send, asked: asked.opened, letGo: () => letGo.open() };
}

test.each([
  ['closed', 'PATCH', { status: 'closed' }],
  ['deleted', 'DELETE', undefined],
])('what is %s while the answer to a search is on its way is not found', async (_, method, body) => {
  const { send, asked, letGo } = holding('query Search');
  const { inbox, ask } = await openThread(undefined, send);
  const searching = inbox.find('tent');
  await asked;
  await ask(method, '', body);
  await until(() => inbox.list.rows.length === 0);
  letGo();
  await searching;
  expect(inbox.search.results).toEqual([]);
});

test('a conversation that is deleted while the answer to its message is on its way stays gone', async () => {
  const { send, asked, letGo } = holding('mutation Send');
  const { inbox, id, ask } = await openThread(undefined, send);
  inbox.type(id, 'Hello');
  inbox.send();
  await asked;
  await ask('DELETE');
  await until(() => inbox.thread?.isGone === true);
  const taken = gate();
  inbox.listen(taken.open);
  letGo();
  await taken.opened;
  expect(inbox.list.rows).toEqual([]);
});

test('a conversation that is deleted while the answer to its change is on its way stays gone, whatever is open', async () => {
  const { send, asked, letGo } = holding('mutation Update');
  const { inbox, ask } = await openThread(undefined, send);
  const changing = inbox.change({ addTags: ['a'] });
  await asked;
  await inbox.open(undefined);
  await ask('DELETE');
  await until(() => inbox.list.rows.length === 0);
  letGo();
  await changing;
  expect(inbox.list.rows).toEqual([]);
});

test.each([
  ['closed', 'PATCH', { status: 'closed' }],
  ['deleted', 'DELETE', undefined],
])('what is %s while it is asked whether the agent has read it is not listed', async (_, method, body) => {
  const { send, asked, letGo } = holding('query Row');
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret, rest } = await server.account();
  const message = { sender: 'visitor', content: 'Where is it?' };
  const { id } = (await rest('POST', '/conversations', { body: { message } })).body;
  const page = follow(server.url, secret, allScopes, send);
  const unread = await page.inbox({ ...firstFilter, isUnread: true });
  const open = await page.inbox();
  // With its first position, that of another page of the agent, the conversation comes to be unread.
  await rest('PUT', `/conversations/${id}/read-positions/${grace.id}`, { body: { sequence: 0 } });
  await asked;
  await rest(method, `/conversations/${id}`, { body });
  await until(() => open.list.rows.length === 0);
  const taken = gate();
  unread.listen(taken.open);
  letGo();
  await taken.opened;
  expect(unread.list.rows).toEqual([]);
});

test('older messages are read on demand, and new ones come after them', async () => {
  const { inbox, account, id: conversationId, ask } = await openThread();
  const write = (number: number) => ask('POST', '/messages', { sender: 'visitor', content: `${number}` });
  await sendMany(account, conversationId, 2, 120);
  await until(() => inbox.thread?.messages.length === 120);
  const id = inbox.thread?.id;
  await inbox.open(undefined);
  await inbox.open(id);
  const numbers = () => inbox.thread?.messages.map(({ sequence }) => sequence) ?? [];
  const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, at) => first + at);
  expect(numbers()).toEqual(from(71, 120));
  await Promise.all([inbox.thread?.readOlder(), write(121)]);
  await until(() => numbers().length === 101);
  expect(numbers()).toEqual(from(21, 121));
  await inbox.thread?.readOlder();
  expect([numbers(), inbox.thread?.hasOlder]).toEqual([from(1, 121), false]);
});

/** An inbox whose open conversation had 70 more messages while the pages were away for longer than the log reaches back. */
async function afterLongAway(send = fetch) {
  const databasePath = `${temporaryFolder()}/test.db`;
  let server = await startTestServer({ databasePath });
  onTestFinished(() => server.close());
  const account = await server.account();
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'Tent' } })).body;
  const write = ({ rest }: TestClient, content: string) =>
    rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content } });
  const inbox = await follow(server.url, account.secret, allScopes, send).inbox();
  await inbox.open(id);
  await write(account, '1');
  await until(() => inbox.thread?.messages.length === 1);
  await inbox.find('tent');
  server = await whilePagesAreAway(server, databasePath, async ({ clientFor }) => {
    await sendMany(clientFor(account.secret), id, 2, 70);
  });
  const client = server.clientFor(account.secret);
  return { inbox, client, writeLast: () => write(client, '71') };
}

/** Expects the last messages up to the 71st, one after the other. */
async function expectNoGap({ thread }: Inbox): Promise<void> {
  await until(() => thread?.messages.at(-1)?.sequence === 71);
  const sequences = thread?.messages.map(({ sequence }) => sequence) ?? [];
  const [first = 0] = sequences;
  expect(first).toBeGreaterThan(1);
  expect(sequences).toEqual(Array.from({ length: 72 - first }, (_, at) => first + at));
}

test('away for longer than the log reaches back, it reads what it shows anew, and there is no gap', async () => {
  const { inbox, client, writeLast } = await afterLongAway();
  await until(() => inbox.search.results[0]?.row.messageCount === 70);
  await writeLast();
  await expectNoGap(inbox);
  await untilEqual(inbox, client);
});

test('a thread that could not be read anew shows a gap with an error, and none after another try', async () => {
  let reads = 0;
  const { inbox, writeLast } = await afterLongAway(async (url, init) => {
    const isSecondRead = String(init?.body).includes('query Thread') && ++reads === 2;
    return isSecondRead ? new Response('', { status: 429, headers: { 'Retry-After': '1800' } }) : fetch(url, init);
  });
  await until(() => inbox.thread?.error !== undefined);
  await writeLast();
  await inbox.thread?.readOlder();
  expect(inbox.thread?.error).toMatchObject({ code: 'RATE_LIMITED' });
  await inbox.retry();
  await expectNoGap(inbox);
  expect(inbox.thread?.error).toBe(undefined);
});

test('away for longer than the log reaches back, it keeps nothing of a conversation that was deleted meanwhile', async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const server = await startTestServer({ databasePath });
  onTestFinished(() => server.close());
  const { secret, rest } = await server.account();
  const { id } = (await rest('POST', '/conversations', { body: { subject: 'Tent' } })).body;
  const inbox = await follow(server.url, secret).inbox();
  await inbox.open(id);
  await rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
  inbox.type(id, 'One');
  inbox.send();
  await until(() => inbox.drafts.some(({ error }) => error !== undefined));
  inbox.type(id, 'Two');
  const back = await whilePagesAreAway(server, databasePath, async ({ clientFor }) => {
    await clientFor(secret).rest('DELETE', `/conversations/${id}`);
  });
  onTestFinished(() => back.close());
  await until(() => inbox.thread?.isGone === true);
  await inbox.open(undefined);
  expect([inbox.notSent, inbox.textOf(id)]).toEqual([[], '']);
});

test('an account whose budget is spent is told so at once', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account({ requestsPerHour: 1 }); // for the token
  const inbox = await follow(server.url, secret).inbox();
  await inbox.open('conv_1');
  expect([inbox.list.error, inbox.thread?.error]).toMatchObject([{ code: 'RATE_LIMITED' }, { code: 'RATE_LIMITED' }]);
});

test('what cannot be followed yet says why, and is read with the next try that succeeds', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret, rest } = await server.account();
  await rest('POST', '/conversations', { body: { subject: 'Tent' } });
  let tries = 0;
  const page = follow(server.url, secret, allScopes, async (url, init) =>
    String(init?.body).includes('{ eventCursor }') && ++tries === 1
      ? new Response('', { status: 500, headers: { 'x-request-id': 'req' } })
      : fetch(url, init),
  );
  const inbox = await page.inbox();
  expect([inbox.list.error, inbox.list.rows]).toMatchObject([{ code: 'INTERNAL' }, []]);
  await until(() => page.live.connection === 'live');
  await inbox.retry();
  expect([inbox.list.error, inbox.list.rows]).toMatchObject([undefined, [{ subject: 'Tent' }]]);
});

test('a key that may not read conversations asks for none, and one that may not follow events shows the list', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const account = await server.account();
  await account.rest('POST', '/conversations', { body: { subject: 'Tent' } });
  const blind = follow(server.url, account.secret, ['events:read']);
  const inbox = await blind.inbox();
  expect([inbox.may('conversations:read'), inbox.list.rows]).toEqual([false, []]);
  await until(() => blind.live.connection === 'live');

  const still = follow(server.url, account.secret, ['conversations:read']);
  const other = await still.inbox();
  expect([still.live.connection, other.list.rows.length]).toEqual(['off', 1]);
});
