import { type ResourceLimits, Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import type { Answer, Request } from './checkpoint.ts';
import type { Connection } from './open.ts';

/** How many pages the write-ahead log holds before they are folded into the file. */
const pagesAtOnce = 2_000;
/** From so many on, whoever commits does it, as SQLite does by itself: the thread has failed, or does not keep up. */
const pagesAtMost = 8_000;
/** It has next to nothing to remember. */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 };
const program = threadModule('storage/sqlite/checkpoint');

/**
 * Has the write-ahead log folded into the file by a thread of its own. Whoever commits would otherwise do it now and
 * then, and hold the event loop until the disk has all of it: ten times as long as for a commit.
 */
export class Checkpointer {
  readonly #path: string;
  readonly #look: { get(): unknown };
  #thread: Worker | undefined;
  /** Whether the thread is at it, or never will be again. */
  #isBusy = false;
  #isClosing = false;

  /** @param writing the connection that commits */
  constructor(path: string, writing: Connection) {
    this.#path = path;
    writing.pragma(`wal_autocheckpoint = ${pagesAtMost}`);
    this.#look = writing.prepare('PRAGMA wal_checkpoint(NOOP)');
  }

  /** A group is committed, or undone. A look at the log takes some microseconds. */
  readonly committed = (): void => {
    if (!this.#isBusy && this.#isDue()) this.#ask('fold');
  };

  async close(): Promise<void> {
    this.#isClosing = true;
    const thread = this.#thread;
    if (thread === undefined) return;
    const ended = new Promise((resolve) => thread.once('exit', resolve));
    thread.ref();
    this.#ask('close');
    await ended;
  }

  #isDue(): boolean {
    try {
      const { log, checkpointed } = this.#look.get() as { log: number; checkpointed: number };
      return log >= pagesAtOnce && log > checkpointed;
    } catch {
      return false; // another process keeps it from looking
    }
  }

  #ask(request: Request): void {
    this.#isBusy = true;
    this.#thread ??= this.#start();
    this.#thread.postMessage(request);
  }

  /** The first time that there is anything to do: most programs that open a file write little into it. */
  #start(): Worker {
    const thread = new Worker(program, { workerData: this.#path, resourceLimits: memory });
    thread.on('message', (answer: Answer) => {
      if (this.#isClosing) return;
      this.#isBusy = false;
      if (answer === 'folded') this.committed(); // meanwhile, others were
    });
    // Then it stays busy, and commits do the work.
    thread.on('error', () => {});
    thread.on('exit', () => {
      this.#thread = undefined;
    });
    thread.unref();
    return thread;
  }
}
