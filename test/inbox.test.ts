import { afterEach, expect, test } from 'vitest';
import type { Json } from './support/client.ts';
import { temporaryFolder } from './support/files.ts';
import { type Inbox, openInbox } from './support/inbox.ts';
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

const row = ({ id, status, subject, tags, assignee, messageCount, lastMessage }: Json) => ({
  id,
  status: status.toLowerCase(),
  subject,
  tags,
  assignee: assignee && { id: assignee.id, name: assignee.name },
  messageCount,
  lastMessage: lastMessage?.preview,
});

/** Waits until a page shows the list as the API has it. */
async function untilEqual({ rest }: Pick<TestAccount, 'rest'>): Promise<void> {
  const { data } = (await rest('GET', '/conversations?sort=-lastActivityAt')).body;
  const expected = JSON.stringify(data.map(row));
  for (const inbox of inboxes) await until(() => JSON.stringify(inbox.rows().map(row)) === expected);
}

test('two agents’ pages show the list as it is, and each message once, also after the server was away', async () => {
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

  const grace = await openInbox(server.url, account.secret, { id: 'agent-3', name: 'Grace' });
  const linus = await openInbox(server.url, account.secret, { id: 'agent-4', name: 'Linus' });
  inboxes = [grace, linus];
  await untilEqual(account);

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

  await server.close();
  server = await startTestServer({ databasePath, config: { port: Number(port) }, clock: server.clock });
  account = { ...account, ...server.clientFor(account.secret) };
  await write(tent, 'Thank you.');
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
});
