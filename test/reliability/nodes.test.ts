import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { eventTypes } from '../../src/domain/event-types.ts';
import { type Serving, serve } from '../cli/program.ts';
import { clientOf, type Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { readLog } from '../support/log.ts';
import { PostgresServer } from '../support/postgres.ts';
import { Random } from '../support/random.ts';
import { Receiver } from '../support/receiver.ts';
import { seed, withHint } from '../support/seed.ts';
import { startTestServer } from '../support/server.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { eventually, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { expectDelivered } from './expect-delivered.ts';
import { follow } from './followers.ts';
import { compareBooks, NodeLoad } from './node-load.ts';
import { RunningServers } from './running-servers.ts';

// Several nodes on one PostgreSQL database, behind a proxy. Nodes are killed, started, stopped and frozen, the database
// crashes, and connections are cut, those to the database in the midst of commits. Whoever calls has one service.

/** How long everything goes wrong, one thing after the other; and at least each thing once. */
const trialMs = 1_000 * Number(process.env['NODES_TRIAL_SECONDS'] ?? 480);
const nodeCount = 3;
const accountCount = 3;
const environment = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true' };
/** How long the others may be kept from going on, by what happens to one. */
const patienceMs = 30_000;
/** Longer than a lease, which a node that was killed has held to its end. */
const leaseIsOverMs = 60_000;

type Stage = Awaited<ReturnType<typeof setTheStage>>;

async function setTheStage() {
  const database = await PostgresServer.start();
  onTestFinished(() => database.remove());
  const url = await database.database();
  const administrator = postgres(url, { max: 1, onnotice: () => {}, connection: { application_name: 'test' } });
  onTestFinished(() => administrator.end({ timeout: 0 }));
  const receiver = await Receiver.open({ now: () => performance.timeOrigin + performance.now() });
  const before = await startTestServer({
    config: { postgres: { url, directUrl: undefined }, webhookPolicy: anywhere },
  });
  const accounts = await Promise.all(
    Array.from({ length: accountCount }, async (_, index) => {
      const { account, secret, rest } = await before.account({ requestsPerHour: 1_000_000_000 });
      const path = `/account-${index}`;
      const { body } = await rest('POST', '/webhooks', {
        body: { url: `${receiver.url}${path}`, events: eventTypes },
      });
      receiver.trust(path, body.secret);
      return { id: account.id, secret, path, after: (await rest('GET', '/account')).body.eventCursor as string };
    }),
  );
  await before.close();

  const network = await TcpRelay.open(url);
  const databaseUrl = network.through(url);
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => startNode(databaseUrl)));
  const proxy = await TcpRelay.open(...nodes.map((node) => node.url));
  const serviceUrl = proxy.through('http://service');
  const servers = new RunningServers();
  servers.up(serviceUrl);
  const callers = accounts.map((account, index) => ({
    ...account,
    client: clientOf(serviceUrl, account.secret),
    load: new NodeLoad({ url: serviceUrl, secret: account.secret, name: `${index}`, seed: seed + index, clients: 3 }),
    followers: follow({ servers, secret: account.secret, after: account.after, mayBeUnavailable: true }),
  }));
  return {
    ...{ database, administrator, receiver, network, databaseUrl, nodes, proxy, callers },
    random: new Random(seed, 0),
    /** The nodes that have ended, for what they have logged. */
    ended: [] as Serving[],
    /** The events that were in flight when a node was killed. */
    inFlight: new Set<string>(),
    happened: new Map<string, number>(),
  };
}

async function startNode(databaseUrl: string, more: Record<string, string> = {}): Promise<Serving> {
  return await serve('', { ...environment, DATABASE_URL: databaseUrl, ...more });
}

function isWell({ callers }: Stage): boolean {
  for (const { load, followers } of callers) {
    load.check();
    for (const { failure } of followers) if (failure !== undefined) throw failure;
  }
  return true;
}

/** Waits until clients of every account have been answered so many times. */
async function untilAnswered(stage: Stage, count: number): Promise<void> {
  const enough = stage.callers.map(({ load }) => load.acknowledged + count);
  await until(
    () => isWell(stage) && stage.callers.every(({ load }, index) => load.acknowledged >= (enough[index] ?? 0)),
    patienceMs,
  );
}

/** Everything that has been committed by now reaches all who follow. */
async function untilFollowed(stage: Stage): Promise<void> {
  const rows = await eventually(
    () => stage.administrator`SELECT account_id AS id, event_sequence::integer AS last FROM account_totals`,
    () => true,
  );
  const ends = new Map(rows.map(({ id, last }) => [id, last]));
  await until(
    () =>
      isWell(stage) && stage.callers.every(({ id, followers }) => followers.every(({ last }) => last >= ends.get(id))),
    patienceMs,
  );
}

async function leave({ nodes, proxy, ended }: Stage, node: Serving): Promise<void> {
  nodes.splice(nodes.indexOf(node), 1);
  await node.ended;
  proxy.remove(node.url);
  ended.push(node);
}

async function join({ nodes, proxy, databaseUrl }: Stage): Promise<void> {
  const node = await startNode(databaseUrl);
  nodes.push(node);
  proxy.add(node.url);
}

