import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createIds } from '../src/domain/ids.ts';
import { clientOf, type Json } from './support/client.ts';
import { TestClock } from './support/clock.ts';
import { temporaryFolder } from './support/files.ts';
import { readLog } from './support/log.ts';
import { startTestServer, type TestServer } from './support/server.ts';

// Whatever server a change is made through, and whatever its clock says: times and ids follow the order of the changes.

/** Two servers on one file, the second of which has a clock that is behind. */
async function twoServers(): Promise<[TestServer, TestServer]> {
  const databasePath = join(temporaryFolder(), 'a.db');
  const clock = new TestClock();
  const behind = new TestClock();
  behind.nowMs -= 43;
  const first = await startTestServer({ databasePath, clock });
  const second = await startTestServer({ databasePath, clock: behind });
  onTestFinished(async () => {
    await first.close();
    await second.close();
  });
  return [first, second];
}

function expectAscending(times: readonly string[]): void {
  expect(times).toEqual(times.toSorted());
}

test('messages of one conversation that two servers write have ids and times in the order of their sequence', async () => {
  const servers = await twoServers();
  const account = await servers[0].account();
  const clients = servers.map(({ url }) => clientOf(url, account.secret));
  const { body: conversation } = await account.rest('POST', '/conversations', { body: {} });
  const path = `/conversations/${conversation.id}`;
  const updates: string[] = [];
  for (let count = 0; count < 12; count++) {
    const client = clients[count % 2] ?? account;
    if (count % 4 === 3) for (const { clock } of servers) clock.advance(20);
    if (count % 10 === 3)
      updates.push((await client.rest('PATCH', path, { body: { subject: `${count}` } })).body.updatedAt);
    if (count % 5 === 2)
      await client.rest('POST', '/leads', { body: { email: 'ada@example.com', conversationId: conversation.id } });
    await client.rest('POST', `${path}/messages`, { body: { sender: 'visitor', content: `${count}` } });
    updates.push((await client.rest('GET', path)).body.updatedAt);
  }
  const { body } = await account.rest('GET', path);
  const messages = body.messages as Json[];
  expect(messages.map(({ sequence }) => sequence)).toEqual(messages.map((_, index) => index + 1));
  expectAscending(messages.map(({ id }) => id));
  expect(new Set(messages.map(({ id }) => id)).size).toBe(12);
  expectAscending([...updates, body.updatedAt]);
  expectAscending(messages.map(({ createdAt }) => createdAt));
  expect(body.lastActivityAt).toBe(messages.at(-1)?.['createdAt']);
  const events = (await readLog(account)) as Json[];
  expect(events.length).toBe(16); // a start, 12 messages, 2 leads and a changed subject
  expectAscending(events.map(({ timestamp }) => timestamp));
});

test('what is erased of a conversation that a server with a slow clock has written to includes the responses of webhooks', async () => {
  const [first, second] = await twoServers();
  const account = await first.account();
  const { body: conversation } = await account.rest('POST', '/conversations', { body: {} });
  await account.rest('POST', '/webhooks', { body: { url: 'https://hooks.example/' } });
  const body = { sender: 'visitor', content: 'hello' };
  await clientOf(second.url, account.secret).rest('POST', `/conversations/${conversation.id}/messages`, { body });
  const [event] = ((await readLog(account)) as Json[]).slice(-1);
  const { data } = await account.graphql('{ webhooks { nodes { deliveries { nodes { id createdAt eventId } } } } }');
  // Its id and its time are those by which the erasure finds it.
  expect(data.webhooks.nodes[0].deliveries.nodes).toMatchObject([
    { eventId: event?.['id'], createdAt: event?.['timestamp'] },
  ]);
});

test('ids of one millisecond sort by their rank, up to the highest sequence of a message', () => {
  const [one, other] = [createIds((target) => target.fill(0xffff)), createIds((target) => target.fill(0))];
  const ids = [1, 2, 3, 4, 5, 63, 64, 4_095, 4_096, 9_999, 10_000, 2 ** 14 - 1].map((rank, index) =>
    (index % 2 === 0 ? one : other).next('message', 1_795_000_000_000, rank),
  );
  expect(ids).toEqual(ids.toSorted());
  for (const id of ids) expect(id).toMatch(/^msg_01[0-9a-hjkmnp-tv-z]{8}[ef][0-9a-hjkmnp-tv-z]{15}$/);
});
