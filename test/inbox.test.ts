import { afterEach, expect, test } from 'vitest';
import { whilePagesAreAway } from './support/away.ts';
import type { Json } from './support/client.ts';
import { longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { type Inbox, openInbox } from './support/inbox.ts';
import { sendMany } from './support/send-many.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';
import { until } from './support/wait.ts';

// The inbox that the GUIDE builds, in the pages of two agents.

let server: TestServer;
let inboxes: Inbox[] = [];
afterEach(async () => {
  await Promise.all(inboxes.map((inbox) => inbox.dispose()));
  inboxes = [];
  await server.close();
});

const agents = [
  { id: 'agent-3', name: 'Grace' },
  { id: 'agent-4', name: 'Linus' },
];

/** @param unread what the agent whose page it is has not read, and what the visitor has not */
const row = ({ id, status, subject, tags, assignee, messageCount, lastMessage }: Json, unread: (number | null)[]) => ({
  id,
  status: status.toLowerCase(),
  subject,
  tags,
  assignee: assignee && { id: assignee.id, name: assignee.name },
  messageCount,
  lastMessage: lastMessage?.preview,
  unread,
});

/** What a reader has not read of a conversation, as REST shows it. */
function unreadIn({ messageCount, readPositions }: Json, reader: string | undefined): number | null {
  const position = readPositions.find((each: Json) => each.reader === reader);
  return position === undefined ? null : messageCount - position.sequence;
}

/** Waits until both pages show the list as the API has it, and what is unread of it. */
async function untilEqual({ rest }: Pick<TestAccount, 'rest'>): Promise<void> {
  const { data } = (await rest('GET', '/conversations?sort=-lastActivityAt')).body;
  for (const [index, inbox] of inboxes.entries()) {
    const unread = (each: Json) => [agents[index]?.id, 'visitor'].map((reader) => unreadIn(each, reader));
    const expected = JSON.stringify(data.map((each: Json) => row(each, unread(each))));
    const shown = () => inbox.rows().map((each) => row(each, [each.unreadCount, each.unseen]));
    await until(() => JSON.stringify(shown()) === expected);
  }
}

longTest(
  'two agents’ pages show the list as it is, what each has not read, and each message once, also after the server was away',
  async () => {
    const databasePath = `${temporaryFolder()}/test.db`;
    server = await startTestServer({ databasePath });
    const { port } = new URL(server.url);
    let account = await server.account();
    const start = async (subject: string): Promise<string> => {
      server.clock.advance(1_000);
      const message = { content: `About ${subject}`, sender: 'visitor' };
      return (await account.rest('POST', '/conversations', { body: { subject, message } })).body.id;
    };
    const write = (id: string, content: string) => {
      server.clock.advance(1_000);
      return account.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'visitor' } });
    };
    const [tent, stove, lamp] = [await start('a tent'), await start('a stove'), await start('a lamp')];

    const [grace, linus] = (await Promise.all(agents.map((agent) => openInbox(server.url, account.secret, agent)))) as [
      Inbox,
      Inbox,
    ];
    inboxes = [grace, linus];
    await untilEqual(account);
    /** What both have not read of the conversation about the tent, and its visitor. */
    const unread = () =>
      inboxes.map((inbox) => {
        const { unreadCount, unseen } = inbox.rows().find(({ id }) => id === tent);
        return [unreadCount, unseen];
      });
    expect(unread()).toEqual([
      [null, 0],
      [null, 0],
    ]);

    await grace.open(tent);
    await linus.open(tent);
    await grace.take(tent);
    await linus.tag(tent, 'delivery', 'urgent');
    await write(tent, 'Are you there?');
    await start('a chair');
    await account.rest('DELETE', `/conversations/${stove}`);
    await linus.close(lamp);
    await untilEqual(account);
    expect(grace.rows().map(({ subject, status }) => [subject, status])).toEqual([
      ['a chair', 'PENDING'],
      ['a tent', 'PENDING'],
      ['a lamp', 'CLOSED'],
    ]);
    expect(linus.rows()[1]).toMatchObject({ assignee: { id: 'agent-3', name: 'Grace' }, tags: ['delivery', 'urgent'] });

    // What has come since is unread, until it is seen by who looks at it.
    expect(unread()).toEqual([
      [1, 0],
      [1, 0],
    ]);
    await grace.seen(tent);
    await untilEqual(account);
    expect(unread()).toEqual([
      [0, 0],
      [1, 0],
    ]);

    /** Sends, and looks at the sender's page until the answer has come: what it shows never doubles. */
    const sendAndLook = async (inbox: Inbox, content: string): Promise<void> => {
      let isAnswered = false;
      const sent = inbox.send(tent, content).finally(() => (isAnswered = true));
      await until(() => {
        expect(inbox.shown(tent).filter((each) => each.content === content)).toHaveLength(1);
        return isAnswered;
      });
      await sent;
    };
    await Promise.all([sendAndLook(grace, 'I have it.'), sendAndLook(linus, 'Grace has it.')]);
    await Promise.all([grace.seen(tent), linus.seen(tent)]);
    await untilEqual(account);
    expect(unread().map(([, unseen]) => unseen)).toEqual([2, 2]);
    const readTo = (reader: string, sequence: number) =>
      account.rest('PUT', `/conversations/${tent}/read-positions/${reader}`, { body: { sequence } });
    await readTo('visitor', 3);
    await readTo('somebody', 3); // of no interest to these pages
    await untilEqual(account);
    expect(unread().map(([, unseen]) => unseen)).toEqual([1, 1]);

    await server.close();
    server = await startTestServer({ databasePath, config: { port: Number(port) }, clock: server.clock });
    account = { ...account, ...server.clientFor(account.secret) };
    await write(tent, 'Thank you.');
    await readTo('agent-3', 5);
    await grace.close(tent);
    await write(tent, 'One more thing.');
    await untilEqual(account);

    const messages = (await account.rest('GET', `/conversations/${tent}/messages`)).body.data;
    for (const inbox of inboxes) {
      await until(() => inbox.shown(tent).length >= messages.length);
      expect(inbox.shown(tent).map(({ content, sequence }) => [content, sequence])).toEqual(
        messages.map(({ content, sequence }: Json) => [content, sequence]),
      );
    }
  },
);

