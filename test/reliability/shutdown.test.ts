import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { operatorOf } from '../../src/domain/caller.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { eventTypes } from '../../src/domain/event-types.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { type Serving, serve } from '../cli/program.ts';
import { openWire, requestText } from '../http/wire.ts';
import { clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { eventsOf } from '../support/log.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { Random } from '../support/random.ts';
import { Receiver } from '../support/receiver.ts';
import { seed, withHint } from '../support/seed.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { Audit } from './audit.ts';
import { Ledger, nameOf } from './ledger.ts';
import { MixedLoad } from './mixed-load.ts';
import { RunningServers } from './running-servers.ts';

// A server that is asked to stop while it is busy. What it has begun it ends, and says so to those who wait for it.

const rounds = 12;
const environment = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true' };
/** Not `Date.now`, which a receiver puts another in the place of while it verifies. */
const wallMs = (): number => performance.timeOrigin + performance.now();

interface Prepared {
  readonly databasePath: string;
  readonly account: TestAccount;
}

/** A file with an account in it. */
async function prepare(
  fill: (account: TestAccount, server: TestServer) => Promise<unknown> = async () => {},
): Promise<Prepared> {
  const databasePath = await putMigrated(join(temporaryFolder(), 'test.db'));
  const server = await startTestServer({ databasePath, config: { webhookPolicy: anywhere } });
  const account = await server.account();
  await fill(account, server);
  await server.close();
  return { databasePath, account };
}

async function registerWebhook(client: TestAccount, receiver: Receiver): Promise<void> {
  const { body } = await client.rest('POST', '/webhooks', { body: { url: `${receiver.url}/all`, events: eventTypes } });
  receiver.trust('/all', body.secret);
}

/** Whoever is asked to stop ends by itself, and finds no fault with that. */
async function expectGoodEnd({ ended }: Serving): Promise<void> {
  const { code, stdout, stderr } = await ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('"msg":"stopped"');
  expect(stdout.split('\n').filter((line) => /"level":"(warn|error|fatal)"/.test(line))).toEqual([]);
}

function get({ secret }: TestAccount, path: string): string {
  return requestText('GET', path, { headers: { Authorization: `Bearer ${secret}` } });
}

function post({ secret }: TestAccount, path: string, body: object): string {
  return requestText('POST', path, { headers: { Authorization: `Bearer ${secret}` }, body: JSON.stringify(body) });
}

longTest(
  'under load leaves nothing undone that was acknowledged, and nothing done that was not',
  {
    timeout: 60_000 + rounds * 10_000,
  },
  async () => {
    const receiver = await Receiver.open({ now: wallMs });
    const { databasePath, account } = await prepare((client) => registerWebhook(client, receiver));
    const random = new Random(seed, 0);
    const servers = new RunningServers();
    const ledger = new Ledger();
    const audit = new Audit(databasePath, account.account.id, ledger);
    const load = new MixedLoad({ servers, secret: account.secret, ledger, seed, clients: 24 });
    try {
      for (let round = 0; round < rounds; round++) {
        const server = await serve(databasePath, environment);
        servers.up(server.url);
        const enough = ledger.acknowledged + random.integer(50, 150);
        await until(() => {
          load.check();
          return ledger.acknowledged >= enough;
        });
        await sleep(10 * random.next());
        servers.down(server.url); // who comes too late finds nobody, and that is no fault
        server.signal('SIGTERM');
        await expectGoodEnd(server);
        await until(() => [...ledger.open].every(({ tries, isCutOff }) => tries === 0 || isCutOff));
        expect(audit.settle().map(nameOf), 'done, and not answered').toEqual([]);
        audit.check();
      }
      const last = await serve(databasePath, environment);
      servers.up(last.url);
      await load.stop();
      audit.checkWhole();
    } catch (error) {
      throw withHint(error, `TEST_SEED=${seed}`);
    }
  },
);

test('whatever was sent before it is answered whole, on connections new and old, and the connections end', async () => {
  const { databasePath, account } = await prepare();
  const server = await serve(databasePath);
  const old = Array.from({ length: 30 }, () => openWire(server.url));
  for (const wire of old) await wire.send(get(account, '/v1/account'));
  for (const wire of old) expect((await wire.response()).status).toBe(200);
  // While it stands still, the system takes what comes: so it finds all of it together, and that it is to stop.
  server.signal('SIGSTOP');
  const wires = [...old, ...Array.from({ length: 10 }, () => openWire(server.url))];
  const create = 'mutation { createConversation(input: {}) { conversation { id } } }';
  await Promise.all(
    wires.map((wire, index) =>
      wire.send(
        index % 2 === 0 ? post(account, '/v1/conversations', {}) : post(account, '/graphql', { query: create }),
      ),
    ),
  );
  server.signal('SIGTERM');
  server.signal('SIGCONT');
  const answers = await Promise.all(wires.map((wire) => wire.response()));
  expect(answers.map(({ status }) => status)).toEqual(wires.map((_, index) => (index % 2 === 0 ? 201 : 200)));
  await Promise.all(wires.map(({ ended }) => ended));
  await expectGoodEnd(server);
  expect(eventsOf(databasePath, account.account.id)).toHaveLength(wires.length);
});

const messageCount = 120;

/** A conversation that does not fit into what the system keeps of a connection. */
async function fillConversation({ account }: TestAccount, { app: { ports } }: TestServer): Promise<void> {
  const caller = operatorOf(account);
  const message = { sender: 'visitor', content: '𝄞'.repeat(16_000) };
  const { conversation } = await createConversation.execute(ports, caller, { message });
  const further = { conversationId: conversation.id, ...message };
  await Promise.all(Array.from({ length: messageCount - 1 }, () => sendMessage.execute(ports, caller, further)));
}

test('every client sees an end that it can understand, and nobody new is let in', async () => {
  const { databasePath, account } = await prepare(fillConversation);
  const server = await serve(databasePath);
  const client = clientOf(server.url, account.secret);
  const headers = { authorization: `Bearer ${account.secret}` };
  const rest = await SseReader.open(`${server.url}/v1/events/stream`, headers);
  await rest.until(({ lastEventId }) => lastEventId !== undefined);
  // From there on, too: nothing tells when a subscription on a socket has begun.
  const subscription = `subscription { events(after: "${rest.lastEventId}") { id } }`;
  const socket = await new RawSocket(server.url).init(account.secret);
  socket.subscribe('all', subscription);
  const graphql = await SseReader.open(`${server.url}/graphql?query=${encodeURIComponent(subscription)}`, headers);
  const streams = [rest, graphql];
  const { data } = (await client.rest('GET', '/conversations')).body;
  await client.rest('POST', '/conversations', { body: {} });
  await socket.first('all', 'next');
  for (const stream of streams) await stream.until(({ events }) => events.length === 1);
  const [idle, slow, halfway] = [openWire(server.url), openWire(server.url), openWire(server.url)];
  await idle.send(get(account, '/v1/account'));
  await idle.response();
  await slow.send(get(account, `/v1/conversations/${data[0].id}`));
  await slow.received(1);
  slow.pause();
  const request = post(account, '/v1/conversations', { subject: 'sent in two parts' });
  await halfway.send(request.slice(0, -5));

  server.signal('SIGTERM');
  expect(await socket.closed).toEqual({ code: 1012, reason: 'Service restart' });
  for (const stream of streams) await stream.over;
  // GraphQL knows an end only of what is complete: clients that were told so would not come back.
  expect(streams.map(({ failed, body }) => ({ failed, complete: body.includes('complete') }))).toEqual([
    { failed: false, complete: false },
    { failed: true, complete: false },
  ]);
  await server.printed('"msg":"stopping"');
  const newcomer = connect(Number(new URL(server.url).port), '127.0.0.1');
  await expect(once(newcomer, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  await halfway.send(request.slice(-5));
  expect((await halfway.response()).status).toBe(201);
  await idle.ended; // by now it has looked for connections that nobody needs
  slow.goOn();
  const { body } = await slow.response();
  expect(JSON.parse(body).messages, 'a large answer that is taken slowly').toHaveLength(messageCount);
  await expectGoodEnd(server);
});

/** Clients of every kind that do not come to an end. */
async function openUnending(url: string, account: TestAccount): Promise<void> {
  const request = post(account, '/v1/conversations', { subject: 'never to be finished' });
  const upgrade = requestText('GET', '/graphql', {
    headers: {
      Connection: 'Upgrade',
      Upgrade: 'websocket',
      'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Protocol': 'graphql-transport-ws',
    },
  });
  const { data } = (await clientOf(url, account.secret).rest('GET', '/conversations')).body;
  const unread = openWire(url);
  await unread.send(get(account, `/v1/conversations/${data[0].id}`));
  await unread.received(1);
  unread.pause();
  for (const beginning of [request.slice(0, -5), request.slice(0, 30), upgrade]) await openWire(url).send(beginning);
}

longTest(
  'clients that never come to an end, and a receiver that never answers, hold it for the grace time and no longer',
  {
    timeout: 60_000,
  },
  async () => {
    const receiver = await Receiver.open({ now: wallMs }, () => ({ instead: 'hang' }));
    const { databasePath, account } = await prepare(async (client, server) => {
      await fillConversation(client, server);
      await registerWebhook(client, receiver);
    });
    const [patient, hasty] = await Promise.all([
      serve(databasePath, { ...environment, SHUTDOWN_GRACE_SECONDS: '1' }),
      serve(databasePath, { ...environment, SHUTDOWN_GRACE_SECONDS: '60' }),
    ]);
    await Promise.all([openUnending(patient.url, account), openUnending(hasty.url, account)]);
    await clientOf(patient.url, account.secret).rest('POST', '/conversations', { body: {} });
    await until(() => receiver.deliveries.length > 0);

    const askedMs = performance.now();
    patient.signal('SIGTERM');
    hasty.signal('SIGTERM');
    const repeated = setInterval(() => hasty.signal('SIGINT'), 50);
    const endedMs = async ({ ended }: Serving) => {
      await ended;
      return performance.now() - askedMs;
    };
    const [patientMs, hastyMs] = await Promise.all([endedMs(patient), endedMs(hasty)]);
    clearInterval(repeated);
    await expectGoodEnd(patient);
    expect(patientMs).toBeGreaterThan(950);
    expect(patientMs).toBeLessThan(4_000);
    // Who asks once more and means it has it end at once. In the first second it may be npm that passes on the same.
    expect((await hasty.ended).code).toBe(1);
    expect(hastyMs).toBeGreaterThan(950);
    expect(hastyMs).toBeLessThan(4_000);
  },
);
