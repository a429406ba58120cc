import { setImmediate as nextTurn } from 'node:timers/promises';
import { Pace } from '../../runtime/pace.ts';
import { asDomainError, isBusy, pause, retryDelayMs, unavailable } from './errors.ts';
import type { Connection } from './open.ts';
import { Slices } from './slices.ts';
import type { WorkScope } from './transaction-scope.ts';

const maxGroupSize = 128;
/** How many promises settle before the event loop turns, so that other requests need not wait for all of a group. */
const settledAtOnce = 4;

export interface WriterOptions {
  /** How long a unit of work waits for a lock that another process holds. */
  readonly busyTimeoutMs?: number;
  /** How long a group may run before it commits. With less, throughput is lost to more commits. */
  readonly maxGroupMs?: number;
  /** How long a group may run before it yields to the event loop, so that reads need not wait for all of it. */
  readonly maxSliceMs?: number;
  /** Called at the beginning of each transaction. If it throws, all queued units of work fail with that error. */
  readonly onBegin?: () => void;
  /** Called after each group, once it is committed or rolled back, before its promises settle. */
  readonly onCommit?: () => void;
  /** Called after each group with its number of units of work, and how long it held the event loop, commit included. */
  readonly onGroup?: ((works: number, durationMs: number) => void) | undefined;
}

interface Job<Tx> {
  readonly work: (tx: Tx) => Promise<unknown>;
  readonly deadlineMs: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome = { readonly value: unknown } | { readonly error: unknown };

/**
 * The single writer. Units of work queue, and those that wait are committed as a group by one `BEGIN IMMEDIATE …
 * COMMIT`, each in its own savepoint unless it is alone. No promise settles before the commit. So one wait for the disk
 * serves everything that arrived during the last one. Between units of work the event loop may turn: what is not
 * committed is visible on this connection only, which nothing else uses.
 *
 * A unit of work awaits nothing but its transaction, and therefore ends within microtasks. If it awaits anything else,
 * which is a bug, its scope ends before the event loop turns, and it is rolled back and fails.
 */
export class Writer<Tx> {
  readonly #connection: Connection;
  readonly #steps: ReturnType<typeof prepareSteps>;
  readonly #transactionFor: (scope: WorkScope) => Tx;
  readonly #busyTimeoutMs: number;
  readonly #maxGroupMs: number;
  readonly #maxSliceMs: number;
  readonly #onBegin: () => void;
  readonly #onCommit: () => void;
  readonly #onGroup: (works: number, durationMs: number) => void;
  readonly #pace = new Pace();
  #queue: Job<Tx>[] = [];
  #running = false;
  #closing = false;
  #idle: (() => void)[] = [];

  /**
   * @param transactionFor makes the transaction of a unit of work, see `scoped`: it must throw once the scope has
   * ended, and end the scope when the connection is no longer in a transaction
   */
  constructor(
    connection: Connection,
    transactionFor: (scope: WorkScope) => Tx,
    {
      busyTimeoutMs = 5_000,
      maxGroupMs = 4,
      maxSliceMs = 0.5,
      onBegin = () => {},
      onCommit = () => {},
      onGroup = () => {},
    }: WriterOptions = {},
  ) {
    this.#connection = connection;
    this.#steps = prepareSteps(connection);
    this.#transactionFor = transactionFor;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#maxGroupMs = maxGroupMs;
    this.#maxSliceMs = maxSliceMs;
    this.#onBegin = onBegin;
    this.#onCommit = onCommit;
    this.#onGroup = onGroup;
  }

  /** How many units of work are queued. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** How long the queue is expected to take, if no other process holds the lock. */
  get backlogMs(): number {
    return this.#queue.length * this.#pace.eachMs;
  }

