import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

/** A request that is sent again and again. */
export interface Request {
  readonly face: 'rest' | 'graphql';
  readonly text: string;
  /** Whether each success of it leaves something behind. */
  readonly writes: boolean;
}

export interface Load {
  readonly url: string;
  /** Sent in turn. */
  readonly requests: readonly Request[];
  readonly seconds: number;
  /** In a closed loop: how many clients there are, each of which asks again when it is answered. */
  readonly connections?: number;
  /** In an open loop: how many requests there are each second, whatever becomes of them. */
  readonly perSecond?: number;
}

interface Quantiles {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface LoadResult {
  readonly served: number;
  readonly servedPerSecond: number;
  /** How many of them have left something behind. */
  readonly written: number;
  /** How many were answered with 503. */
  readonly refused: number;
  /** All other ends, and how often there was each. */
  readonly others: Readonly<Record<string, number>>;
  /** What could not be sent, because all connections were taken. */
  readonly unsent: number;
  /** A refusal that was not as documented. */
  readonly undocumented: string | undefined;
  /** From when they were due to their end, in milliseconds. */
  readonly servedMs: Quantiles;
  readonly refusedMs: Quantiles;
}

const program = fileURLToPath(new URL('load.mts', import.meta.url));

/** A process that puts loads on servers, one after the other. It is ended with the test. */
export class LoadProcess {
  readonly #child: ChildProcess;
  readonly #ready: Promise<unknown>;

  constructor() {
    this.#child = fork(program, [], {
      execPath: process.execPath,
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#ready = once(this.#child, 'message');
    onTestFinished(() => void this.#child.kill('SIGKILL'));
  }

  async run(load: Load): Promise<LoadResult> {
    await this.#ready;
    this.#child.send(load);
    const [result] = (await once(this.#child, 'message')) as [LoadResult];
    return result;
  }
}