test('a message that is refused is shown as not sent, until it is sent again and accepted', async () => {
  server = await startTestServer();
  const account = await server.account();
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'a tent' } })).body;
  const page = await openInbox(server.url, account.secret);
  inboxes = [page];
  await page.open(id);
  await page.close(id);
  const codeOf = (error?: Json) => error?.errors[0].extensions.code;
  const states = () => page.shown(id).map(({ content, sequence, error }) => [content, sequence, codeOf(error)]);
  await expect(page.send(id, 'Are you there?', 'draft-1')).rejects.toThrow();
  expect(states()).toEqual([['Are you there?', undefined, 'CONVERSATION_CLOSED']]);

  await account.rest('PATCH', `/conversations/${id}`, { body: { status: 'active' } });
  const sent = page.send(id, 'Are you there?', 'draft-1');
  expect(states()).toEqual([['Are you there?', undefined, undefined]]);
  await sent;
  await until(() => states()[0]?.[1] === 1);
  expect(states()).toEqual([['Are you there?', 1, undefined]]);
});

test('a page reads anew after an event that could not be answered, and follows once', async () => {
  server = await startTestServer();
  const account = await server.account();
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'a tent' } })).body;
  const write = (content: string) =>
    account.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'visitor' } });
  const errors = [{ message: 'The storage is busy.', path: ['event'], extensions: { code: 'UNAVAILABLE' } }];
  let isFailing = true;
  const page = await openInbox(server.url, account.secret, agents[0], (key, value) =>
    key === 'payload' && isFailing ? { data: null, errors } : value,
  );
  inboxes = [page];
  await write('Where is it?');
  await until(() => page.rows()[0].messageCount === 1);
  expect(page.received).toEqual([]);
  isFailing = false;
  const contents = ['Are you there?', 'Hello?', 'Please answer.'];
  for (const content of contents) {
    await write(content);
    await until(() => page.received.some(({ message }) => message?.content === content));
  }
  expect(page.received.map(({ message }) => message?.content)).toEqual(contents);
});

test('pages that were away for longer than the log reaches back read the list and the open conversation anew, and show no gap', async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  server = await startTestServer({ databasePath });
  let account = await server.account();
  const start = async (subject: string): Promise<string> => {
    server.clock.advance(1_000);
    return (await account.rest('POST', '/conversations', { body: { subject } })).body.id;
  };
  const write = (id: string, content: string) =>
    account.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'visitor' } });
  const [tent, stove] = [await start('a tent'), await start('a stove')];
  const opening = agents.map((agent) => openInbox(server.url, account.secret, agent));
  const [grace, linus] = (await Promise.all(opening)) as [Inbox, Inbox];
  inboxes = [grace, linus];
  await write(tent, 'Where is it?');
  await untilEqual(account);
  await grace.open(tent);
  await linus.open(stove);

  server = await whilePagesAreAway(server, databasePath, async ({ clientFor }) => {
    account = { ...account, ...clientFor(account.secret) };
    await sendMany(account, tent, 2, 70);
    await account.rest('DELETE', `/conversations/${stove}`);
  });
  account = { ...account, ...server.clientFor(account.secret) };
  await write(tent, 'Are you there?');
  await untilEqual(account);
  const sequences = () => grace.shown(tent).map(({ sequence }) => sequence);
  await until(() => sequences().at(-1) === 71);
  const [first = 0] = sequences();
  expect(first).toBeGreaterThan(1); // it asks for the last 50
  expect(sequences()).toEqual(Array.from({ length: 72 - first }, (_, index) => first + index));
  expect(linus.shown(stove)).toEqual([]);
});
