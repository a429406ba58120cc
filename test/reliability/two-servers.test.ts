import { join } from 'node:path';
import { expect } from 'vitest';
import { eventTypes } from '../../src/domain/event-types.ts';
import { commandLine, type Serving, serve } from '../cli/program.ts';
import { clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { readLog } from '../support/log.ts';
import { Random } from '../support/random.ts';
import { Receiver } from '../support/receiver.ts';
import { seed, withHint } from '../support/seed.ts';
import { startTestServer } from '../support/server.ts';
import { spend, spendAll } from '../support/spending.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { eventually, gate, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { FastProcess } from '../webhooks/fast-server.ts';
import { Audit } from './audit.ts';
import { expectDelivered } from './expect-delivered.ts';
import { follow } from './followers.ts';
import { Ledger } from './ledger.ts';
import { MixedLoad } from './mixed-load.ts';
import { RunningServers } from './running-servers.ts';

// Two servers on one file, as in a rolling restart. One of them is killed again and again, and the other one serves
// on: together they are one service.

const kills = 20;
const environment = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true', LOG_LEVEL: 'debug' };
/** The budget of an account beside the one that is under load. */
const limit = 640;
/** The most of it that a server has reserved and not spent. */
const largestBlock = limit / 64;

longTest(
  'two servers, one of which is killed again and again, are one service',
  {
    timeout: 60_000 + kills * 10_000,
  },
  async () => {
    const stage = await setTheStage();
    const random = new Random(seed, 0);
    let kill = 0;
    try {
      for (; kill < kills; kill++) await serveTogether(stage, kill, random);
      await end(stage);
    } catch (error) {
      throw withHint(error, `TEST_SEED=${seed}, kill ${kill + 1}`);
    }
  },
);

type Stage = Awaited<ReturnType<typeof setTheStage>>;

async function setTheStage() {
  const folder = temporaryFolder();
  const databasePath = join(folder, 'test.db');
  const lastProcess = new FastProcess(folder);
  const time = { aheadMs: 0 };
  const [now, first] = [() => performance.timeOrigin + performance.now() + time.aheadMs, gate()];
  const receiver = await Receiver.open({ now }, ({ number }) => (number === 1 ? { after: first.opened } : {}));
  const server = await startTestServer({ databasePath, config: { webhookPolicy: anywhere } });
  const busy = await server.account({ requestsPerHour: 1_000_000_000 });
  const spender = await server.account({ requestsPerHour: limit });
  const { body: webhook } = await busy.rest('POST', '/webhooks', {
    body: { url: `${receiver.url}/all`, events: eventTypes },
  });
  receiver.trust('/all', webhook.secret);
  const { eventCursor } = (await busy.rest('GET', '/account')).body;
  await server.close();

  const steady = await serve(databasePath, environment);
  const [servers, onlySteady] = [new RunningServers(), new RunningServers()];
  servers.up(steady.url);
  onlySteady.up(steady.url);
  const { secret, account } = busy;
  const ledger = new Ledger();
  const audit = new Audit(databasePath, account.id, ledger);
  const load = new MixedLoad({ servers, secret, ledger, seed, clients: 5 });
  const followers = follow({ servers: onlySteady, secret, after: eventCursor });
  // The lease of the one that stays tells what the others held.
  await until(() => receiver.deliveries.length > 0);
  const steadyLease = audit.leased()[0]?.lease;
  first.open();
  return {
    ...{ databasePath, lastProcess, time, receiver, steady, servers, account, secret, ledger, audit, load, followers },
    ...{ steadyLease, spender, spent: { admitted: 0, unanswered: 0 } },
    /** The events that were in flight when a server was killed, and how often each server tried one. */
    inFlight: new Set<string>(),
    attemptsOfOthers: { count: 0 },
  };
}

/** The life of a second server beside the one that stays. */
async function serveTogether(stage: Stage, kill: number, random: Random): Promise<void> {
  const { databasePath, servers, steady, ledger, audit, load, followers, steadyLease, inFlight } = stage;
  const other = await serve(databasePath, environment);
  servers.up(other.url);
  await revoke(stage, other, kill);
  const enough = ledger.acknowledged + random.integer(10, 60);
  const spending = spendTogether(stage, [steady, other], Math.floor(limit / (kills + 1)));
  await until(() => isWell(stage) && ledger.acknowledged >= enough);
  servers.down(other.url);
  other.signal('SIGKILL');
  const { stdout } = await other.ended;
  stage.attemptsOfOthers.count += stdout.split('"webhook attempt"').length - 1;
  for (const { eventId, lease } of audit.leased()) if (lease !== steadyLease) inFlight.add(eventId);
  audit.settle(({ url }) => url === other.url);
  await spending;

  // What was committed through the one that was killed is with those who follow at the other.
  const { length } = await readLog(clientOf(steady.url, stage.secret));
  await until(() => isWell(stage) && followers.every(({ last }) => last >= length), 5_000);
  load.check();
}

function isWell({ load, followers }: Stage): boolean {
  load.check();
  for (const { failure } of followers) if (failure !== undefined) throw failure;
  return true;
}

/** Spends a part of the budget at both servers, of which one may be killed meanwhile. */
async function spendTogether({ spender, spent }: Stage, servers: readonly Serving[], part: number): Promise<void> {
  const each = Math.floor(part / servers.length);
  const admitted = await Promise.all(servers.map(({ url }) => spend(clientOf(url, spender.secret), each)));
  for (const count of admitted) {
    spent.admitted += count;
    spent.unanswered += each - count;
  }
}

/** A key that is revoked through one server or by the command line ends at the other, with all that it has open there. */
async function revoke({ databasePath, steady, secret, account }: Stage, other: Serving, kill: number): Promise<void> {
  const manager = clientOf(steady.url, secret);
  const { body: key } = await manager.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
  const client = clientOf(other.url, key.secret);
  expect((await client.rest('GET', '/account')).status).toBe(200);
  const socket = await new RawSocket(other.url).init(key.secret);
  const headers = { authorization: `Bearer ${key.secret}` };
  const stream = await SseReader.open(`${other.url}/v1/events/stream`, headers);
  if (kill % 4 === 3) {
    const { code } = await commandLine(databasePath).run('key', 'revoke', key.id, '--account', account.id);
    expect(code).toBe(0);
  } else {
    expect((await manager.rest('DELETE', `/api-keys/${key.id}`)).status).toBe(204);
  }
  const refused = await Promise.all([client.rest('GET', '/account'), client.graphql('{ account { id } }')]);
  expect(refused.map(({ status }) => status)).toEqual([401, 401]);
  // That it takes less than 100 ms on a machine that has nothing else to do is tested where nothing else is done.
  await until(() => stream.ended && socket.socket.readyState === socket.socket.CLOSED, 2_000);
  expect({ ...(await socket.closed), streamWasCutOff: stream.failed }).toEqual({
    code: 4403,
    reason: 'Forbidden',
    streamWasCutOff: false,
  });
}

async function end(stage: Stage): Promise<void> {
  const { databasePath, lastProcess, time, receiver, steady, ledger, audit, load, followers, inFlight } = stage;
  await spendTheRest(stage);
  await load.stop();
  await until(() => isWell(stage) && followers.every(({ last }) => last >= ledger.events));
  for (const follower of followers) await follower.stop();
  expect(
    followers.map(({ connections }) => connections),
    'nobody had to come again',
  ).toEqual([1, 1, 0]);
  steady.signal('SIGTERM');
  const { code, stdout } = await steady.ended;
  expect(code).toBe(0);
  expect(stdout).toContain('"webhook attempt"');
  expect(stage.attemptsOfOthers.count, 'the others have sent webhooks, too').toBeGreaterThan(0);
  audit.check(followers.map((follower) => follower.take()));

  // When the leases of those that were killed are over, another one sends what they held.
  time.aheadMs = 60_000;
  const wallMs = Date.now();
  const serving = await lastProcess.serve({ databasePath, time: { startMs: wallMs + time.aheadMs, wallMs, speed: 1 } });
  const last = serving ?? expect.fail('it was not killed');
  await eventually(
    async () => audit.pendingDeliveries(),
    (count) => count === 0,
  );
  audit.checkWhole();
  expect(await spendAll(clientOf(last.url, stage.spender.secret)), 'nothing is left for another one').toBe(0);
  const log = await readLog(clientOf(last.url, stage.secret));
  expectDelivered(log, receiver.deliveries);
  const ids = receiver.deliveries.map(({ event }) => event.id);
  const doubled = ids.filter((id, index) => ids.indexOf(id) < index);
  expect(
    doubled.filter((id) => !inFlight.has(id)),
    'sent twice, and in flight at no kill',
  ).toEqual([]);
}

/** Over both servers the limit is let in, but for what was lost with those that were killed. */
async function spendTheRest({ steady, spender, spent }: Stage): Promise<void> {
  spent.admitted += await spendAll(clientOf(steady.url, spender.secret));
  expect(spent.admitted).toBeLessThanOrEqual(limit);
  expect(spent.admitted).toBeGreaterThanOrEqual(limit - spent.unanswered - kills * largestBlock);
}
