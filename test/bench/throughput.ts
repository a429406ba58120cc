import { cpSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { encodeCursor } from '../../src/domain/paging.ts';
import type { BenchData, Tenant } from './data.ts';
import { alone, type Contestant, measure, ours, ours2, peer, remove, type Served, serve } from './processes.ts';

interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: object;
  readonly body?: string;
}

/** One kind of request, and who is compared by it. */
interface Work {
  readonly name: string;
  readonly peers: readonly string[];
  /** Who is compared, if not ours and the peers. */
  readonly contestants?: readonly Contestant[];
  /** The least that ours is to be of each peer. */
  readonly aims: Readonly<Record<string, number>>;
  /** Each request that is sent is one of these, by chance. */
  requests(data: BenchData): readonly Request[];
  /** What is sent meanwhile twenty times a second. */
  beside?(data: BenchData): readonly Request[];
}

const besideEveryMs = 50;
/** Until the code is compiled. On a slow machine, half of the final speed is there after two seconds. */
export const warmUpSeconds = 5;

const listQuery =
  'query ($after: String) { conversations(first: 20, after: $after) { nodes { id status subject lastActivityAt } } }';
const oneQuery =
  'query ($id: ID!) { conversation(id: $id) { id status subject messages(first: 10) { nodes { id sender content createdAt } } } }';

const get = (headers: object, path: string): Request => ({ method: 'GET', path, headers });
const post = (headers: object, path: string, body: object): Request => ({
  method: 'POST',
  path,
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

const list = (headers: object, id?: string) =>
  get(headers, `/v1/conversations?limit=20${id === undefined ? '' : `&after=${encodeCursor('-createdAt', [id])}`}`);
const one = (headers: object, id: string) => get(headers, `/v1/conversations/${id}`);
const send = (headers: object, id: string) =>
  post(headers, `/v1/conversations/${id}/messages`, {
    content: 'It will be with you tomorrow, between nine and twelve.',
    sender: 'agent',
  });

/** A request for each conversation with messages, with its account's key. */
function ofEach(
  { tenants }: Pick<BenchData, 'tenants'>,
  request: (headers: object, id: string, index: number) => Request,
): Request[] {
  return tenants.flatMap(({ secret, withMessages }) =>
    withMessages.map((id, index) => request({ authorization: `Bearer ${secret}` }, id, index)),
  );
}

/** Sends to each conversation with messages of one account. */
export const sendsOf = (tenant: Tenant): Request[] => ofEach({ tenants: [tenant] }, send);

const rest = { peers: ['fastify', 'bare'], aims: { fastify: 0.95 } };
const graphql = { peers: ['mercurius', 'apollo', 'bare'], aims: { mercurius: 1, apollo: 2.5 } };
const workers = { peers: [alone.name], contestants: [ours2, alone] };
const keyOf = ({ secret }: Tenant) => ({ authorization: `Bearer ${secret}` });

export const works: readonly Work[] = [
  {
    ...rest,
    name: 'REST list of 20, from any cursor',
    requests: (data) => ofEach(data, list),
  },
  {
    ...rest,
    name: 'REST any conversation with 10 messages',
    requests: (data) => ofEach(data, one),
  },
  {
    ...rest,
    peers: ['fastify', 'fastify-same-writes', 'bare'],
    name: 'REST send to any conversation',
    requests: (data) => ofEach(data, send),
  },
  {
    ...rest,
    name: 'REST reads with a tenth of sends',
    requests: (data) =>
      ofEach(data, (headers, id, index) =>
        index % 10 === 0 ? send(headers, id) : index % 2 === 0 ? list(headers, id) : one(headers, id),
      ),
  },
  {
    ...rest,
    aims: {},
    name: 'REST first page, polled while another account writes',
    requests: ({ tenants: [polling] }) => [list(keyOf(polling as Tenant))],
    beside: ({ tenants }) => ofEach({ tenants: tenants.slice(1, 2) }, send),
  },
  {
    ...graphql,
    name: 'GraphQL list of 20, from any cursor',
    requests: (data) =>
      ofEach(data, (headers, id) =>
        post(headers, '/graphql', { query: listQuery, variables: { after: encodeCursor('-createdAt', [id]) } }),
      ),
  },
  {
    ...graphql,
    name: 'GraphQL any conversation with 10 messages',
    requests: (data) =>
      ofEach(data, (headers, id) => post(headers, '/graphql', { query: oneQuery, variables: { id } })),
  },
  {
    ...workers,
    aims: { [alone.name]: 1.5 },
    name: 'Two workers: any conversation with 10 messages',
    requests: (data) => ofEach(data, one),
  },
  {
    ...workers,
    aims: { [alone.name]: 1 },
    name: 'Two workers: send to any conversation',
    requests: (data) => ofEach(data, send),
  },
];

/** The works over REST again, on PostgreSQL, with Fastify on the same database by the same driver. */
export const postgresWorks: readonly Work[] = works
  .filter((work) => 'fastify' in work.aims && work.beside === undefined)
  .map((work) => ({
    ...work,
    aims: { fastify: 0.9 },
    peers: work.peers.filter((name) => name !== 'bare'),
    name: `PostgreSQL: ${work.name}`,
  }));

/** Shows at most how fast an answer can be that is known already. */
export const repeated: Work = {
  ...rest,
  aims: {},
  name: 'REST one repeated request: the first page, while nobody writes',
  requests: ({ tenants: [asking] }) => [list(keyOf(asking as Tenant))],
};

export interface Load {
  readonly requests: number;
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
  /** The 99th percentile of the latency by contestant, one for each round. */
  readonly p99Ms?: Readonly<Record<string, number[]>>;
  readonly bytesPerRequest?: Readonly<Record<string, number>>;
  /** Requests that were answered with an error, as an overloaded machine may make it, or not in time. */
  readonly failures?: Readonly<Record<string, number>>;
  /** Ours to each peer, of the medians, and the least that it is to be, if there is such an aim. */
  readonly ratios: Readonly<Record<string, { readonly ratio: number; readonly aim: number | undefined }>>;
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
  const contestants = work.contestants ?? [ours, ...work.peers.map(peer)];
  const raw: Record<string, number[]> = Object.fromEntries(contestants.map(({ name }) => [name, []]));
  const p99Ms: Record<string, number[]> = Object.fromEntries(contestants.map(({ name }) => [name, []]));
  const bytesPerRequest: Record<string, number> = {};
  const failures: Record<string, number> = {};
  const load = { connections, headers: {}, requests: work.requests(data) };
  const beside = work.beside?.(data) ?? [];
  const shapes: Record<string, string> = {};
  for (let round = 0; round < rounds; round++) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      const result = await onFreshCopy(contestant, data, async ({ url }) => {
        shapes[contestant.name] = await shapeOfAnswer(url, load.requests[0] as Request);
        const ended = new AbortController();
        const sending = sendBeside(url, beside, ended.signal);
        await measure<Load>('load.mjs', { ...load, url, seconds: warmUpSeconds });
        const measured = await measure<Load>('load.mjs', { ...load, url, seconds });
        ended.abort();
        await sending;
        return measured;
      });
      requireAnswers(result, contestant, work.name);
      failures[contestant.name] = (failures[contestant.name] ?? 0) + result.failures;
      raw[contestant.name]?.push(Math.round(result.requestsPerSecond));
      p99Ms[contestant.name]?.push(Math.round(result.p99Ms * 10) / 10);
      bytesPerRequest[contestant.name] = result.bytesPerRequest;
    }
  }
  if (new Set(Object.values(shapes)).size > 1) throw new Error(`Answers differ: ${JSON.stringify(shapes, null, 2)}`);
  const medians = Object.fromEntries(Object.entries(raw).map(([name, values]) => [name, median(values)]));
  const ratios = Object.fromEntries(
    work.peers.map((name) => [name, { ratio: ratio(medians['ours'], medians[name]), aim: work.aims[name] }]),
  );
  return { name: work.name, unit: 'requests/s', raw, median: medians, p99Ms, bytesPerRequest, failures, ratios };
}

