import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterMicrotasks } from '../../runtime/after-microtasks.ts';
import { FairQueue } from '../../runtime/fair-queue.ts';
import { MovingAverage } from '../../runtime/moving-average.ts';
import { backOff, unavailable } from '../errors.ts';
import { asDomainError, isBusy } from './errors.ts';
import type { Connection } from './open.ts';
import { Slices } from './slices.ts';
import type { WorkScope } from './transaction-scope.ts';

const maxGroupSize = 128;
/** A group of more than so many yields to the event loop before it commits, which takes longer than a slice. */
const smallGroup = 8;
/** A turn of the event loop that takes longer has answered others: more of them wait, and writes will be among them. */
const busyTurnMs = 2;
/** For how many works a commit does not wait any longer: each of them takes a quarter of it. */
const enough = 4;
/** How long a slice lasts at least while another process waits for its turn: else half of that wait is for the event loop. */
const awaitedSliceMs = 5;

export interface WriterOptions {
  /** Where processes take turns in writing: it is waited for before each transaction, and ended after it. */
  readonly turn?: Turn | undefined;
  /** How long a unit of work waits for a lock that another process holds. */
  readonly busyTimeoutMs?: number;
  /**
   * How long a group may run before it commits; longer while the event loop takes longer to turn. With less, throughput
   * is lost to more commits.
   */
  readonly maxGroupMs?: number;
  /**
   * How long a few works wait for more while the event loop is busy with other things. A commit holds the loop
   * for as long as several works do, so that others are answered sooner, too.
   */
  readonly maxHoldMs?: number;
  /** How long a group may run at least before it yields to the event loop, so that reads need not wait for all of it. */
  readonly minSliceMs?: number;
  /** Called at the beginning of each transaction. If it throws, all queued units of work fail with that error. */
  readonly onBegin?: () => void;
  /** Called after each group, once it is committed or rolled back, before its promises settle. */
  readonly onCommit?: () => void;
  /** Called after each group with its number of units of work, and how long it held the event loop, commit included. */
  readonly onGroup?: ((works: number, durationMs: number) => void) | undefined;
}

/** The turn to write among processes, of which one has it at a time. */
interface Turn {
  take(): Promise<void>;
  /** Leaves it to who waits for it. */
  end(): void;
  /** Whether another process waits for it. */
  readonly isAsked: boolean;
}

