import { join } from 'node:path';
import { expect } from 'vitest';
import { eventTypes } from '../../src/domain/event-types.ts';
import { type Serving, serve } from '../cli/program.ts';
import { clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { readLog } from '../support/log.ts';
import { Random } from '../support/random.ts';
import { Receiver } from '../support/receiver.ts';
import { seed, withHint } from '../support/seed.ts';
import { startTestServer } from '../support/server.ts';
import { spend, spendAll } from '../support/spending.ts';
import { eventually, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { FastProcess } from '../webhooks/fast-server.ts';
import { Audit } from './audit.ts';
import { expectDelivered } from './expect-delivered.ts';
import { follow } from './followers.ts';
import { Ledger } from './ledger.ts';
import { MixedLoad } from './mixed-load.ts';
import { RunningServers } from './running-servers.ts';

// Several workers behind one port, one of which is killed again and again while clients write, read and follow.

const kills = 8;
const workers = 3;
const environment = {
  WORKERS: `${workers}`,
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true',
};
/** The budget of an account beside the one that is under load. */
const limit = 640;
const largestBlock = limit / 64;

/** The processes of the workers by their numbers, as far as they have said that they listen. */
async function listening({ printed }: Serving): Promise<number[][]> {
  const lines = (await printed('')).split('\n').filter((line) => line.includes('"msg":"listening"'));
  const all = lines.map((line) => JSON.parse(line) as { worker: number; pid: number });
  return Array.from({ length: workers }, (_, index) =>
    all.filter(({ worker }) => worker === index + 1).map(({ pid }) => pid),
  );
}

async function allListen(serving: Serving, starts: number): Promise<number[][]> {
  return await eventually(
    () => listening(serving),
    (processes) => processes.flat().length >= starts,
  );
}

longTest(
  'workers, one of which is killed again and again, are one service',
  {
    timeout: 60_000 + kills * 10_000,
  },
  async () => {
    const folder = temporaryFolder();
    const databasePath = join(folder, 'test.db');
    const lastProcess = new FastProcess(folder);
    const time = { aheadMs: 0 };
    const receiver = await Receiver.open({ now: () => performance.timeOrigin + performance.now() + time.aheadMs });
    const before = await startTestServer({ databasePath, config: { webhookPolicy: anywhere } });
    const { rest, secret, account } = await before.account({ requestsPerHour: 1_000_000_000 });
    const spender = await before.account({ requestsPerHour: limit });
    const { body: webhook } = await rest('POST', '/webhooks', {
      body: { url: `${receiver.url}/all`, events: eventTypes },
    });
    receiver.trust('/all', webhook.secret);
    const { eventCursor } = (await rest('GET', '/account')).body;
    await before.close();

    const serving = await serve(databasePath, environment);
    await allListen(serving, workers);
    const servers = new RunningServers();
    servers.up(serving.url);
    const ledger = new Ledger();
    const audit = new Audit(databasePath, account.id, ledger);
    const load = new MixedLoad({ servers, secret, ledger, seed, clients: 5 });
    const followers = follow({ servers, secret, after: eventCursor });
    const random = new Random(seed, 0);
    const spent = { admitted: 0, unanswered: 0 };
    const inFlight = new Set<string>();
    const isWell = (): boolean => {
      load.check();
      for (const { failure } of followers) if (failure !== undefined) throw failure;
      return true;
    };
    let kill = 0;
    try {
      for (; kill < kills; kill++) {
        const processes = await listening(serving);
        const enough = ledger.acknowledged + random.integer(10, 60);
        await until(() => isWell() && ledger.acknowledged >= enough);
        const part = Math.floor(limit / (kills + 1));
        const spending = spend(clientOf(serving.url, spender.secret), part);
        servers.mayBreak = true;
        const leases = new Set(audit.leased().map(({ eventId }) => eventId));
        const victim = random.pick(processes).at(-1) ?? 0;
        process.kill(victim, 'SIGKILL');
        for (const { eventId } of audit.leased()) leases.add(eventId);
        for (const eventId of leases) inFlight.add(eventId);
        const admitted = await spending;
        spent.admitted += admitted;
        spent.unanswered += part - admitted;
        await allListen(serving, workers + kill + 1);
        await until(() => [...ledger.open].every(({ isCutOff, isGivenUp }) => !isCutOff || isGivenUp));
        audit.settle(({ isGivenUp }) => isGivenUp);
        servers.mayBreak = false;
        const { length } = await readLog(clientOf(serving.url, secret));
        await until(() => isWell() && followers.every(({ last }) => last >= length), 5_000);
      }
      spent.admitted += await spendAll(clientOf(serving.url, spender.secret));
      expect(spent.admitted).toBeLessThanOrEqual(limit);
      expect(spent.admitted).toBeGreaterThanOrEqual(limit - spent.unanswered - kills * largestBlock);
      await load.stop();
      await until(() => isWell() && followers.every(({ last }) => last >= ledger.events));
      for (const follower of followers) await follower.stop();
      serving.signal('SIGTERM');
      const { code, stderr } = await serving.ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      audit.check(followers.map((follower) => follower.take()));

      // When the leases of those that were killed are over, the next one sends what they held.
      time.aheadMs = 60_000;
      const wallMs = Date.now();
      await lastProcess.serve({ databasePath, time: { startMs: wallMs + time.aheadMs, wallMs, speed: 1 } });
      await eventually(
        async () => audit.pendingDeliveries(),
        (count) => count === 0,
      );
      audit.checkWhole();
      const last = await startTestServer({ databasePath });
      expectDelivered(await readLog(clientOf(last.url, secret)), receiver.deliveries);
      await last.close();
      const ids = receiver.deliveries.map(({ event }) => event.id);
      const doubled = ids.filter((id, index) => ids.indexOf(id) < index);
      expect(
        doubled.filter((id) => !inFlight.has(id)),
        'sent twice, and in flight at no kill',
      ).toEqual([]);
    } catch (error) {
      throw withHint(error, `TEST_SEED=${seed}, kill ${kill + 1}`);
    }
  },
);
