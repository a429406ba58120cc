import { existsSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import type { Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { runHere, start } from './program.ts';

// The command beside a running server, as somebody uses it who writes a receiver on their own machine.

/** A server on real time, since what is signed by another process is verified by its time. */
async function serverWithAccount() {
  const server: TestServer = await startTestServer();
  server.clock.nowMs = systemClock.now();
  onTestFinished(() => server.close());
  const environment = { DATABASE_URL: `file:${server.databasePath}` };
  return { account: await server.account(), server, environment };
}

async function receiver(
  status: number,
  beforeAnswer: () => Promise<void> = async () => {},
): Promise<{ url: string; got: { headers: IncomingHttpHeaders; body: string }[] }> {
  const got: { headers: IncomingHttpHeaders; body: string }[] = [];
  const server = createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (text: string) => (body += text));
    req.on('end', () => {
      got.push({ headers: req.headers, body });
      void beforeAnswer().then(() => res.writeHead(status).end());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.closeAllConnections());
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, got };
}

const visitorWrites = { body: { message: { content: 'Hello', sender: 'visitor' } } };

test('listen shows the events of the only account as they happen, and where to go on when it is stopped', async () => {
  const { account, environment } = await serverWithAccount();
  const listening = start(['listen'], { environment });
  await listening.printedToStderr('Following the events of test');
  const { body } = await account.rest('POST', '/conversations', visitorWrites);
  const printed = await listening.printed('message.received');
  expect(printed.split('\n')[0]).toMatch(new RegExp(`conversation\\.started .* ${body.id}$`));
  listening.signal('SIGINT');
  const { code, stderr } = await listening.ended;
  expect(code).toBe(0);
  const cursor = /--after (\S+)/.exec(stderr)?.[1];
  const { data } = await account.graphql('{ eventCursor }');
  expect(cursor).toBe(data.eventCursor);
});

test('listen says when the log cannot be read, and goes on when it can', async () => {
  const { account, server, environment } = await serverWithAccount();
  const listening = start(['listen'], { environment });
  await listening.printedToStderr('Following the events of test');
  await server.query('ALTER TABLE account_totals RENAME TO gone');
  await listening.printedToStderr('The event log cannot be read');
  await server.query('ALTER TABLE gone RENAME TO account_totals');
  await account.rest('POST', '/conversations', visitorWrites);
  await listening.printed('message.received');
});

test('listen goes on from a cursor, with the types asked for, as lines of JSON, until nobody reads them any more', async () => {
  const { account, environment } = await serverWithAccount();
  await account.rest('POST', '/conversations', visitorWrites);
  const { body } = await account.rest('GET', '/events');
  const [first] = body.data;
  await account.rest('POST', '/leads', { body: { email: 'ada@example.com' } });
  const listening = start(
    ['listen', '--account', account.account.id, '--json', '--types', 'lead.captured', '--after', first.cursor],
    { environment },
  );
  const printed = await listening.printed('lead.captured');
  const all = await account.rest('GET', '/events');
  expect(JSON.parse(printed)).toEqual(all.body.data.at(-1));
  listening.stopReading();
  await account.rest('POST', '/leads', { body: { email: 'grace@example.com' } });
  const { code, stderr } = await listening.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'Following the events of test; press Ctrl-C to stop.\n' });
});

longTest('listen ends and says so when it was away for so long that the log does not reach back any more', async () => {
  const { account, server, environment } = await serverWithAccount();
  const listening = start(['listen'], { environment });
  await listening.printedToStderr('Following');
  listening.signal('SIGSTOP');
  for (const name of ['Ada', 'Grace']) await account.rest('POST', '/leads', { body: { name, phone: '1' } });
  const database = new Database(server.databasePath);
  database.exec('DELETE FROM events WHERE sequence = 1');
  database.close();
  listening.signal('SIGCONT');
  const { code, stderr } = await listening.ended;
  expect(code).toBe(1);
  expect(stderr).toContain('no longer');
});