/** @throws Error if more than a tenth of the requests failed, or were not answered within two seconds */
export function requireAnswers({ failures, requests }: Load, { name }: Contestant, work: string): void {
  if (failures > requests / 10) throw new Error(`${name} failed ${failures} times at ${work}`);
}

/** The body of an answer, with the length in place of each text: contestants have to answer with the same fields. */
async function shapeOfAnswer(url: string, request: Request): Promise<string> {
  const text = await answerTo(url, request);
  return JSON.stringify(JSON.parse(text), (_, value) => (typeof value === 'string' ? value.length : value));
}

async function answerTo(url: string, { path, method, headers, body }: Request): Promise<string> {
  const response = await fetch(url + path, { method, headers: { ...headers }, ...(body !== undefined && { body }) });
  if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}`);
  return await response.text();
}

/** Sends one request after the other, in even steps, until it is told to end. */
async function sendBeside(url: string, requests: readonly Request[], ended: AbortSignal): Promise<void> {
  for (let index = 0; requests.length > 0 && !ended.aborted; index++) {
    await answerTo(url, requests[index % requests.length] as Request);
    await pause(besideEveryMs);
  }
}

/** What each contestant achieves in each round, in reversed order every other time, and the medians. */
export async function inRounds(
  contestants: readonly Contestant[],
  rounds: number,
  run: (contestant: Contestant) => Promise<number>,
): Promise<{ raw: Record<string, number[]>; medians: Record<string, number> }> {
  const raw: Record<string, number[]> = Object.fromEntries(contestants.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      raw[contestant.name]?.push(await run(contestant));
    }
  }
  const medians = Object.fromEntries(Object.entries(raw).map(([name, values]) => [name, median(values)]));
  return { raw, medians };
}

export async function onFreshCopy<T>(
  contestant: Contestant,
  data: BenchData,
  run: (server: Served) => Promise<T>,
): Promise<T> {
  const copy = await (data.postgres === undefined ? copyOfFile(data.path) : data.postgres.copy());
  const server = await serve(contestant, copy);
  try {
    return await run(server);
  } finally {
    await server.stop();
    await copy.remove();
  }
}

function copyOfFile(original: string): { path: string; remove: () => void } {
  const path = `${original}.copy`;
  remove(path);
  cpSync(original, path);
  return { path, remove: () => remove(path) };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

export function ratio(a = 0, b = 1): number {
  return Math.round((a / b) * 100) / 100;
}
