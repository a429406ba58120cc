import { spawn } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createAccount } from '../../src/domain/accounts.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { type BenchData, portsOn } from './data.ts';
import { type Contestant, ours, peer, remove, serve } from './processes.ts';
import { median, onFreshCopy } from './throughput.ts';

// How the cost grows with what is there, and what the service costs while it does nothing.

/** A figure that is to stay below another. */
export interface CostResult {
  readonly name: string;
  readonly unit: string;
  readonly value: number;
  readonly atMost: number;
  /** Other figures that help to judge it. */
  readonly beside?: Readonly<Record<string, number>>;
  /** What it was made of. */
  readonly raw: Readonly<Record<string, number | readonly number[]>>;
}

interface Probe {
  readonly name: string;
  /** @returns the path to ask for, and a body if something is to be sent */
  request(index: number): { path: string; body?: object };
}

async function ask(url: string, secret: string, { path, body }: { path: string; body?: object }): Promise<Response> {
  const response = await fetch(`${url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path} was answered with ${response.status}`);
  return response;
}

async function timeOf(url: string, secret: string, request: { path: string; body?: object }): Promise<number> {
  const startedMs = performance.now();
  await (await ask(url, secret, request)).arrayBuffer();
  return performance.now() - startedMs;
}

async function cursorAtDepth(url: string, secret: string, depth: number): Promise<string> {
  const path = `/v1/conversations?limit=1&offset=${depth - 1}`;
  const { pagination } = (await (await ask(url, secret, { path })).json()) as { pagination: { nextCursor: string } };
  return pagination.nextCursor;
}

/**
 * Latency with much data to latency with little, of the same request, sent to both in turns.
 * @param deep how far down the next page by cursor is asked for where there is much
 */
export async function compareSizes(
  small: BenchData,
  large: BenchData,
  { samples, deep }: { readonly samples: number; readonly deep: number },
): Promise<CostResult[]> {
  return await onFreshCopy(ours, small, (few) =>
    onFreshCopy(ours, large, async (many) => {
      const probes = (data: BenchData, cursor: string): Probe[] => [
        { name: 'first page', request: () => ({ path: '/v1/conversations?limit=20' }) },
        {
          name: 'one conversation',
          request: (index) => ({ path: `/v1/conversations/${data.withMessages[index % data.withMessages.length]}` }),
        },
        {
          name: 'send a message',
          request: (index) => ({
            path: `/v1/conversations/${data.withMessages[index % data.withMessages.length]}/messages`,
            body: { content: 'It will be with you tomorrow.', sender: 'agent' },
          }),
        },
        { name: 'next page, far down', request: () => ({ path: `/v1/conversations?limit=20&after=${cursor}` }) },
        { name: 'analytics of 30 days', request: () => ({ path: '/v1/analytics' }) },
      ];
      const fewProbes = probes(small, await cursorAtDepth(few.url, small.secret, 5_000));
      const manyProbes = probes(large, await cursorAtDepth(many.url, large.secret, deep));
      const results: CostResult[] = [];
      let listMs = 1;
      for (const [index, probe] of manyProbes.entries()) {
        const raw: { few: number[]; many: number[] } = { few: [], many: [] };
        for (let sample = -20; sample < samples; sample++) {
          const fewMs = await timeOf(few.url, small.secret, (fewProbes[index] as Probe).request(sample + 20));
          const manyMs = await timeOf(many.url, large.secret, probe.request(sample + 20));
          if (sample < 0) continue; // until it is compiled
          raw.few.push(fewMs);
          raw.many.push(manyMs);
        }
        const [fewMs, manyMs] = [median(raw.few), median(raw.many)];
        if (index === 0) listMs = manyMs;
        const figures = { fewMs: rounded(fewMs), manyMs: rounded(manyMs) };
        if (probe.name.startsWith('analytics')) {
          results.push({
            name: `${probe.name} to a first page`,
            unit: '×',
            value: rounded(manyMs / listMs),
            atMost: 20,
            raw: figures,
          });
        } else {
          results.push({
            name: `${probe.name}, 100 times the data`,
            unit: '×',
            value: rounded(manyMs / fewMs),
            atMost: 1.2,
            raw: figures,
          });
        }
      }
      return results;
    }),
  );
}

