import { cpSync } from 'node:fs';
import type { BenchData } from './data.ts';
import { type Contestant, measure, ours, peer, remove, serve } from './processes.ts';

/** One kind of request, and who is compared by it. */
interface Work {
  readonly name: string;
  readonly peers: readonly string[];
  /** The target for the ratio of ours to each peer. */
  readonly aims: Readonly<Record<string, number>>;
  requests(data: BenchData): readonly object[];
}

const json = { 'content-type': 'application/json' };

const listQuery = '{ conversations(first: 20) { nodes { id status subject lastActivityAt } } }';
const oneQuery =
  'query ($id: ID!) { conversation(id: $id) { id status subject messages(first: 10) { nodes { id sender content createdAt } } } }';

export const works: readonly Work[] = [
  {
    name: 'REST list of 20',
    peers: ['fastify', 'bare'],
    aims: { fastify: 1, bare: 0.8 },
    requests: () => [{ method: 'GET', path: '/v1/conversations?limit=20' }],
  },
  {
    name: 'REST one conversation with 10 messages',
    peers: ['fastify', 'bare'],
    aims: { fastify: 1, bare: 0.8 },
    requests: ({ withMessages }) => withMessages.map((id) => ({ method: 'GET', path: `/v1/conversations/${id}` })),
  },
  {
    name: 'REST send a message',
    peers: ['fastify', 'bare'],
    aims: { fastify: 1, bare: 0.8 },
    requests: ({ withMessages }) =>
      withMessages.map((id) => ({
        method: 'POST',
        path: `/v1/conversations/${id}/messages`,
        headers: json,
        body: JSON.stringify({ content: 'It will be with you tomorrow, between nine and twelve.', sender: 'agent' }),
      })),
  },
  {
    name: 'GraphQL list of 20, four fields',
    peers: ['mercurius', 'apollo', 'bare'],
    aims: { mercurius: 1, apollo: 4, bare: 0.8 },
    requests: () => [{ method: 'POST', path: '/graphql', headers: json, body: JSON.stringify({ query: listQuery }) }],
  },
  {
    name: 'GraphQL conversation with messages',
    peers: ['mercurius', 'apollo', 'bare'],
    aims: { mercurius: 1, apollo: 4, bare: 0.8 },
    requests: ({ withMessages }) =>
      withMessages.map((id) => ({
        method: 'POST',
        path: '/graphql',
        headers: json,
        body: JSON.stringify({ query: oneQuery, variables: { id } }),
      })),
  },
];

interface Load {
  readonly requestsPerSecond: number;
  readonly bytesPerRequest: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failures: number;
}

export interface WorkResult {
  readonly name: string;
  /** Of what the values are. */
  readonly unit: string;
  /** By contestant, one for each round. */
  readonly raw: Readonly<Record<string, number[]>>;
  readonly median: Readonly<Record<string, number>>;
  readonly bytesPerRequest?: Readonly<Record<string, number>>;
  /** Ours to the peer, of the medians, and the target. */
  readonly ratios: Readonly<Record<string, { readonly ratio: number; readonly aim: number }>>;
}

export interface Plan {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
}

/** Measures one work: each contestant in a fresh process on a fresh copy of the data, in reversed order each round. */
export async function compare(
  work: Work,
  data: BenchData,
  { rounds, seconds, connections }: Plan,
): Promise<WorkResult> {
  const contestants = [ours, ...work.peers.map(peer)];
  const raw: Record<string, number[]> = Object.fromEntries(contestants.map(({ name }) => [name, []]));
  const bytesPerRequest: Record<string, number> = {};
  const load = { connections, headers: { authorization: `Bearer ${data.secret}` }, requests: work.requests(data) };
  for (let round = 0; round < rounds; round++) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      const result = await onFreshCopy(contestant, data, async (url) => {
        await measure<Load>('load.mjs', { ...load, url, seconds: 1 }); // until it is compiled
        return await measure<Load>('load.mjs', { ...load, url, seconds });
      });
      if (result.failures > 0) throw new Error(`${contestant.name} failed ${result.failures} times at ${work.name}`);
      raw[contestant.name]?.push(Math.round(result.requestsPerSecond));
      bytesPerRequest[contestant.name] = result.bytesPerRequest;
    }
  }
  const medians = Object.fromEntries(Object.entries(raw).map(([name, values]) => [name, median(values)]));
  const ratios = Object.fromEntries(
    work.peers.map((name) => [name, { ratio: ratio(medians['ours'], medians[name]), aim: work.aims[name] ?? 1 }]),
  );
  return { name: work.name, unit: 'requests/s', raw, median: medians, bytesPerRequest, ratios };
}

export async function onFreshCopy<T>(
  contestant: Contestant,
  data: BenchData,
  run: (url: string) => Promise<T>,
): Promise<T> {
  const path = `${data.path}.copy`;
  remove(path);
  cpSync(data.path, path);
  const server = await serve(contestant, { ...data, path });
  try {
    return await run(server.url);
  } finally {
    await server.stop();
    remove(path);
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

export function ratio(a = 0, b = 1): number {
  return Math.round((a / b) * 100) / 100;
}
