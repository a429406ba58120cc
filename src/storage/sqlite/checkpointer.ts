import { type ResourceLimits, Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import type { ToThread } from './checkpoint.ts';
import type { Connection } from './open.ts';

/** The size of the write-ahead log that starts a checkpoint, in pages. */
const checkpointPages = 2_000;
/** If the thread has failed: the size from which SQLite checkpoints the log within commits, as it does by default. */
const fallbackPages = 8_000;
/** The thread keeps next to nothing in memory. */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 };
const program = threadModule('storage/sqlite/checkpoint');

/**
 * Has a thread checkpoint the write-ahead log. Otherwise a commit would do it now and then, and block the event loop
 * until all of it is on the disk: ten times as long as for a commit alone.
 */
export class Checkpointer {
  readonly #path: string;
  readonly #writing: Connection;
  readonly #logState: { get(): unknown };
  readonly #onFailure: (error: unknown) => void;
  #thread: Worker | undefined;
  /** Whether the thread is checkpointing. It stays true if the thread fails meanwhile: then it is not asked again. */
  #isBusy = false;

  /**
   * @param writing the connection that commits
   * @param onFailure called when the thread cannot be started, or has failed: from then on commits do its work
   */
  constructor(path: string, writing: Connection, onFailure: (error: unknown) => void = () => {}) {
    this.#path = path;
    this.#writing = writing;
    this.#onFailure = onFailure;
    // Not even for what has piled up during a long read, such as a backup, does a commit checkpoint. (One that erases
    // something does, because the log still holds what was erased: see commit-watch.ts.)
    writing.pragma('wal_autocheckpoint = 0');
    this.#logState = writing.prepare('PRAGMA wal_checkpoint(NOOP)');
  }

  /** To be called after each group, committed or rolled back. Asking for the state of the log takes microseconds. */
  readonly committed = (): void => {
    if (this.#isBusy || !this.#isDue()) return;
    this.#isBusy = true;
    this.#thread ??= this.#start();
    this.#thread?.postMessage('checkpoint' satisfies ToThread);
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
      const { log, checkpointed } = this.#logState.get() as { log: number; checkpointed: number };
      return log >= checkpointPages && log > checkpointed;
    } catch {
      return false; // the disk is failing: the next commit reports it
    }
  }

  /**
   * Starts the thread, not before there is anything to do: most programs that open a file write little to it.
   * @returns undefined when the system cannot start one
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
    this.#writing.pragma(`wal_autocheckpoint = ${fallbackPages}`);
    this.#onFailure(error);
  }
}
