import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

/** A time that was `startMs` when the wall's clock showed `wallMs`, and passes so many times as fast. */
export interface FastTime {
  readonly startMs: number;
  readonly wallMs: number;
  readonly speed: number;
}

export interface Serve {
  readonly databasePath: string;
  readonly time: FastTime;
}

export interface Advance {
  readonly advanceMs: number;
}

export interface FastServer {
  readonly url: string;
  /** How many attempts it has made, by its log. */
  attempts(): number;
  /** Moves its clock on, and lets it look for what is due by then. */
  advance(ms: number): Promise<void>;
  kill(): Promise<void>;
}

const program = fileURLToPath(new URL('fast-server.mts', import.meta.url));

/** A process that has loaded everything and serves when it is told to. What a test leaves is killed with it. */
export class FastProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #ready: Promise<unknown>;
  #attempts = 0;

  constructor(compileCache: string) {
    this.#child = fork(program, [], {
      execPath: process.execPath,
      env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: compileCache },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    let rest = '';
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      this.#attempts += lines.filter((line) => line.includes('"webhook attempt"')).length;
    });
    this.#ended = once(this.#child, 'exit');
    this.#ready = once(this.#child, 'message');
    onTestFinished(() => this.kill());
  }

  /** @returns undefined if it was killed before it served */
  async serve(serve: Serve): Promise<FastServer | undefined> {
    await this.#ready;
    this.#child.send(serve);
    const [message] = (await Promise.race([once(this.#child, 'message'), this.#ended])) as [{ url?: string } | null];
    const url = message?.url;
    if (url === undefined) return undefined;
    return {
      url,
      attempts: () => this.#attempts,
      advance: (ms) => this.#advance(ms),
      kill: () => this.kill(),
    };
  }

  async #advance(advanceMs: number): Promise<void> {
    this.#child.send({ advanceMs } satisfies Advance);
    await once(this.#child, 'message');
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
