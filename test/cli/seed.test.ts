import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Progress } from '../../src/cli/seed/progress.ts';
import type { Account } from '../../src/domain/accounts.ts';
import type { NewApiKey } from '../../src/domain/api-keys.ts';
import { systemClock } from '../../src/server/clock.ts';
import { clientOf } from '../support/client.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { commandLine, start } from './program.ts';
import { expectSound, rowsOf } from './rows.ts';

// The command beside a running server on the same file.

interface Seeded {
  readonly accounts: { account: Account; apiKey: NewApiKey | null }[];
  readonly conversations: number;
  readonly messages: number;
  readonly leads: number;
  readonly events: number;
  readonly seconds: number;
}

let server: TestServer;
let cli: ReturnType<typeof commandLine>;

beforeAll(async () => {
  server = await startTestServer();
  server.clock.nowMs = systemClock.now();
  cli = commandLine(server.databasePath);
});
afterAll(() => server.close());

test('an account is made whose past both faces show, up to now', async () => {
  const seeded = await cli.json<Seeded>('seed', '--conversations', '150', '--months', '2');
  expect(seeded).toEqual({
    accounts: [
      {
        account: expect.objectContaining({ id: expect.stringMatching(/^acct_/), plan: 'business' }),
        apiKey: expect.objectContaining({ secret: expect.stringMatching(/^cs_/) }),
      },
    ],
    conversations: 150,
    messages: expect.any(Number),
    leads: expect.any(Number),
    events: expect.any(Number),
    seconds: expect.any(Number),
  });
  server.clock.nowMs = systemClock.now();
  const { rest, graphql } = clientOf(server.url, seeded.accounts[0]?.apiKey?.secret);
  const { body: list } = await rest('GET', '/conversations?limit=100');
  expect(list.pagination).toMatchObject({ total: 150, hasMore: true });
  const longest = list.data.toSorted(
    (a: { messageCount: number }, b: { messageCount: number }) => b.messageCount - a.messageCount,
  )[0];
  const { body: one } = await rest('GET', `/conversations/${longest.id}`);
  expect(one.messages).toHaveLength(longest.messageCount);
  const { data } = await graphql(
    '{ leads { totalCount } account { createdAt } conversations(status: CLOSED) { totalCount } }',
  );
  expect(data.leads.totalCount).toBe(seeded.leads);
  expect(data.conversations.totalCount).toBeGreaterThan(130);

  const from = data.account.createdAt.replace(/T.*/, 'T00:00:00.000Z');
  const { body: report } = await rest('GET', `/analytics?from=${from}`);
  const { agent, visitor, bot } = report.totals.messages;
  expect(report.totals).toMatchObject({ conversationsStarted: 150, leads: seeded.leads });
  expect(agent + visitor + bot).toBe(seeded.messages);

  const { body: log } = await rest('GET', '/events?limit=100');
  const oldestMs = systemClock.now() - 30 * 24 * 3_600_000 - 60_000;
  expect(log.data[0].sequence).toBe(1);
  expect(Date.parse(log.data[0].timestamp)).toBeGreaterThan(oldestMs);
  expectSound(rowsOf(server.databasePath, seeded.accounts[0]?.account.id ?? ''));
});

test('is added to an account in use, whose requests all succeed meanwhile, and its webhooks are sent nothing of it', async () => {
  const { account, rest } = await server.account();
  await rest('POST', '/webhooks', { body: { url: 'https://hooks.example.com/' } });
  let done = false;
  const seeding = cli
    .json<Seeded>('seed', '--account', account.id, '--conversations', '700', '--months', '1')
    .finally(() => (done = true));
  let written = 0;
  while (!done) {
    const { status } = await rest('POST', '/conversations', { body: { subject: 'real' } });
    expect(status).toBe(201);
    written++;
  }
  const seeded = await seeding;
  expect(seeded.accounts).toEqual([{ account, apiKey: null }]);
  const rows = rowsOf(server.databasePath, account.id);
  expect(rows['conversations']).toHaveLength(700 + written);
  expect(rows['events']).toHaveLength(seeded.events + written);
  expect(rows['deliveries']).toHaveLength(written);
  expectSound(rows);
});

test('Ctrl-C stops it with everything in order, and it says what was written', async () => {
  const { account } = await server.account();
  const { ended, signal } = start(['seed', '--account', account.id, '--conversations', '10000000', '--json'], {
    environment: { DATABASE_URL: `file:${server.databasePath}`, EVENT_RETENTION_DAYS: '365' },
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
  expect(started, 'the log has caught up').toHaveLength(rows['conversations']?.length ?? 0);
});

test('several accounts differ; people are told each key and the sums, or in a sentence what is wrong', async () => {
  const [none, { code, stdout, stderr }] = await Promise.all([
    cli.run('seed', '--account', 'acct_00000000000000000000000000'),
    cli.run('seed', '--accounts', '2', '--conversations', '20', '--months', '1'),
  ]);
  expect(none).toEqual({ code: 1, stdout: '', stderr: 'There is no such account.\n' });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.match(/^ +cs_\S{43}$/gm)).toHaveLength(2);
  expect(stdout).toMatch(
    /^Wrote 40 conversations with \d+ messages, \d+ leads and \d+ events in [\d.]+ s \([\d,]+ messages a second\)\.$/m,
  );
  const [one, other] = stdout.match(/^acct_\w+/gm)?.map((id) => rowsOf(server.databasePath, id)) ?? [];
  expect(one?.['messages']?.map(({ content }) => content)).not.toEqual(
    other?.['messages']?.map(({ content }) => content),
  );
});

describe('progress', () => {
  const written = (conversations: number) => ({ conversations, messages: 6 * conversations, leads: 0, events: 0 });

  /** What is printed when a second passes with each hundred of a thousand conversations. */
  function printed(output: { isTTY?: boolean; columns?: number }): string[] {
    const texts: string[] = [];
    let nowMs = 5_000;
    const progress = new Progress({ ...output, write: (text) => texts.push(text) }, 1_000, () => nowMs);
    for (let part = 1; part <= 10; part++) {
      for (let step = 1; step <= 20; step++) {
        nowMs += 50;
        progress.update(written(100 * part - 20 + step));
      }
    }
    progress.end();
    return texts;
  }

  test('is one line on a terminal, drawn ten times a second at most and taken away at the end', () => {
    const texts = printed({ isTTY: true, columns: 100 });
    expect(texts.length).toBeLessThanOrEqual(101);
    expect(texts[49]).toBe(
      '\r[############------------] 50 %, 500 of 1,000 conversations, 600 messages/s, 5 s left\u001b[K',
    );
    expect(texts.every((text) => !text.includes('\n'))).toBe(true);
    expect(texts.at(-1)).toBe('\r\u001b[K');
    for (const text of printed({ isTTY: true, columns: 30 })) expect(text.length).toBeLessThanOrEqual(1 + 29 + 3);
  });

  test('is a plain line every few seconds elsewhere', () => {
    expect(printed({})).toEqual([
      '50 %, 500 of 1,000 conversations, 600 messages/s, 5 s left\n',
      '100 %, 1,000 of 1,000 conversations, 600 messages/s, 0 s left\n',
    ]);
  });
});
