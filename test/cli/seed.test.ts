import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Account } from '../../src/domain/accounts.ts';
import type { NewApiKey } from '../../src/domain/api-keys.ts';
import { systemClock } from '../../src/server/clock.ts';
import { clientOf, type Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { eventually } from '../support/wait.ts';
import { commandLine, start } from './program.ts';
import { expectSound, type Row, rowsOf } from './rows.ts';

// The command beside a running server on the same file.

const dayMs = 24 * 3_600_000;

interface Seeded {
  readonly accounts: { account: Account; apiKey: NewApiKey | null }[];
  readonly conversations: number;
  readonly messages: number;
  readonly leads: number;
  readonly events: number;
  readonly seconds: number;
}

function accountOf({ accounts }: Seeded): string {
  return accounts[0]?.account.id ?? '';
}

let server: TestServer;
let cli: ReturnType<typeof commandLine>;

beforeAll(async () => {
  server = await startTestServer({ config: { eventRetentionMs: 365 * dayMs } }); // it removes nothing meanwhile
  server.clock.nowMs = systemClock.now();
  cli = commandLine(server.databasePath);
});
afterAll(() => server.close());

test('an account is made whose past both faces show, up to now', async () => {
  const seeded = await cli.json<Seeded>('seed', '--conversations', '40', '--months', '1');
  expect(seeded).toEqual({
    accounts: [
      {
        account: expect.objectContaining({ id: expect.stringMatching(/^acct_/), plan: 'business' }),
        apiKey: expect.objectContaining({ secret: expect.stringMatching(/^cs_/) }),
      },
    ],
    conversations: 40,
    messages: expect.any(Number),
    leads: expect.any(Number),
    events: expect.any(Number),
    seconds: expect.any(Number),
  });
  server.clock.nowMs = systemClock.now();
  const { rest, graphql } = clientOf(server.url, seeded.accounts[0]?.apiKey?.secret);
  const { body: list } = await rest('GET', '/conversations?limit=100');
  expect(list.pagination).toMatchObject({ total: 40, hasMore: false });
  const newest = Date.parse(list.data[0].createdAt);
  expect(newest).toBeGreaterThan(systemClock.now() - 3 * dayMs);
  const longest = list.data.toSorted(
    (a: { messageCount: number }, b: { messageCount: number }) => b.messageCount - a.messageCount,
  )[0];
  expect(longest.messageCount).toBeGreaterThan(10);
  const { body: one } = await rest('GET', `/conversations/${longest.id}`);
  expect(one.messages).toHaveLength(longest.messageCount);

  const { data } = await graphql(`{
    account { createdAt }
    leads { totalCount }
    active: conversations(status: ACTIVE) { totalCount }
    pending: conversations(status: PENDING) { totalCount }
    closed: conversations(status: CLOSED) { totalCount }
  }`);
  expect(data.leads.totalCount).toBe(seeded.leads);
  expect(data.closed.totalCount).toBeGreaterThan(30);
  expect(data.active.totalCount + data.pending.totalCount + data.closed.totalCount).toBe(40);

  const from = data.account.createdAt.replace(/T.*/, 'T00:00:00.000Z');
  const { body: report } = await rest('GET', `/analytics?from=${from}`);
  const { agent, visitor, bot } = report.totals.messages;
  expect(report.totals).toMatchObject({ conversationsStarted: 40, leads: seeded.leads });
  expect(agent + visitor + bot).toBe(seeded.messages);

  const { messages = [], leads = [], events = [], ...counted } = rowsOf(server.databasePath, accountOf(seeded));
  expectSound({ messages, leads, events, ...counted });
  expect(messages).toHaveLength(seeded.messages);
  expect(leads).toHaveLength(seeded.leads);
  expect(events).toHaveLength(seeded.events);
  const times = events.map(({ timestamp }) => Number(timestamp));
  expect(times, 'the log is in the order of time').toEqual(times.toSorted((a, b) => a - b));

  const answered = new Set(messages.filter(({ sender }) => sender === 'agent').map((row) => row['conversation']));
  for (const { id, assignee } of list.data) expect(assignee !== null).toBe(answered.has(id));
  const tags = new Set<string>(list.data.flatMap((each: { tags: string[] }) => each.tags));
  expect([...tags]).toEqual(expect.arrayContaining(['member', 'delivery', 'reopened']));

  // Most has been read, by visitors and by agents, and some of it has not.
  const moved = events.filter(({ type }) => type === 'conversation.read').map(({ data }) => JSON.parse(String(data)));
  const readers = new Set(moved.map(({ readPosition }) => readPosition.reader));
  expect([...readers].some((reader) => /^agent-\d$/.test(reader)) && readers.has('visitor')).toBe(true);
  for (const reader of ['visitor', ...Array.from({ length: 6 }, (_, index) => `agent-${index + 1}`)]) {
    const isUnread = ({ messageCount, readPositions }: Json): boolean =>
      readPositions.some((each: Json) => each.reader === reader && each.sequence < messageCount);
    const unread = list.data.filter(isUnread).map(({ id }: Json) => id);
    const { body } = await rest('GET', `/conversations?unreadBy=${reader}&limit=100`);
    expect(body.data.map(({ id }: Json) => id)).toEqual(unread);
    if (reader === 'visitor') {
      expect(unread.length).toBeGreaterThan(0);
      expect(unread.length).toBeLessThan(20);
    }
  }

  const unfinished = messages.filter(({ content }) =>
    /[{}]|undefined|null|^[\s,]|\s$| {2}| [,.]/.test(String(content)),
  );
  expect(unfinished).toEqual([]);
  expect(JSON.stringify(leads)).not.toMatch(/@(?!example\.(com|net|org))/);
});

test('the same random seed gives the same people and words, and another one others', async () => {
  const beginnings = async (randomSeed: string) => {
    const seeded = await cli.jsonHere<Seeded>('seed', '--conversations', '15', '--random-seed', randomSeed);
    const { conversations = [], messages = [] } = rowsOf(server.databasePath, accountOf(seeded));
    const first = new Map(messages.filter(({ sequence }) => sequence === 1).map((row) => [row['conversation'], row]));
    const told = ({ id, subject, visitor }: Row) => JSON.stringify([subject, visitor, first.get(id)?.['content']]);
    return conversations.map(told).sort();
  };
  const [one, again, other] = [await beginnings('7'), await beginnings('7'), await beginnings('8')];
  expect(again).toEqual(one);
  expect(other).not.toEqual(one);
});

longTest(
  'is added to an account in use, whose requests all succeed meanwhile, and its webhooks are sent nothing of it',
  async () => {
    const { account, rest } = await server.account();
    await rest('POST', '/webhooks', { body: { url: 'https://hooks.example.com/' } });
    let done = false;
    const seeding = cli
      .json<Seeded>('seed', '--account', account.id, '--conversations', '150', '--months', '1')
      .finally(() => (done = true));
    await eventually(
      async () => await server.storage.read.conversations.count(account.id, {}),
      (count) => count > 0,
    );
    let written = 0;
    while (!done) {
      const { status } = await rest('POST', '/conversations', { body: { subject: 'real' } });
      expect(status).toBe(201);
      written++;
    }
    const seeded = await seeding;
    expect(written).toBeGreaterThan(3);
    expect(seeded.accounts).toEqual([{ account, apiKey: null }]);
    const rows = rowsOf(server.databasePath, account.id);
    expect(rows['conversations']).toHaveLength(150 + written);
    expect(rows['events']).toHaveLength(seeded.events + written);
    expect(rows['deliveries']).toHaveLength(written);
    expectSound(rows);
  },
);

longTest('goes on where somebody else closes or deletes the conversations that it tells of', async () => {
  const { account, rest } = await server.account();
  let done = false;
  const seeding = cli
    .json<Seeded>('seed', '--account', account.id, '--conversations', '600', '--months', '1')
    .finally(() => (done = true));
  let changed = 0;
  while (!done) {
    const { data } = (await rest('GET', '/conversations?status=active,pending&limit=20')).body;
    for (const [index, { id }] of data.entries()) {
      const path = `/conversations/${id}`;
      if (index === 0) await rest('DELETE', path);
      else await rest('PATCH', path, { body: { status: 'closed' } });
      changed++;
    }
  }
  await seeding;
  expect(changed).toBeGreaterThan(0);
  expectSound(rowsOf(server.databasePath, account.id));
});

longTest('Ctrl-C stops it with everything in order, and it says what was written', async () => {
  const { account } = await server.account();
  const { ended, signal } = start(['seed', '--account', account.id, '--conversations', '1000000', '--json'], {
    environment: { DATABASE_URL: `file:${server.databasePath}` },
  });
  while ((await server.storage.read.conversations.count(account.id, {})) === 0) await pause(10);
  signal('SIGINT');
  signal('SIGINT'); // npm passes on what the terminal has sent to its whole group
  const { code, stdout, stderr } = await ended;
  expect({ code, stderr }).toEqual({ code: 130, stderr: 'Stopped early.\n' });
  const rows = rowsOf(server.databasePath, account.id);
  expectSound(rows);
  expect(JSON.parse(stdout)).toMatchObject({
    conversations: rows['conversations']?.length,
    messages: rows['messages']?.length,
    leads: rows['leads']?.length,
    events: rows['events']?.length,
  });
  const started = rows['events']?.filter(({ type }) => type === 'conversation.started');
  expect(started).toHaveLength(rows['conversations']?.length ?? 0);
});

test('several accounts differ; people are told each key and the sums, or in a sentence what is wrong', async () => {
  expect(await cli.runHere('seed', '--account', 'acct_00000000000000000000000000')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'There is no such account: `account list` shows those that there are.\n',
  });
  const people = await cli.runHere('seed', '--accounts', '2', '--conversations', '20', '--months', '1');
  const { code, stdout, stderr } = people;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.match(/^ +cs_\S{43}$/gm)).toHaveLength(2);
  expect(stdout).toMatch(/^Wrote 40 conversations with \d+ messages, \d+ leads and \d+ events in [\d.]+ s\.$/m);
  const [one, other] = stdout.match(/^acct_\w+/gm)?.map((id) => rowsOf(server.databasePath, id)) ?? [];
  expect(one?.['messages']?.map(({ content }) => content)).not.toEqual(
    other?.['messages']?.map(({ content }) => content),
  );
});