  write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    if (this.#closing) return Promise.reject(unavailable('The service is shutting down.'));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        work,
        deadlineMs: performance.now() + this.#busyTimeoutMs,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
      this.#wake();
    });
  }

  /** Refuses new units of work, and resolves when the queued ones are done. */
  close(): Promise<void> {
    this.#closing = true;
    if (!this.#running) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #wake(): void {
    if (this.#running) return;
    this.#running = true;
    void nextTurn().then(() => this.#drain());
  }

  /** Commits group after group, with a turn of the event loop in between, until the queue is empty. Never rejects. */
  async #drain(): Promise<void> {
    for (let attempt = 0; this.#queue.length > 0; ) {
      const busy = this.#begin();
      if (busy === undefined) {
        attempt = 0;
        const startedMs = performance.now();
        const done = await this.#commitGroup(this.#queue.splice(0, maxGroupSize));
        await nextTurn();
        this.#pace.add(done, performance.now() - startedMs);
      } else {
        this.#expire(busy);
        await pause(retryDelayMs(attempt++));
      }
    }
    this.#running = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** @returns undefined when a transaction is open, else the error for which none could be opened */
  #begin(): unknown {
    try {
      this.#steps.begin.run();
      this.#onBegin();
      return undefined;
    } catch (error) {
      this.#rollback();
      return error;
    }
  }

  /** Fails the jobs that have waited too long; all of them if waiting is no use. */
  #expire(error: unknown): void {
    const now = isBusy(error) ? performance.now() : Number.POSITIVE_INFINITY;
    const waiting = this.#queue;
    this.#queue = waiting.filter((job) => job.deadlineMs > now);
    for (const job of waiting) if (job.deadlineMs <= now) job.reject(asDomainError(error));
  }

  /** @returns how many of the group are done; the others are back in the queue */
  async #commitGroup(group: readonly Job<Tx>[]): Promise<number> {
    const slices = new Slices(this.#maxSliceMs);
    const alone = group.length === 1; // it can roll back the whole transaction, and needs no savepoint
    const done: [Job<Tx>, Outcome][] = [];
    for (const [index, job] of group.entries()) {
      await slices.yieldIfOver();
      const outcome = await (alone ? this.#run(job) : this.#runInSavepoint(job));
      if (!this.#connection.inTransaction) {
        // SQLite rolled everything back, as it does on SQLITE_FULL and other errors: nothing of the group was written.
        await this.#repeatAlone(group, outcome);
        return group.length;
      }
      done.push([job, outcome]);
      if (slices.heldMs > this.#maxGroupMs) {
        this.#queue.unshift(...group.slice(index + 1));
        break;
      }
    }
    const isLarge = done.length > 2 * settledAtOnce;
    if (isLarge) await slices.yield(); // the commit of a large group takes longer than a slice
    const failed = alone && done.some(([, outcome]) => 'error' in outcome);
    const failure = failed ? this.#rollback() : this.#commit();
    this.#onCommit();
    this.#onGroup(done.length, slices.heldMs);
    for (const [index, [job, outcome]] of done.entries()) {
      if ((index > 0 || isLarge) && index % settledAtOnce === 0) await nextTurn();
      settle(job, failure ?? outcome);
    }
    return done.length;
  }

  /** Repeats a group whose transaction was lost, each job in its own transaction. */
  async #repeatAlone(group: readonly Job<Tx>[], lost: Outcome): Promise<void> {
    if (group.length === 1 && group[0] !== undefined) {
      settle(group[0], failureOf(lost));
      return;
    }
    for (const job of group) {
      await nextTurn();
      const busy = this.#begin();
      if (busy === undefined) await this.#commitGroup([job]);
      else settle(job, failureOf({ error: busy }));
    }
  }

  #run({ work }: Job<Tx>): Promise<Outcome> {
    const scope: WorkScope = { ended: false };
    return withinMicrotasks(() => work(this.#transactionFor(scope)), scope);
  }

  async #runInSavepoint(job: Job<Tx>): Promise<Outcome> {
    try {
      this.#steps.savepoint.run();
      const outcome = await this.#run(job);
      if (this.#connection.inTransaction) {
        if ('error' in outcome) this.#steps.undo.run();
        this.#steps.release.run();
      }
      return outcome;
    } catch (error) {
      // Without its savepoint a job can be neither kept nor rolled back alone, so the whole group is void.
      this.#rollback();
      return { error };
    }
  }

  /** @returns undefined when the transaction is durable, else the failure of everything in it */
  #commit(): { readonly error: unknown } | undefined {
    try {
      this.#steps.commit.run();
      return undefined;
    } catch (error) {
      this.#rollback();
      return failureOf({ error });
    }
  }

  #rollback(): undefined {
    try {
      if (this.#connection.inTransaction) this.#connection.exec('ROLLBACK');
    } catch {
      // SQLite had rolled back already, so there is no transaction any more.
    }
  }
}

function prepareSteps(connection: Connection) {
  return {
    begin: connection.prepare('BEGIN IMMEDIATE'),
    savepoint: connection.prepare('SAVEPOINT work'),
    undo: connection.prepare('ROLLBACK TO work'),
    release: connection.prepare('RELEASE work'),
    commit: connection.prepare('COMMIT'),
  };
}

function settle<Tx>(job: Job<Tx>, outcome: Outcome): void {
  if ('error' in outcome) job.reject(asDomainError(outcome.error));
  else job.resolve(outcome.value);
}

/** A lost transaction is never the fault of a unit of work, so it is UNAVAILABLE whatever was thrown. */
function failureOf(outcome: Outcome): { readonly error: unknown } {
  const cause = 'error' in outcome ? outcome.error : new Error('SQLite ended the transaction');
  const error = asDomainError(cause);
  return { error: error === cause ? unavailable('The storage could not complete the write.', cause) : error };
}

/**
 * Runs a unit of work until it settles, or fails it if it is pending when no microtask is left. Then its scope ends.
 */
function withinMicrotasks(work: () => Promise<unknown>, scope: WorkScope): Promise<Outcome> {
  return new Promise((resolve) => {
    const end = (outcome: Outcome): void => {
      scope.ended = true;
      resolve(outcome);
    };
    // A tick that is scheduled by a microtask runs right after the last microtask, and before any timer or I/O. An
    // immediate would run too late: a timer that is due by then could let the work go on.
    queueMicrotask(() =>
      process.nextTick(() => {
        if (!scope.ended) end({ error: new Error('A storage work awaited something other than its transaction') });
      }),
    );
    try {
      work().then(
        (value) => end({ value }),
        (error: unknown) => end({ error }),
      );
    } catch (error) {
      end({ error });
    }
  });
}