/**
 * The 99th percentile of a read while many write, to its median alone. Beside it the same of bare servers, and of ours
 * while nobody writes, which is what the machine itself does to a hundredth of all reads.
 */
export async function readsAmongWrites(data: BenchData, seconds: number): Promise<CostResult> {
  const contestants = [ours, peer('bare'), peer('fastify')];
  const measured = contestants.map((): ReadTimes[] => []);
  for (let round = 0; round < 3; round++) {
    for (const [index, contestant] of contestants.entries()) {
      measured[index]?.push(await timeReadsAmongWrites(contestant, data, seconds));
    }
  }
  const [own = [], bare = [], fastify = []] = measured;
  const amongWrites = (all: ReadTimes[]) => median(all.map(({ amongP99Ms, aloneMs }) => rounded(amongP99Ms / aloneMs)));
  const msOf = (key: keyof ReadTimes) => own.map((times) => rounded(times[key]));
  return {
    name: 'p99 of a read while 64 write, to its median alone',
    unit: '×',
    value: amongWrites(own),
    atMost: 5,
    beside: {
      'while nobody writes': median(own.map(({ aloneP99Ms, aloneMs }) => rounded(aloneP99Ms / aloneMs))),
      bare: amongWrites(bare),
      fastify: amongWrites(fastify),
    },
    raw: {
      aloneMs: msOf('aloneMs'),
      aloneP99Ms: msOf('aloneP99Ms'),
      amongMedianMs: msOf('amongMedianMs'),
      amongP99Ms: msOf('amongP99Ms'),
    },
  };
}

interface ReadTimes {
  readonly aloneMs: number;
  readonly aloneP99Ms: number;
  readonly amongMedianMs: number;
  readonly amongP99Ms: number;
}

