import { type ResourceLimits, Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import type { Connection } from './open.ts';

/** The size of the write-ahead log that starts a checkpoint, in pages. */
const checkpointPages = 2_000;
/** If the thread has failed: the size from which SQLite checkpoints the log within commits, as it does by default. */
const fallbackPages = 8_000;
/** How soon to try again when another process keeps the write-ahead log from being emptied. */
const emptyRetryMs = 50;
/** The thread keeps next to nothing in memory. */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 };
const program = threadModule('storage/sqlite/checkpoint-thread');

/** What the thread is asked to do. */
export type ToThread = 'checkpoint' | 'empty' | 'close';
/** The answer to each 'checkpoint' and 'empty': whether the log is empty now. */
export type FromThread = boolean;

/**
 * Has a thread checkpoint the write-ahead log, and empty it after an erasure. Otherwise a commit would do it now and
 * then, and block the event loop until all of it is on the disk: ten times as long as for a commit alone.
 */
export class Checkpointer {
  readonly #path: string;
  readonly #writing: Connection;
  readonly #logState: { get(): unknown };
  readonly #onFailure: (error: unknown) => void;
  #thread: Worker | undefined;
  /** What the thread is doing. */
  #asked: Exclude<ToThread, 'close'> | undefined;
  /** Whether it has failed. It is not asked again then. */
  #hasFailed = false;
  /** Whether something was erased since it was asked to empty the log. */
  #hasErased = false;
  #emptyRetry: NodeJS.Timeout | undefined;
  #isClosed = false;

  /**
   * @param writing the connection that commits
   * @param onFailure called when the thread cannot be started, or has failed: from then on commits do its work
   */
  constructor(path: string, writing: Connection, onFailure: (error: unknown) => void = () => {}) {
    this.#path = path;
    this.#writing = writing;
    this.#onFailure = onFailure;
    // Not even for what has piled up during a long read, such as a backup, does a commit checkpoint.
    writing.pragma('wal_autocheckpoint = 0');
    this.#logState = writing.prepare('PRAGMA wal_checkpoint(NOOP)');
  }

  /** To be called after each group, committed or rolled back. Asking for the state of the log takes microseconds. */
  readonly committed = (): void => {
    if (this.#asked === undefined && !this.#hasFailed && this.#isDue()) this.#ask('checkpoint');
  };

  /** Has the log emptied, which still holds what was erased: at once, or as soon as other processes allow it. */
  readonly empty = (): void => {
    this.#hasErased = this.#asked !== undefined; // then it is done after that
    if (this.#hasErased) return;
    clearTimeout(this.#emptyRetry);
    if (!this.#hasFailed) this.#ask('empty');
    else if (!emptyLog(this.#writing)) this.#emptyLater();
  };

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#emptyRetry);
    const thread = this.#thread;
    if (thread === undefined) return;
    const ended = new Promise((resolve) => thread.once('exit', resolve));
    thread.ref();
    thread.postMessage('close' satisfies ToThread);
    await ended;
  }

  #ask(request: Exclude<ToThread, 'close'>): void {
    this.#asked = request;
    this.#thread ??= this.#start();
    this.#thread?.postMessage(request satisfies ToThread);
  }

  #answered(isEmpty: FromThread): void {
    const hasToTryAgain = this.#asked === 'empty' && !isEmpty;
    this.#asked = undefined;
    if (this.#hasErased) this.empty();
    else if (hasToTryAgain) this.#emptyLater();
  }

  #emptyLater(): void {
    if (!this.#isClosed) this.#emptyRetry = setTimeout(this.empty, emptyRetryMs).unref();
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
    thread.on('message', (isEmpty: FromThread) => this.#answered(isEmpty));
    thread.on('error', (error) => this.#fail(error));
    thread.on('exit', () => {
      this.#thread = undefined;
    });
    thread.unref();
    return thread;
  }

  #fail(error: unknown): void {
    this.#hasFailed = true;
    this.#answered(false);
    this.#writing.pragma(`wal_autocheckpoint = ${fallbackPages}`);
    this.#onFailure(error);
  }
}

/**
 * Checkpoints the write-ahead log and empties it.
 * @returns whether it is empty; it cannot be emptied while another connection reads or writes
 */
export function emptyLog(connection: Connection): boolean {
  try {
    const [result] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
    return result?.busy === 0;
  } catch {
    return false;
  }
}
