import { setImmediate as nextTurn } from 'node:timers/promises';
import { Pace } from '../../domain/pace.ts';
import { pause, retryDelayMs } from './busy-retry.ts';
import { asDomainError, isBusy, unavailable } from './errors.ts';
import type { Connection } from './open.ts';
import { Slices } from './slices.ts';
import type { WorkScope } from './transaction-scope.ts';

const maxGroupSize = 128;
/** So many answers are given before the loop turns: what is asked in the meantime need not wait for all of them. */
const settledAtOnce = 4;

export interface WriterOptions {
  /** How long a work waits for a lock that another process holds. */
  readonly busyTimeoutMs?: number;
  /** How long the works of one group may take before it commits. With less, more commits cost throughput. */
  readonly maxGroupMs?: number;
  /** After so long within a group the event loop turns, so that who only reads need not wait for all of it. */
  readonly maxSliceMs?: number;
  /** Called at the beginning of each transaction. What it throws is what all works end with that wait. */
  readonly onBegin?: () => void;
  /** Called after each group, once it is committed or undone, before its promises settle. */
  readonly onCommit?: () => void;
  /** Told how many works a group held, and how long it took with its commit. */
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
 * The single writer. Works queue, and what waits goes together into one `BEGIN IMMEDIATE … COMMIT`, each
 * work in a savepoint of its own unless it is alone, and no promise settles before the commit. So one wait
 * for the disk serves all that came meanwhile. Between works the event loop may turn: what is not committed
 * can be seen on this connection only, over which nobody else reads or writes.
 *
 * A work awaits nothing but its transaction and therefore ends within microtasks. One that does not
 * is a fault of the program: before the event loop turns, it is revoked, undone and failed.
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
   * @param transactionFor makes the transaction that a work is given: it must throw once its lease is
   * revoked, and revoke it when the connection is no longer in a transaction
   */
  constructor(
    connection: Connection,
    transactionFor: (scope: WorkScope) => Tx,
    {
      busyTimeoutMs = 5_000,
      maxGroupMs = 2,
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

  /** How many works wait for their turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** How long those that wait will take, as far as it is up to this process: a lock of another one is not foreseen. */
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

  /** Refuses new works and resolves when those that wait are done. */
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

  /** Commits group after group, a turn of the loop between them, until nothing waits. Never rejects. */
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

  /** @returns undefined once a transaction is open, or why none could be opened */
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

  /** Fails the works that have waited long enough; all of them when waiting is of no use. */
  #expire(error: unknown): void {
    const now = isBusy(error) ? performance.now() : Number.POSITIVE_INFINITY;
    const waiting = this.#queue;
    this.#queue = waiting.filter((job) => job.deadlineMs > now);
    for (const job of waiting) if (job.deadlineMs <= now) job.reject(asDomainError(error));
  }

  /** @returns how many of the group were done; the others wait again */
  async #commitGroup(group: readonly Job<Tx>[]): Promise<number> {
    const slices = new Slices(this.#maxSliceMs);
    const alone = group.length === 1; // there is nobody whom undoing the whole transaction could hurt
    const done: [Job<Tx>, Outcome][] = [];
    for (const [index, job] of group.entries()) {
      await slices.yieldIfOver();
      const outcome = await (alone ? this.#run(job) : this.#runInSavepoint(job));
      if (!this.#connection.inTransaction) {
        // SQLite rolled everything back (SQLITE_FULL and others do): nothing of the group happened.
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
    if (isLarge) await slices.yield(); // its commit is a slice of its own: it takes longer than they do
    const undone = alone && done.some(([, outcome]) => 'error' in outcome);
    const failure = undone ? this.#rollback() : this.#commit();
    this.#onCommit();
    this.#onGroup(done.length, slices.heldMs);
    for (const [index, [job, outcome]] of done.entries()) {
      if ((index > 0 || isLarge) && index % settledAtOnce === 0) await nextTurn();
      settle(job, failure ?? outcome);
    }
    return done.length;
  }

  /** The works of a group whose transaction was lost, each in a transaction of its own. */
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
      // Without its savepoint a work can be neither kept nor undone alone: the group is void.
      this.#rollback();
      return { error };
    }
  }

  /** @returns undefined when it is durable, or the failure of everything in it */
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
      // It failed because SQLite had rolled back already; the connection is out of the transaction.
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

/** A lost transaction is never the work's own doing, so it is UNAVAILABLE whatever was thrown. */
function failureOf(outcome: Outcome): { readonly error: unknown } {
  const cause = 'error' in outcome ? outcome.error : new Error('SQLite ended the transaction');
  const error = asDomainError(cause);
  return { error: error === cause ? unavailable('The storage could not complete the write.', cause) : error };
}

/** Runs a work until it settles, and fails it if it is still pending when no microtask is left. Then its lease ends. */
function withinMicrotasks(work: () => Promise<unknown>, scope: WorkScope): Promise<Outcome> {
  return new Promise((resolve) => {
    const end = (outcome: Outcome): void => {
      scope.ended = true;
      resolve(outcome);
    };
    // A tick that is set from a microtask comes right after the last microtask, and before any timer or
    // I/O. An immediate would come too late: a timer that is due by then would have let the work go on.
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
