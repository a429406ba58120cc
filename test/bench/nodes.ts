import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { BenchData } from './data.ts';
import { fanOutOf } from './fanout.ts';
import { type Contestant, measure, ours, peer, type Served, serve } from './processes.ts';
import {
  inRounds,
  type Load,
  type Plan,
  ratio,
  requireAnswers,
  sendsOf,
  type WorkResult,
  warmUpSeconds,
} from './throughput.ts';

// Two nodes on one PostgreSQL database.

/** One way between a node and its database, as in another building. */
const wayMs = 1;
const subscribers = 1_000;

/**
 * The sends of one account, which all take the next number of one log, with the database a millisecond away. The peer
 * takes the account's row in each transaction, as one does to have such a log, and writes the same.
 */
export async function compareBusyAccount(data: BenchData, { rounds, seconds, connections }: Plan): Promise<WorkResult> {
  const name = 'PostgreSQL: sends of one account to two nodes, a millisecond away';
  const each = { ...peer('fastify-same-writes'), name: 'a transaction each' };
  const contestants = [ours, each];
  const { raw, medians } = await inRounds(contestants, rounds, (contestant) =>
    onNodes(contestant, data, 2, wayMs, async (nodes) => {
      const load = { connections: connections / nodes.length, headers: {}, requests: sendsOf(data) };
      const perSecond = async (seconds: number): Promise<number> => {
        const loads = await Promise.all(nodes.map(({ url }) => measure<Load>('load.mjs', { ...load, url, seconds })));
        for (const load of loads) requireAnswers(load, contestant, name);
        return loads.reduce((sum, { requestsPerSecond }) => sum + requestsPerSecond, 0);
      };
      await perSecond(warmUpSeconds);
      return Math.round(await perSecond(seconds));
    }),
  );
  const ratios = { [each.name]: { ratio: ratio(medians[ours.name], medians[each.name]), aim: 5 } };
  return { name, unit: 'requests/s', raw, median: medians, ratios };
}

/** Events that are made on one node, to sockets of which every other one is on a second node, and to sockets of one node. */
export async function compareFanOutOfNodes(data: BenchData, { rounds, seconds }: Plan): Promise<WorkResult> {
  const name = 'PostgreSQL: fan-out to 1,000 sockets on two nodes';
  const single = { ...ours, name: 'one node' };
  const { raw, medians } = await inRounds([ours, single], rounds, (contestant) =>
    onNodes(contestant, data, contestant === ours ? 2 : 1, 0, (nodes) =>
      fanOutOf(
        contestant,
        data,
        nodes.map(({ url }) => url),
        { subscribers, events: seconds * 40 },
      ),
    ),
  );
  const ratios = { [single.name]: { ratio: ratio(medians[ours.name], medians[single.name]), aim: undefined } };
  return { name, unit: 'events × subscribers/s', raw, median: medians, ratios };
}

/** Runs with several processes of a contestant on one fresh copy of the database. */
async function onNodes<T>(
  contestant: Contestant,
  { postgres }: BenchData,
  count: number,
  delayMs: number,
  run: (nodes: readonly Served[]) => Promise<T>,
): Promise<T> {
  if (postgres === undefined) throw new Error('Only PostgreSQL has several nodes');
  const copy = await postgres.copy();
  const way = delayMs === 0 ? undefined : await openWay(new URL(copy.postgres.url), delayMs);
  const database = { ...copy.postgres, url: way?.url ?? copy.postgres.url };
  const nodes: Served[] = [];
  try {
    while (nodes.length < count) nodes.push(await serve(contestant, { path: '', postgres: database }));
    return await run(nodes);
  } finally {
    await Promise.all(nodes.map((node) => node.stop()));
    way?.close();
    await copy.remove();
  }
}

/** A way to the database that takes its time in both directions, however much is on it. */
async function openWay(target: URL, delayMs: number): Promise<{ url: string; close(): void }> {
  const pass = (from: Socket, to: Socket): void => {
    from.setNoDelay(true);
    from.on('data', (bytes) => setTimeout(() => to.write(bytes), delayMs));
    from.on('error', () => to.destroy()).on('close', () => to.destroy());
  };
  const server = createServer((client) => {
    const database = connect(Number(target.port), target.hostname);
    pass(client, database);
    pass(database, client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: url.href, close: () => void server.close() };
}
