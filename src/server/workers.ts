import { type ChildProcess, fork } from 'node:child_process';
import { createRequire } from 'node:module';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import { type MetricsSnapshot, mergedMetrics, metricsText } from '../telemetry/metrics.ts';
import { requireFree } from './listen.ts';
import { untilAskedToStop } from './stop.ts';

// Several processes that serve one file behind one port, and the one that starts them. It only supervises: each worker
// listens by itself, and the kernel shares out the connections. A worker that ends is replaced. One of them leads: it does
// what only one should, such as sending webhooks.

/** What a worker is told. */
export type Order =
  | { readonly to: 'serve'; readonly number: number; readonly port: number; readonly leads: boolean }
  | { readonly to: 'lead' }
  /** It is its turn to write. */
  | { readonly to: 'write' }
  /** Another one waits for its turn. */
  | { readonly to: 'yield' }
  | { readonly to: 'report' }
  /** The answer to a scrape: the metrics of all. */
  | { readonly to: 'show'; readonly text: string };

/** What a worker tells. */
export type Notice =
  | { readonly of: 'start' }
  | { readonly of: 'listening'; readonly port: number }
  | { readonly of: 'write'; readonly is: 'due' | 'done' }
  | { readonly of: 'report'; readonly metrics: MetricsSnapshot }
  | { readonly of: 'scrape' };

/** A worker that ends sooner after its start is replaced only then. */
const restartMs = 1_000;
/** How long a scrape waits for the metrics of each worker: one that is stuck must not hide the others. */
const reportMs = 1_000;

/**
 * Starts workers and replaces those that end, until the process is asked to stop.
 * @returns the exit code, which is that of the first worker if it ends before it listens
 * @throws OperatorError if the address cannot be listened on
 */
export async function superviseWorkers(config: Config, log: Logger): Promise<number> {
  // Several sockets may listen on a port if each of them allows it: nobody else would be told that it is in use.
  await requireFree(config);
  const supervisor = new Supervisor(log, config.port);
  process.on('exit', () => supervisor.signal('SIGKILL')); // at the second signal, which ends this process at once
  void untilAskedToStop(config).then(() => supervisor.stop());
  return await supervisor.run(config.workers);
}

class Supervisor {
  readonly #log: Logger;
  /** Where links lead to now: after an upgrade that only lacks the restart, they lead to another version. */
  readonly #program = createRequire(import.meta.url).resolve(process.argv[1] ?? '');
  readonly #turns = new WriteTurns();
  readonly #scrapes = new Scrapes();
  readonly #workers = new Map<number, ChildProcess>();
  #port: number;
  #leader: number | undefined;
  #isStopping = false;

  constructor(log: Logger, port: number) {
    this.#log = log;
    this.#port = port;
  }