/** What can go wrong. */
const mishaps: Readonly<Record<string, (stage: Stage) => Promise<unknown>>> = {
  async 'a node is killed, and another one started'(stage) {
    const victim = stage.random.pick(stage.nodes);
    victim.signal('SIGKILL');
    await leave(stage, victim);
    expect((await victim.ended).code, 'it had not ended by itself').toBeNull();
    const leased = await stage.administrator`SELECT event_id FROM delivery_leases
      JOIN deliveries ON deliveries.account_id = delivery_leases.account_id AND deliveries.id = delivery_id`;
    for (const { event_id } of leased) stage.inFlight.add(event_id);
    await untilAnswered(stage, 10);
    await join(stage);
  },
  async 'a node is added, and another one stopped'(stage) {
    await join(stage);
    await untilAnswered(stage, 10);
    const oldest = stage.nodes[0] ?? expect.fail();
    oldest.signal('SIGTERM');
    await leave(stage, oldest);
    const { code, stderr } = await oldest.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  },
  async 'the database crashes, and is started again'({ callers, database, random }) {
    const refused = (): number => callers.reduce((sum, { load }) => sum + load.unavailable, 0);
    const before = refused();
    await database.crash();
    await until(() => refused() > before + 10);
    await sleep(random.integer(0, 2_000)); // nothing says how long it is away
    await database.startAgain();
  },
  async 'the answer to a commit is lost with all connections to the database'({ network }) {
    for (let count = 0; count < 3; count++) await network.cutAtAnswer('COMMIT\0');
  },
  async 'all connections to the database are cut'({ network }) {
    expect(network.cut()).toBeGreaterThan(0);
  },
  async 'the database ends all connections'({ administrator }) {
    await administrator`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = 'conversation-service'`;
  },
  async 'all connections of clients are cut'({ proxy }) {
    expect(proxy.cut()).toBeGreaterThan(0);
  },
  async 'a node is frozen for longer than it may hold a lock'(stage: Stage) {
    const frozen = stage.random.pick(stage.nodes);
    frozen.signal('SIGSTOP');
    stage.proxy.remove(frozen.url);
    await sleep(8_000); // a transaction may do nothing for 5 s
    frozen.signal('SIGCONT');
    stage.proxy.add(frozen.url);
  },
};

/** What is logged to have failed with one of these has failed because the database was away, or a transaction had to give way. */
const expectedCodes = /^(E[A-Z]+|CONNECT\w+|UNAVAILABLE|08...|40001|40P01|53...|55P03|57...|25P0.)$/;

/** Nothing that a node has logged is a fault of its own. */
async function expectNoFaults({ nodes, ended }: Stage): Promise<void> {
  const logs = await Promise.all([...nodes, ...ended].map(({ printed }) => printed('')));
  const faults = logs.flatMap((log) => log.split('\n').filter((line) => /"level":"(error|fatal)"/.test(line)));
  const unexpected = faults.filter((line) => {
    const { msg, err } = JSON.parse(line) as Json;
    return msg !== 'more requests failed' && !expectedCodes.test(err?.code ?? '');
  });
  expect(unexpected.slice(0, 5)).toEqual([]);
}

async function end(stage: Stage): Promise<void> {
  const { callers, nodes, receiver, administrator, inFlight } = stage;
  for (const { load } of callers) await load.stop();
  await untilFollowed(stage);
  for (const { client, load, followers } of callers) {
    const log = await readLog(client);
    await compareBooks(client, load, log);
    for (const follower of followers) {
      await follower.stop();
      expect(
        follower.take().map(({ id }) => id),
        follower.name,
      ).toEqual(log.map(({ id }) => id));
    }
  }
  // When the leases of those that were killed are over, another one sends what they held.
  for (const node of [...nodes]) {
    node.signal('SIGTERM');
    await leave(stage, node);
    expect((await node.ended).code).toBe(0);
  }
  await join(stage);
  await administrator`UPDATE delivery_leases SET ends_at = ends_at - ${leaseIsOverMs}`;
  await eventually(
    () => administrator`SELECT id FROM deliveries WHERE status = 'pending' LIMIT 1`,
    ({ count }) => count === 0,
  );
  const [last = expect.fail()] = stage.nodes;
  for (const { secret, path } of callers) {
    expectDelivered(await readLog(clientOf(last.url, secret)), receiver.to(path));
  }
  const ids = receiver.deliveries.map(({ event }) => event.id);
  const seen = new Set<string>();
  const doubled = ids.filter((id) => seen.size === seen.add(id).size);
  expect(
    doubled.filter((id) => !inFlight.has(id)),
    'sent twice, and in flight at no kill',
  ).toEqual([]);
  await expectNoFaults(stage);
}

longTest(
  'nodes on one PostgreSQL database are one service, whatever becomes of each, of the database and of connections',
  {
    timeout: 120_000 + trialMs * 1.5,
  },
  async () => {
    const stage = await setTheStage();
    const startedMs = performance.now();
    let mishap = '';
    try {
      do {
        for (mishap of Object.keys(mishaps)) {
          await untilAnswered(stage, stage.random.integer(5, 60));
          await mishaps[mishap]?.(stage);
          stage.happened.set(mishap, (stage.happened.get(mishap) ?? 0) + 1);
          await untilAnswered(stage, 5);
          await untilFollowed(stage);
        }
      } while (performance.now() - startedMs < trialMs);
      mishap = 'the end';
      await end(stage);
    } catch (error) {
      throw withHint(error, `TEST_SEED=${seed}, ${mishap}`);
    }
    const sum = (of: 'acknowledged' | 'unavailable' | 'cutOff') =>
      stage.callers.reduce((sum, { load }) => sum + load[of], 0);
    console.log(
      `${sum('acknowledged')} writes were acknowledged, ${sum('unavailable')} requests unavailable, ` +
        `${sum('cutOff')} cut off; ${[...stage.happened].map(([what, times]) => `${times} times ${what}`).join('; ')}.`,
    );
  },
);
