import { execFile, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import manifest from '../../package.json' with { type: 'json' };
import type { BenchData } from './data.ts';

const root = new URL('../../', import.meta.url).pathname;

export interface Contestant {
  readonly name: string;
  /** Arguments to Node, from the root of the repository. */
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const [, program = ''] = manifest.scripts.start.split(' && node ');
/** As `npm start` runs it. */
export const ours: Contestant = { name: 'ours', args: program.split(' ') };
/** With a process for each core, beside which there is a load generator. */
export const ours2: Contestant = { ...ours, environment: { WORKERS: '2' } };
export const alone: Contestant = { ...ours, name: 'one process' };
export const peer = (name: string): Contestant => ({ name, args: [`test/bench/peers/${name}.mjs`] });

export interface Served {
  readonly url: string;
  readonly pid: number;
  /** From the start of the process until it listens. */
  readonly startedInMs: number;
  stop(): Promise<void>;
}

/** Starts a contestant in a fresh process on the data and waits until it listens. */
export async function serve(
  contestant: Contestant,
  { path, postgres }: Pick<BenchData, 'path' | 'postgres'>,
  environment = {},
): Promise<Served> {
  const port = await freePort();
  const began = performance.now();
  const child = spawn(process.execPath, contestant.args, {
    cwd: root,
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: postgres?.url ?? `file:${path}`,
      BENCH_DATABASE: postgres?.url ?? path,
      ...contestant.environment,
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'inherit'], // everybody's log lines go to /dev/null
  });
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  let startedInMs = 0;
  // Twice: before there are workers, their supervisor listens for a moment, to see whether the port is free.
  for (let times = 0; times < 2; ) {
    if (child.exitCode !== null) throw new Error(`${contestant.name} ended before it listened`);
    const listens = await listensOn(port);
    if (listens && times === 0) startedInMs = performance.now() - began;
    times = listens ? times + 1 : 0;
    await pause(5);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid ?? 0,
    startedInMs,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

function listensOn(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** Runs a script of this folder in a process of its own and returns what it printed, parsed. */
export async function measure<T>(script: string, argument: object): Promise<T> {
  const file = new URL(script, import.meta.url).pathname;
  const running = promisify(execFile)(process.execPath, [file]);
  running.child.stdin?.end(JSON.stringify(argument));
  return JSON.parse((await running).stdout) as T;
}

export function remove(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
}
