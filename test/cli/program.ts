import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { onTestFinished, vi } from 'vitest';
import { run as runProgram } from '../../src/cli/program.ts';
import { endingSignals } from '../../src/server/stop.ts';

// The program as its operator runs it, seen from outside only: in a process of its own, or in this one where that makes no
// difference.

const built = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  readonly signal: (name: NodeJS.Signals) => void;
  /** Closes the reading end of its standard output, as `head` does when it has had enough. */
  readonly stopReading: () => void;
  /** Resolves with all that was printed once it holds the text; rejects if the program ends before. */
  printed(text: string): Promise<string>;
  /** The same on standard error. */
  printedToStderr(text: string): Promise<string>;
}

interface Options {
  /** Beside the PATH, all that the program gets of an environment. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Another program than the one that was built here. */
  readonly main?: string;
  /** Another Node than the one that the tests run on. */
  readonly node?: string;
  /** What sh does before it becomes the program, such as `ulimit -n 64`. */
  readonly before?: string;
}

/** Starts the program. Whatever a test leaves running is ended with the test. */
export function start(args: readonly string[], options: Options = {}): Running {
  const { environment = {}, main = built, node = process.execPath, before } = options;
  const command = [node, main, ...args];
  const [file = '', ...rest] = before === undefined ? command : ['sh', '-c', `${before}; exec "$@"`, 'sh', ...command];
  const child = spawn(file, rest, {
    env: { PATH: process.env['PATH'], ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const watchers = new Set<() => void>();
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    for (const look of watchers) look();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    for (const look of watchers) look();
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const until = (output: () => string, text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!output().includes(text)) return;
        watchers.delete(look);
        resolve(output());
      };
      watchers.add(look);
      look();
      void ended.then((end) => reject(new Error(`It ended without printing ${text}: ${JSON.stringify(end)}`)));
    });
  return {
    pid: child.pid ?? 0,
    ended,
    signal: (name) => void child.kill(name),
    stopReading: () => void child.stdout.destroy(),
    printed: (text) => until(() => stdout, text),
    printedToStderr: (text) => until(() => stderr, text),
  };
}

/** Runs the program to its end. */
export function run(args: readonly string[], options: Options = {}): Promise<Ended> {
  return start(args, options).ended;
}

const emitter: NodeJS.EventEmitter = process;

/**
 * Runs the program to its end in this process, one at a time. Starting another takes far longer than what most commands
 * do; of each command some test runs one.
 */
export async function runHere(args: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
  const printed = { stdout: '', stderr: '' };
  const spies = [
    vi.spyOn(console, 'log').mockImplementation((line: string) => {
      printed.stdout += `${line}\n`;
    }),
    vi.spyOn(console, 'error').mockImplementation((line: string) => {
      printed.stderr += `${line}\n`;
    }),
  ];
  const before = process.exitCode;
  const listeners = [...endingSignals, 'disconnect'].map((name) => [name, emitter.listeners(name)] as const);
  process.exitCode = 0;
  vi.stubEnv('npm_lifecycle_event', undefined); // or it would look after npm from here on
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  try {
    await runProgram(['node', 'main.js', ...args]);
    return { code: process.exitCode, ...printed };
  } finally {
    vi.unstubAllEnvs();
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
    for (const [name, others] of listeners) {
      for (const each of emitter.listeners(name) as (() => void)[]) if (!others.includes(each)) emitter.off(name, each);
    }
  }
}

/** A command line on one database: a file, or the URL of another. What ends with `Here` runs in this process. */
export function commandLine(database: string): {
  start(...args: string[]): Running;
  run(...args: string[]): Promise<Ended>;
  runHere(...args: string[]): Promise<Ended>;
  /** Runs with `--json`, and returns what it printed, parsed. */
  json<T>(...args: string[]): Promise<T>;
  jsonHere<T>(...args: string[]): Promise<T>;
} {
  const environment = { DATABASE_URL: database.includes('://') ? database : `file:${database}` };
  return {
    start: (...args) => start(args, { environment }),
    run: (...args) => run(args, { environment }),
    runHere: (...args) => runHere(args, environment),
    json: async <T>(...args: string[]) => parsed<T>(await run([...args, '--json'], { environment })),
    jsonHere: async <T>(...args: string[]) => parsed<T>(await runHere([...args, '--json'], environment)),
  };
}

function parsed<T>({ code, stdout, stderr }: Ended): T {
  if (code !== 0 || stderr !== '') throw new Error(`It ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as T;
}

export const secretPattern = /cs_[A-Za-z0-9_-]{43}/g;

export interface Serving extends Running {
  readonly url: string;
  /** What it printed until it listened. */
  readonly greeting: string;
}

/** Starts a server, and resolves when it listens. */
export async function serve(
  databasePath: string,
  environment: Record<string, string> = {},
  options: Omit<Options, 'environment'> = {},
): Promise<Serving> {
  const running = start(['serve'], {
    ...options,
    environment: { PORT: '0', DATABASE_URL: `file:${databasePath}`, ...environment },
  });
  const greeting = await running.printed('"msg":"listening"');
  return { ...running, greeting, url: /"url":"([^"]+)"/.exec(greeting)?.[1] ?? '' };
}