interface Job<Tx> {
  readonly accountId: string;
  readonly work: (tx: Tx) => Promise<unknown>;
  readonly deadlineMs: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome = { readonly value: unknown } | { readonly error: unknown };

/**
 * The single writer. Units of work queue, those of the accounts by turns of a millisecond, and those that wait are
 * committed as a group by one `BEGIN IMMEDIATE … COMMIT`, each in its own savepoint unless it is alone. No promise
 * settles before the commit. So one wait for the disk serves everything that arrived during the last one. Between units
 * of work the event loop may turn: what is not committed is visible on this connection only, which nothing else uses.
 *
 * A unit of work awaits nothing but its transaction, and therefore ends within microtasks. If it awaits anything else,
 * which is a bug, its scope ends before the event loop turns, and it is rolled back and fails.
 */
export class Writer<Tx> {
  readonly #connection: Connection;
  readonly #steps: ReturnType<typeof prepareSteps>;
  readonly #transactionFor: (scope: WorkScope) => Tx;
  readonly #turn: Turn | undefined;
  readonly #busyTimeoutMs: number;
  readonly #maxGroupMs: number;
  readonly #maxHoldMs: number;
  readonly #slices: Slices;
  readonly #onBegin: () => void;
  readonly #onCommit: () => void;
  readonly #onGroup: (works: number, durationMs: number) => void;
  readonly #cost = new MovingAverage();
  readonly #queue = new FairQueue<Job<Tx>>();
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
      turn,
      busyTimeoutMs = 5_000,
      maxGroupMs = 20,
      maxHoldMs = 20,
      minSliceMs = 0.5,
      onBegin = () => {},
      onCommit = () => {},
      onGroup = () => {},
    }: WriterOptions = {},
  ) {
    this.#connection = connection;
    this.#steps = prepareSteps(connection);
    this.#transactionFor = transactionFor;
    this.#turn = turn;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#maxGroupMs = maxGroupMs;
    this.#maxHoldMs = maxHoldMs;
    this.#slices = new Slices(minSliceMs);
    this.#onBegin = onBegin;
    this.#onCommit = onCommit;
    this.#onGroup = onGroup;
  }

  /** How many units of work are queued. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** How long the queue, or the part of it before an account's next work, takes if no other process holds the lock. */
  waitMs(accountId?: string): number {
    return (accountId === undefined ? this.#queue.size : this.#queue.before(accountId)) * this.#cost.eachMs;
  }

  /** @param accountId for whom; work of the service itself counts as one account's */
  write<T>(work: (tx: Tx) => Promise<T>, accountId = ''): Promise<T> {
    if (this.#closing) return Promise.reject(unavailable('The service is shutting down.'));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push(accountId, {
        accountId,
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
    void this.#drain();
  }

  /** Commits group after group, with a turn of the event loop in between, until the queue is empty. Never rejects. */
  async #drain(): Promise<void> {
    let turnMs = await timedTurn();
    for (let attempt = 0; this.#queue.size > 0; ) {
      await this.#gather(turnMs);
      const busy = await this.#begin();
      if (busy === undefined) {
        attempt = 0;
        const startedMs = performance.now();
        const done = await this.#commitGroup(this.#queue);
        turnMs = await timedTurn();
        this.#cost.add(done, performance.now() - startedMs);
      } else {
        this.#expire(busy);
        await backOff(attempt++);
      }
    }
    this.#running = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Waits for more works, if there are few and the event loop is busy. */
  async #gather(lastTurnMs: number): Promise<void> {
    const endMs = performance.now() + this.#maxHoldMs;
    for (let turnMs = lastTurnMs; turnMs > busyTurnMs && this.#queue.size < enough; turnMs = await timedTurn())
      if (performance.now() >= endMs) return;
  }

  /**
   * Takes the turn to write, and keeps it if a transaction could be opened.
   * @returns undefined if so, else the error for which none could be
   */
  async #begin(): Promise<unknown> {
    if (this.#turn !== undefined) await this.#turn.take();
    try {
      this.#steps.begin.run();
      this.#onBegin();
      return undefined;
    } catch (error) {
      this.#rollback();
      this.#turn?.end();
      return error;
    }
  }

  /** Fails the jobs that have waited too long; all of them if waiting is no use. */
  #expire(error: unknown): void {
    const now = isBusy(error) ? performance.now() : Number.POSITIVE_INFINITY;
    for (const job of this.#queue.removeWhere(({ deadlineMs }) => deadlineMs <= now)) job.reject(asDomainError(error));
  }

  /** @returns how many jobs were taken from the queue and are done */
  async #commitGroup(queue: { readonly size: number; take(): Job<Tx> | undefined }): Promise<number> {
    const slices = this.#slices;
    slices.begin();
    const size = Math.min(queue.size, maxGroupSize);
    const alone = size === 1; // it can roll back the whole transaction, and needs no savepoint
    const done: [Job<Tx>, Outcome][] = [];
    // At least one: the process may have stood still since it began, and whoever repeats a job alone takes it for done.
    while (done.length === 0 || (done.length < size && slices.heldMs <= Math.max(this.#maxGroupMs, slices.limitMs))) {
      await slices.yieldIfOver(this.#turn?.isAsked ? awaitedSliceMs : 0);
      const job = queue.take();
      if (job === undefined) break;
      const startedMs = performance.now();
      const outcome = await (alone ? this.#run(job) : this.#runInSavepoint(job));
      this.#queue.charge(job.accountId, Math.floor(performance.now() - startedMs));
      done.push([job, outcome]);
      if (!this.#connection.inTransaction) {
        // SQLite rolled everything back, as it does on SQLITE_FULL and other errors: nothing of the group was written.
        this.#turn?.end();
        if (alone) settle(job, failureOf(outcome));
        else await this.#repeatAlone(done.map(([lost]) => lost));
        return done.length;
      }
    }
    if (done.length > smallGroup && !this.#turn?.isAsked) await slices.yield();
    const failed = alone && done.some(([, outcome]) => 'error' in outcome);
    const failure = failed ? this.#rollback() : this.#commit();
    this.#turn?.end();
    this.#onCommit();
    this.#onGroup(done.length, slices.heldMs);
    if (done.length > smallGroup) await slices.yield();
    for (const [job, outcome] of done) {
      await slices.yieldIfOver();
      settle(job, failure ?? outcome);
      await new Promise<void>(afterMicrotasks); // what waits for it runs as far as it can
    }
    return done.length;
  }

  /** Repeats a group whose transaction was lost, each job in its own transaction. */
  async #repeatAlone(group: readonly Job<Tx>[]): Promise<void> {
    for (const job of group) {
      await nextTurn();
      const busy = await this.#begin();
      if (busy === undefined) await this.#commitGroup({ size: 1, take: () => job });
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

/** @returns how long the event loop took to turn */
async function timedTurn(): Promise<number> {
  const startedMs = performance.now();
  await nextTurn();
  return performance.now() - startedMs;
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
    // An immediate would run too late: a timer that is due by then could let the work go on.
    afterMicrotasks(() => {
      if (!scope.ended) end({ error: new Error('A storage work awaited something other than its transaction') });
    });
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