  /** @returns the highest exit code, once all have ended */
  async run(count: number): Promise<number> {
    // The first one creates and migrates the file, and finds out which port it is. If it cannot, no other could.
    const first = this.#start(1);
    const failed = await Promise.race([first.listening, first.ended]);
    if (failed !== undefined) return failed;
    if (this.#isStopping) return await first.ended;
    const others = Array.from({ length: count - 1 }, (_, index) => this.#keep(index + 2));
    return Math.max(...(await Promise.all([this.#keep(1, first), ...others])));
  }

  stop(): void {
    this.#isStopping = true;
    this.signal('SIGTERM');
  }

  signal(name: NodeJS.Signals): void {
    for (const child of this.#workers.values()) child.kill(name);
  }

  /** @returns the exit code of the last process that was this worker */
  async #keep(worker: number, started = this.#start(worker)): Promise<number> {
    for (let current = started; ; current = this.#start(worker)) {
      const startedMs = performance.now();
      const code = await current.ended;
      if (this.#isStopping) return code;
      const signal = current.signal();
      this.#log.error({ worker, ...(signal ? { signal } : { code }) }, 'a worker has ended and is replaced');
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, restartMs - (performance.now() - startedMs))));
      if (this.#isStopping) return 0; // it was stopped in order while there was no process
    }
  }

  #start(worker: number): Started {
    let child: ChildProcess;
    try {
      child = fork(this.#program, ['worker']);
    } catch (error) {
      // Some errors are thrown, others emitted. It has ended at once, and is tried again like one that did.
      this.#log.error({ err: error, worker }, 'a worker cannot be started');
      return { listening: new Promise(() => {}), ended: Promise.resolve(1), signal: () => null };
    }
    const leads = this.#leader === undefined;
    const tell = (order: Order): void => send(child, order);
    this.#workers.set(worker, child);
    if (leads) this.#leader = worker;
    const listening = new Promise<undefined>((resolve) => {
      child.on('message', (notice: Notice) => {
        if (notice.of === 'start') tell({ to: 'serve', number: worker, port: this.#port, leads });
        else if (notice.of === 'write') this.#turns[notice.is](tell);
        else if (notice.of === 'report') this.#scrapes.reported(tell, notice.metrics);
        else if (notice.of === 'scrape') this.#scrapes.scrape(tell);
        else {
          this.#port = notice.port;
          this.#scrapes.joined(tell);
          resolve(undefined);
        }
      });
    });
    const ended = new Promise<number>((resolve) => {
      const left = (code: number | null): void => {
        this.#workers.delete(worker);
        this.#turns.left(tell);
        this.#scrapes.left(tell);
        if (this.#leader === worker && !this.#isStopping) this.#appoint();
        resolve(code ?? (this.#isStopping ? 0 : 1));
      };
      child.once('close', left);
      child.on('error', (error) => {
        this.#log.error({ err: error, worker }, 'a worker cannot be started');
        if (child.pid === undefined) left(1);
      });
    });
    return { listening, ended, signal: () => child.signalCode };
  }

  /** Lets another one lead. If there is none, the next that is started will. */
  #appoint(): void {
    const [[worker, child] = []] = this.#workers;
    this.#leader = worker;
    if (child !== undefined) send(child, { to: 'lead' });
  }
}

/** That a worker is just ending is no error: its end is noticed. */
function send(worker: ChildProcess, order: Order): void {
  if (worker.connected) worker.send(order, () => {});
}

interface Started {
  readonly listening: Promise<undefined>;
  /** Resolves with the exit code, which is 1 if a signal has ended it before it was asked to stop. */
  readonly ended: Promise<number>;
  readonly signal: () => NodeJS.Signals | null;
}

/** How a worker is told something; it also stands for the worker. */
type Tell = (order: Order) => void;

/**
 * Lets the workers take turns in writing, in the order in which they ask. With SQLite's lock alone each would try again
 * after random times, and some would wait for long. The lock still keeps them apart: what a lost turn costs is time.
 */
class WriteTurns {
  #writing: Tell | undefined;
  #waiting: Tell[] = [];

  due(worker: Tell): void {
    if (this.#writing === undefined) {
      this.#give(worker);
      return;
    }
    if (this.#waiting.length === 0) this.#writing({ to: 'yield' });
    this.#waiting.push(worker);
  }

  done(worker: Tell): void {
    if (this.#writing !== worker) return;
    this.#writing = undefined;
    const next = this.#waiting.shift();
    if (next !== undefined) this.#give(next);
  }

  left(worker: Tell): void {
    this.#waiting = this.#waiting.filter((each) => each !== worker);
    this.done(worker);
  }

  #give(worker: Tell): void {
    this.#writing = worker;
    worker({ to: 'write' });
    if (this.#waiting.length > 0) worker({ to: 'yield' });
  }
}

/** Collects the metrics of all workers when one of them is scraped. What those have counted that have ended still counts. */
class Scrapes {
  /** The workers, with what each has reported last. */
  readonly #reports = new Map<Tell, MetricsSnapshot>();
  #ended: Promise<MetricsSnapshot> = Promise.resolve([]);
  readonly #asking = new Set<Tell>();
  readonly #missing = new Set<Tell>();
  #timer: NodeJS.Timeout | undefined;

  joined(worker: Tell): void {
    this.#reports.set(worker, []);
  }

  left(worker: Tell): void {
    const counts = (this.#reports.get(worker) ?? []).filter(({ type }) => String(type) !== 'gauge');
    this.#reports.delete(worker);
    this.#asking.delete(worker);
    this.#ended = this.#ended.then((ended) => mergedMetrics([ended, counts]));
    this.#heardOf(worker);
  }

  scrape(worker: Tell): void {
    this.#asking.add(worker);
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => this.#answer(), reportMs);
    for (const each of this.#reports.keys()) {
      this.#missing.add(each);
      each({ to: 'report' });
    }
  }

  reported(worker: Tell, metrics: MetricsSnapshot): void {
    if (this.#reports.has(worker)) this.#reports.set(worker, metrics);
    this.#heardOf(worker);
  }

  #heardOf(worker: Tell): void {
    if (this.#missing.delete(worker) && this.#missing.size === 0) this.#answer();
  }

  #answer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#missing.clear();
    const asking = [...this.#asking];
    this.#asking.clear();
    const reports = [...this.#reports.values()];
    void this.#ended
      .then((ended) => metricsText([ended, ...reports]))
      .then((text) => {
        for (const worker of asking) worker({ to: 'show', text });
      });
  }
}
