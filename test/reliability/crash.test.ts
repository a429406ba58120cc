import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventTypes } from '../../src/domain/event-types.ts';
import { serve, start } from '../cli/program.ts';
import { clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { readLog } from '../support/log.ts';
import { Random } from '../support/random.ts';
import { type ReceivedWebhook, Receiver } from '../support/receiver.ts';
import { seed, withHint } from '../support/seed.ts';
import { startTestServer } from '../support/server.ts';
import { eventually, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { FastProcess } from '../webhooks/fast-server.ts';
import { Audit } from './audit.ts';
import { expectDelivered } from './expect-delivered.ts';
import { follow } from './followers.ts';
import { Ledger } from './ledger.ts';
import { MixedLoad } from './mixed-load.ts';
import { RunningServers } from './running-servers.ts';

// One file, and a server that is killed at any instant: while it starts, while it serves, and while it erases a large
// conversation. Whoever looks at the file after that finds all that was acknowledged, and nothing by halves.

const kills = 200;
/** So many writes are answered at most between two kills: what there is to check grows by that. */
const maxAnswers = 90;
const recountEvery = 10;
const environment = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true' };

longTest(
  'a server that is killed at any instant has lost nothing that it acknowledged, and left nothing half done',
  {
    timeout: 60_000 + kills * 5_000,
  },
  async () => {
    const stage = await setTheStage();
    const random = new Random(seed, 0);
    let kill = 0;
    try {
      for (; kill < kills; kill++) await liveAndDie(stage, kill, random);
      await end(stage);
      if (kills < 100) return;
      // So many kills come at every bad moment.
      expect(stage.ledger.foundDone, 'committed and not answered').toBeGreaterThan(0);
      expect(stage.interrupted.erasures).toBeGreaterThan(0);
    } catch (error) {
      throw withHint(error, `TEST_SEED=${seed}, kill ${kill + 1}`);
    }
  },
);

type Stage = Awaited<ReturnType<typeof setTheStage>>;

async function setTheStage() {
  const folder = temporaryFolder();
  const databasePath = join(folder, 'test.db');
  /** What the clock of the last server is ahead of the wall's. */
  const time = { aheadMs: 0 };
  const chance = new Random(seed, 1_000_000);
  const refused = new Set<ReceivedWebhook>();
  // Not `Date.now`, which the receiver puts another in the place of while it verifies.
  const now = () => performance.timeOrigin + performance.now() + time.aheadMs;
  const receiver = await Receiver.open({ now }, (delivery) => {
    if (time.aheadMs > 0 || !chance.chance(0.03)) return {};
    refused.add(delivery);
    return { status: 500 };
  });
  const server = await startTestServer({ databasePath, config: { webhookPolicy: anywhere } });
  // A kill takes along a part of what is left.
  const { account, secret, rest } = await server.account({ requestsPerHour: 1_000_000_000 });
  const { body: webhook } = await rest('POST', '/webhooks', {
    body: { url: `${receiver.url}/all`, events: eventTypes },
  });
  receiver.trust('/all', webhook.secret);
  const { eventCursor } = (await rest('GET', '/account')).body;
  await server.close();

  const servers = new RunningServers();
  const ledger = new Ledger();
  const audit = new Audit(databasePath, account.id, ledger);
  const load = new MixedLoad({ servers, secret, ledger, seed, clients: 12 });
  const followers = follow({ servers, secret, after: eventCursor });
  return {
    databasePath,
    lastProcess: new FastProcess(folder),
    time,
    receiver,
    refused,
    secret,
    servers,
    ledger,
    audit,
    load,
    followers,
    /** After how many kills a conversation was left half erased. */
    interrupted: { erasures: 0 },
  };
}

/** The life of a server under load, and what it leaves. */
async function liveAndDie(
  { databasePath, servers, ledger, audit, load, followers, interrupted }: Stage,
  kill: number,
  random: Random,
) {
  const kind = ['serving', 'erasing', 'serving', 'starting'][kill % 4];
  if (kind === 'starting') {
    const process = start(['serve'], {
      environment: { PORT: '0', DATABASE_URL: `file:${databasePath}`, ...environment },
    });
    await sleep(random.integer(0, 1_200));
    process.signal('SIGKILL');
    await process.ended;
    check();
    return;
  }
  const server = await serve(databasePath, environment);
  servers.up(server.url);
  const enough = ledger.acknowledged + random.integer(0, maxAnswers);
  await until(() => hasFailed() || ledger.acknowledged >= enough);
  if (kind === 'erasing') {
    await until(() => hasFailed() || load.sharedSize >= 80);
    load.retireShared();
  }
  await sleep((kind === 'erasing' ? 50 : 15) * random.next());
  servers.down(server.url);
  server.signal('SIGKILL');
  await server.ended;
  check();

  function hasFailed(): boolean {
    load.check();
    for (const { failure } of followers) if (failure !== undefined) throw failure;
    return false;
  }

  function check(): void {
    audit.check(followers.map((follower) => follower.take()));
    if (audit.begunErasures() > 0) interrupted.erasures++;
    if ((kill + 1) % recountEvery === 0) audit.checkWhole();
  }
}

/** The last server, hours later: it finds everything due, and is not killed. */
async function end({
  databasePath,
  lastProcess,
  time,
  receiver,
  refused,
  secret,
  servers,
  ledger,
  audit,
  load,
  followers,
}: Stage) {
  time.aheadMs = 3 * 3_600_000;
  const wallMs = Date.now();
  const serving = await lastProcess.serve({ databasePath, time: { startMs: wallMs + time.aheadMs, wallMs, speed: 1 } });
  const { url } = serving ?? expect.fail('it was not killed');
  servers.up(url);
  await load.stop();
  await until(() => followers.every(({ last, failure }) => failure !== undefined || last >= ledger.events));
  for (const follower of followers) await follower.stop();
  await eventually(
    async () => audit.pendingDeliveries() + audit.begunErasures(),
    (count) => count === 0,
  );
  audit.check(followers.map((follower) => follower.take()));
  audit.checkWhole();
  expect(followers.map(({ name, last, failure }) => ({ name, last, failure }))).toEqual(
    followers.map(({ name }) => ({ name, last: ledger.events, failure: undefined })),
  );

  const client = clientOf(url, secret);
  const log = await readLog(client);
  const accepted = receiver.deliveries.filter((delivery) => !refused.has(delivery));
  expectDelivered(log, accepted);
  const { totals, previous, openNow } = (await client.rest('GET', '/analytics')).body;
  ledger.figures.check(totals);
  ledger.figures.check(previous);
  expect(openNow).toEqual({ active: ledger.count('active'), pending: ledger.count('pending') });
}
