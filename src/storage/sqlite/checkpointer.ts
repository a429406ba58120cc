import { type ResourceLimits, Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import type { ToThread } from './checkpoint.ts';
import type { Connection } from './open.ts';

/** How many pages the write-ahead log holds before they are folded into the file. */
const pagesAtOnce = 2_000;
/** From so many on, whoever commits does it, as SQLite does by itself: if the thread has failed. */
const pagesFromWhichCommitsDo = 8_000;
/** The thread has next to nothing to remember. */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 };
const program = threadModule('storage/sqlite/checkpoint');

/**
 * Has the write-ahead log folded into the file by a thread of its own. Whoever commits would otherwise do it now and
 * then, and hold the event loop until the disk has all of it: ten times as long as for a commit.
 */
export class Checkpointer {
  readonly #path: string;
  readonly #writing: Connection;
  readonly #look: { get(): unknown };
  readonly #onFailure: (error: unknown) => void;
  #thread: Worker | undefined;
  /** Whether the thread is at it, or has failed while it was: then it is not asked again. */
  #isBusy = false;

  /**
   * @param writing the connection that commits
   * @param onFailure told when there is no thread, or no more: from then on those who commit do its work
   */
  constructor(path: string, writing: Connection, onFailure: (error: unknown) => void = () => {}) {
    this.#path = path;
    this.#writing = writing;
    this.#onFailure = onFailure;
    // Nor does a commit fold in what has gathered while somebody read for long, a backup for instance. (One that
    // erases does, since the log still has what was erased: see commit-watch.ts.)
    writing.pragma('wal_autocheckpoint = 0');
    this.#look = writing.prepare('PRAGMA wal_checkpoint(NOOP)');
  }

  /** A group is committed, or undone. A look at the log takes some microseconds. */
  readonly committed = (): void => {
    if (this.#isBusy || !this.#isDue()) return;
    this.#isBusy = true;
    this.#thread ??= this.#start();
    this.#thread?.postMessage('fold' satisfies ToThread);
  };

  async close(): Promise<void> {
    const thread = this.#thread;
    if (thread === undefined) return;
    const ended = new Promise((resolve) => thread.once('exit', resolve));
    thread.ref();
    thread.postMessage('close' satisfies ToThread);
    await ended;
  }

  #isDue(): boolean {
    try {
      const { log, checkpointed } = this.#look.get() as { log: number; checkpointed: number };
      return log >= pagesAtOnce && log > checkpointed;
    } catch {
      return false; // a disk that fails: the next commit says so
    }
  }

  /**
   * The first time that there is anything to do: most programs that open a file write little into it.
   * @returns undefined when the system has no thread to give
   */
  #start(): Worker | undefined {
    let thread: Worker;
    try {
      thread = new Worker(program, { workerData: this.#path, resourceLimits: memory });
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
    thread.on('message', () => {
      this.#isBusy = false;
    });
    thread.on('error', (error) => this.#fail(error));
    thread.on('exit', () => {
      this.#thread = undefined;
    });
    thread.unref();
    return thread;
  }

  #fail(error: unknown): void {
    this.#writing.pragma(`wal_autocheckpoint = ${pagesFromWhichCommitsDo}`);
    this.#onFailure(error);
  }
}