test('listen forwards events, signed as a webhook is, and shows what was answered; and no more when nobody reads that', async () => {
  const { account, environment } = await serverWithAccount();
  const { url, got } = await receiver(418);
  const listening = start(['listen', '--url', url], { environment });
  await listening.printedToStderr('Following');
  await account.rest('POST', '/leads', { body: { email: 'ada@example.com' } });
  expect(await listening.printed('418')).toMatch(/lead\.captured .* 418\n$/);
  await until(() => got.length === 1);
  const [{ headers, body } = { headers: {}, body: '' }] = got;
  listening.stopReading();
  for (let more = 1; more <= 5; more++) await account.rest('POST', '/leads', { body: { email: 'ada@example.com' } });
  const { code, stderr } = await listening.ended;
  expect({ code, said: stderr.split('\n').length }, 'it ends without another word').toEqual({ code: 0, said: 3 });
  expect(got.length).toBeLessThanOrEqual(2);
  const secret = /whsec_\S+/.exec(stderr)?.[0] ?? '';
  const event = new Webhook(secret).verify(body, headers as Record<string, string>) as Json;
  expect(event.type).toBe('lead.captured');
  expect(headers['webhook-id']).toBe(event.id);
});

test.skipIf(!existsSync('/dev/full'))('listen ends and says so when what it prints cannot be written', async () => {
  const { account, environment } = await serverWithAccount();
  const listening = start(['listen'], { environment, before: 'exec > /dev/full' });
  await listening.printedToStderr('Following');
  await account.rest('POST', '/leads', { body: { email: 'ada@example.com' } });
  const { code, stderr } = await listening.ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^Following .*\nENOSPC: no space left on device, write\.\n$/);
});

test('listen takes no half of a line for the whole of it, as on a disk with little room', async () => {
  const { account, environment } = await serverWithAccount();
  const file = join(temporaryFolder(), 'events.jsonl');
  const before = `trap '' XFSZ; ulimit -f 1; exec > ${file}`;
  const listening = start(['listen', '--json'], { environment, before });
  await listening.printedToStderr('Following');
  await account.rest('POST', '/conversations', { body: { metadata: { long: 'x'.repeat(5_000) } } });
  const { code, stderr } = await listening.ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^Following .*\nEFBIG: file too large, write\.\n$/);
});

longTest('listen forwards nothing that was erased while an event before it was sent', async () => {
  const { account, environment } = await serverWithAccount();
  const { data } = await account.graphql('{ eventCursor }');
  await account.rest('POST', '/conversations');
  const { body: second } = await account.rest('POST', '/conversations', { body: { subject: 'Secret' } });
  const { url, got } = await receiver(200, async () => {
    if (got.length > 1) return;
    await account.rest('DELETE', `/conversations/${second.id}`);
    await sleep(200); // a process looks for what others have committed every 20 ms
  });
  const secret = `whsec_${'A'.repeat(32)}`;
  const args = ['listen', '--url', url, '--secret', secret, '--after', data.eventCursor];
  const listening = start(args, { environment });
  await until(() => got.length === 2);
  listening.signal('SIGINT');
  expect((await listening.ended).stderr, 'a secret that was given is not shown').not.toContain(secret);
  for (const { headers, body } of got) new Webhook(secret).verify(body, headers as Record<string, string>);
  expect(got.map(({ body }) => JSON.parse(body).sequence)).toEqual([1, 2]);
  expect(JSON.parse(got[1]?.body ?? '').data).toEqual({ erased: true });
});

test.each([
  [['--url', 'nonsense'], '--url must be an address'],
  [['--url', 'http://127.0.0.1:1', '--secret', 'short'], '--secret must be'],
  [['--types', 'nonsense'], 'Allowed choices are conversation.started'],
  [['--after', 'nonsense'], '--after is not a cursor of the event log.'],
  [['--after', Buffer.from('5e0c1a7f.1').toString('base64url')], '\noldestCursor: '],
  [
    ['--account', 'acct_01m7yzcf3tfz1aan3df712nas7'],
    'There is no such account: `account list` shows those that there are.',
  ],
])('listen %j says what is wrong', async (args, words) => {
  const { environment } = await serverWithAccount();
  const { code, stderr } = await runHere(['listen', ...args], environment);
  expect(code).toBe(1);
  expect(stderr).toContain(words);
});