async function timeReadsAmongWrites(contestant: Contestant, data: BenchData, seconds: number): Promise<ReadTimes> {
  return await onFreshCopy(contestant, data, async ({ url }) => {
    const read = (index: number) =>
      timeOf(url, data.secret, { path: `/v1/conversations/${data.withMessages[index % data.withMessages.length]}` });
    for (let index = 0; index < 300; index++) await read(index);
    const alone: number[] = [];
    for (let index = 0; index < 500; index++) alone.push(await read(index));
    const load = spawn(process.execPath, [new URL('load.mjs', import.meta.url).pathname], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    load.stdin.end(
      JSON.stringify({
        url,
        connections: 64,
        seconds,
        headers: { authorization: `Bearer ${data.secret}`, 'content-type': 'application/json' },
        requests: data.withMessages.map((id) => ({
          method: 'POST',
          path: `/v1/conversations/${id}/messages`,
          body: JSON.stringify({ content: 'It will be with you tomorrow.', sender: 'agent' }),
        })),
      }),
    );
    const ended = new Promise<void>((resolve) => load.on('close', () => resolve()));
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    const among: number[] = [];
    for (let index = 0; !isOver; index++) among.push(await read(index));
    return {
      aloneMs: median(alone),
      aloneP99Ms: p99Of(alone),
      amongMedianMs: median(among),
      amongP99Ms: p99Of(among),
    };
  });
}

function p99Of(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0;
}

/** From the start of a process until it listens, on a file that exists. */
export async function startTime(data: BenchData, times: number): Promise<CostResult> {
  const raw: number[] = [];
  for (let index = 0; index < times; index++) {
    const server = await serve(ours, data);
    raw.push(Math.round(server.startedInMs));
    await server.stop();
  }
  return { name: 'start to ready', unit: 'ms', value: median(raw), atMost: 600, raw: { startedInMs: raw } };
}

/** The most memory that is resident under a load of reads and writes. */
export async function memoryUnderLoad(data: BenchData, seconds: number): Promise<CostResult> {
  return await onFreshCopy(ours, data, async (server) => {
    const requests = data.withMessages.flatMap((id) => [
      { method: 'GET', path: `/v1/conversations/${id}` },
      { method: 'GET', path: '/v1/conversations?limit=20' },
      {
        method: 'POST',
        path: `/v1/conversations/${id}/messages`,
        body: JSON.stringify({ content: 'Hello', sender: 'visitor' }),
      },
      {
        method: 'POST',
        path: '/graphql',
        body: JSON.stringify({ query: '{ conversations(first: 20) { nodes { id status } } }' }),
      },
    ]);
    const headers = { authorization: `Bearer ${data.secret}`, 'content-type': 'application/json' };
    const load = spawn(process.execPath, [new URL('load.mjs', import.meta.url).pathname], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    load.stdin.end(JSON.stringify({ url: server.url, connections: 64, seconds, headers, requests }));
    const atStart = residentMiB(server.pid);
    const raw: number[] = [];
    const sampling = setInterval(() => raw.push(residentMiB(server.pid)), 500);
    await new Promise((resolve) => load.on('close', resolve));
    clearInterval(sampling);
    return {
      name: 'memory under load',
      unit: 'MiB',
      value: Math.max(...raw),
      atMost: 200,
      raw: { atStart, sampled: raw },
    };
  });
}

/** What one more idle subscription takes beside what one more idle socket of plain ws takes. */
export async function memoryOfSubscriptions(data: BenchData, sockets: number): Promise<CostResult> {
  const perAccount = 1_000;
  const copy = `${data.path}.idle`;
  remove(copy);
  cpSync(data.path, copy);
  const storage = openSqliteStorage(copy);
  const secrets: string[] = [];
  for (let index = 0; index <= Math.ceil(sockets / perAccount); index++) {
    const { apiKey } = await createAccount(portsOn(storage), {
      name: `idle ${index}`,
      plan: 'business',
      requestsPerHour: 1_000_000,
    });
    secrets.push(apiKey.secret);
  }
  await storage.close();
  const messages = secrets.map((secret) => [
    JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } }),
    JSON.stringify({ id: '1', type: 'subscribe', payload: { query: 'subscription { events { id type } }' } }),
  ]);
  const [first = [], ...others] = messages;
  const used = async (contestant: Contestant, path: string, talks: boolean): Promise<number> => {
    const server = await serve(contestant, { ...data, path: copy });
    const url = server.url + path;
    // What is loaded for the first of them is not what each of them takes.
    const few = await openIdle(copy, { url, sockets: 100, messages: talks ? [first] : [] });
    await later(1_500);
    const before = residentMiB(server.pid);
    const many = await openIdle(copy, { url, sockets, messages: talks ? others : [] });
    await later(5_000); // until what opening them has left is collected
    const kibEach = ((residentMiB(server.pid) - before) * 1_024) / sockets;
    few.close();
    many.close();
    await server.stop();
    return kibEach;
  };
  const [oursKib, bareKib] = [await used(ours, '/graphql', true), await used(peer('broadcast'), '/', false)];
  remove(copy);
  const raw = { oursKib: rounded(oursKib), bareKib: rounded(bareKib) };
  return {
    name: 'idle subscription beyond its socket',
    unit: 'KiB',
    value: rounded(oursKib - bareKib),
    atMost: 8,
    raw,
  };
}

/** Opens sockets that say something and then listen, in a process of their own. */
async function openIdle(
  copy: string,
  plan: { readonly url: string; readonly sockets: number; readonly messages: readonly string[][] },
): Promise<{ close(): void }> {
  const file = `${copy}.json`;
  writeFileSync(file, JSON.stringify(plan));
  const idle = spawn(process.execPath, [new URL('idle.mjs', import.meta.url).pathname, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise<void>((resolve, reject) => {
    idle.stdout.on('data', () => resolve());
    idle.on('close', () => reject(new Error('The idle sockets did not stay open')));
  });
  return { close: () => idle.removeAllListeners('close').kill() };
}

/** Only where there is a /proc. */
function residentMiB(pid: number): number {
  const [, kib = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1_024);
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
