import { DomainError } from '../../domain/errors.ts';
import { MovingAverage } from '../../runtime/moving-average.ts';
import { backOff, unavailable } from '../errors.ts';
import type { Touches } from '../touches.ts';
import { asDomainError, isConflict } from './errors.ts';
import type { Session } from './session.ts';
import { WorkScope } from './work-scope.ts';

const maxGroupSize = 128;
/** How many works run at once, at most: what they read arrives together, and one turn of the loop goes on with all. */
const maxTogether = 16;
/** How many accounts share a transaction, at most. Should it fail, the works of all of them are repeated. */
const maxAccounts = 16;
/** An account of which more works wait makes good use of a transaction of its own. */
const maxSharing = 4;
/** After how long an account has another turn whose lock another node has, if it may not wait for the lock. */
const pauseMs = { least: 5, most: 250 };
/** How often a work gives way to others before it fails. */
const maxAttempts = 10;

export interface WriterOptions {
  /** How long a unit of work waits for locks and connections that cannot be had, and may be repeated. */
  readonly busyTimeoutMs?: number | undefined;
  /** After how long a group takes no further work but commits. */
  readonly maxGroupMs?: number | undefined;
  /** How long small works wait, at most, for those before them to be committed. */
  readonly maxHoldMs?: number | undefined;
  /** How many transactions may run at once. */
  readonly maxSessions?: number | undefined;
  /** Called after each commit, before its promises settle. */
  readonly onCommit?: (touches: Touches) => void;
  /** Called after each group with its number of units of work, and how long it took, commit included. */
  readonly onGroup?: ((works: number, durationMs: number) => void) | undefined;
}

interface Job<Tx> {
  readonly accountId: string;
  readonly about: readonly string[] | undefined;
  readonly work: (tx: Tx) => Promise<unknown>;
  readonly deadlineMs: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Outcome = { readonly value: unknown } | { readonly error: unknown };

interface Done<Tx> {
  readonly job: Job<Tx>;
  readonly outcome: Outcome;
  /** Whether it has changed anything, or tried to. */
  readonly hasWritten: boolean;
}

/** A session, and what makes the transaction of a unit of work on it: see `scoped`. */
export interface Writing<Tx> {
  readonly session: Session;
  transactionFor(scope: WorkScope): Tx;
}

/**
 * Runs units of work in transactions. Those of different accounts run at the same time; those of one account that wait
 * together share a transaction, which locks the account's row first. So the log of an account has the order of its
 * commits, and one wait for the disk serves everything that arrived during the last one. No promise settles before the
 * commit. Works of the service itself run one after the other, each in a transaction of its own.
 *
 * Most of what a message costs is its transaction. So accounts share one, each with its next works, if these are small and
 * few: those that come while such a transaction runs wait for its end, or for a moment, and share the next one.
 *
 * At most half of the transactions wait for the lock of an account: a node that has come to a halt may have those of many,
 * and others are served meanwhile. The other half only looks whether a lock is free.
 *
 * A work decides before it writes: there are no savepoints in a group, and one that throws without having written
 * anything leaves the others as they are. Otherwise the group is rolled back, and its works are repeated, each alone.
 *
 * Works of a group run one after the other, each for as long as it waits for what it reads; those that are about different
 * things run at the same time. One that has something in common with an earlier one waits for it, and later ones may pass
 * it. Else a busy account, whose works are all in one group at a time, could send no more than one message in each round
 * trip to the database.
 */
export class Writer<Tx> {
  readonly #open: () => Writing<Tx>;
  readonly #busyTimeoutMs: number;
  readonly #maxGroupMs: number;
  readonly #maxHoldMs: number;
  readonly #maxSessions: number;
  readonly #onCommit: (touches: Touches) => void;
  readonly #onGroup: (works: number, durationMs: number) => void;
  readonly #cost = new MovingAverage();
  /** What waits, by account; the account whose turn it is comes first. */
  readonly #waiting = new Map<string, Job<Tx>[]>();
  /** Of whom there is a group. */
  readonly #running = new Set<string>();
  #groups = 0;
  /** When each of the groups of small works began that have not ended. */
  readonly #smallGroups: number[] = [];
  /** Begins the next of them, if those before it have not ended by then. */
  #held: NodeJS.Timeout | undefined;
  #isStarting = false;
  /** Whose next works go alone: another had their lock, or a transaction that they shared has failed. */
  readonly #alone = new Set<string>();
  /** How many groups wait for the lock of their account. */
  #locking = 0;
  readonly #maxLocking: number;
  /** Whose lock another node has, and who may not wait for it: since when. */
  readonly #missing = new Map<string, number>();
  /** Those of them whose next turn comes after a pause, which the timer ends. */
  readonly #paused = new Map<string, NodeJS.Timeout>();
  readonly #idle: Writing<Tx>[] = [];
  #sessions: Session[] = [];
  #waitingCount = 0;
  #isClosing = false;
  #onIdle: (() => void)[] = [];

  /** @param open makes a session, which is kept and used again */
  constructor(
    open: () => Writing<Tx>,
    { busyTimeoutMs = 5_000, maxGroupMs = 20, maxHoldMs = 30, maxSessions = 4, onCommit, onGroup }: WriterOptions = {},
  ) {
    this.#open = open;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#maxGroupMs = maxGroupMs;
    this.#maxHoldMs = maxHoldMs;
    this.#maxSessions = maxSessions;
    this.#maxLocking = Math.max(1, Math.floor(maxSessions / 2));
    this.#onCommit = onCommit ?? (() => {});
    this.#onGroup = onGroup ?? (() => {});
  }

  /** How many units of work are queued. */
  get waiting(): number {
    return this.#waitingCount;
  }

  /** How long the queue, or the part of it before an account's next work, takes if no other node holds the locks. */
  waitMs(accountId?: string): number {
    const accounts = this.#waiting.size || 1;
    const own = accountId === undefined ? 0 : (this.#waiting.get(accountId)?.length ?? 0);
    // Where more accounts wait than transactions may run, each has its turn after some of the others.
    const before = accountId === undefined ? this.#waitingCount : Math.min(this.#waitingCount, (own + 1) * accounts);
    return Math.max(own, before / Math.min(this.#maxSessions, accounts)) * this.#cost.eachMs;
  }

  /**
   * @param accountId for whom; empty for the service itself
   * @param about see `Storage.write`
   */
  write<T>(work: (tx: Tx) => Promise<T>, accountId = '', about?: readonly string[]): Promise<T> {
    if (this.#isClosing) return Promise.reject(unavailable('The service is shutting down.'));
    return new Promise<T>((resolve, reject) => {
      const job: Job<Tx> = {
        accountId,
        about,
        work,
        deadlineMs: performance.now() + this.#busyTimeoutMs,
        resolve: resolve as (value: unknown) => void,
        reject,
      };
      const jobs = this.#waiting.get(accountId);
      if (jobs === undefined) this.#waiting.set(accountId, [job]);
      else jobs.push(job);
      this.#waitingCount++;
      this.#startSoon();
    });
  }

  /** Refuses new units of work, completes the queued ones, and closes the connections. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (!this.#isIdle) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
    await Promise.all(this.#sessions.map((session) => session.close()));
  }

  get #isIdle(): boolean {
    return this.#groups === 0 && this.#waitingCount === 0;
  }

  /** Starts groups when everybody has written who does so in this turn of the event loop: they share transactions. */
  #startSoon(): void {
    if (this.#isStarting) return;
    this.#isStarting = true;
    queueMicrotask(() => {
      this.#isStarting = false;
      this.#startNext();
    });
  }

  /** Starts groups for those who wait, as many as there may be. */
  #startNext(): void {
    while (this.#groups < this.#maxSessions) {
      const accountIds = this.#nextAccounts();
      if (accountIds.length === 0) return;
      void this.#serve(accountIds);
    }
  }

  /** The account whose turn it is, and those that share its transaction, if its works are small and few. */
  #nextAccounts(): string[] {
    const isHolding = this.#holdsSmall();
    const accountIds: string[] = [];
    for (const accountId of this.#waiting.keys()) {
      if (this.#running.has(accountId) || this.#paused.has(accountId)) continue;
      const mayShare = this.#mayShare(accountId);
      if (!mayShare && accountIds.length === 0) return [accountId];
      if (mayShare && !isHolding) accountIds.push(accountId);
      if (accountIds.length >= maxAccounts) break;
    }
    return accountIds;
  }

  /** Whether small works wait for those before them, until there are enough for a transaction. */
  #holdsSmall(): boolean {
    const leftMs = Math.max(0, ...this.#smallGroups) + this.#maxHoldMs - performance.now();
    if (leftMs <= 0 || this.#smallGroups.length === 0 || this.#waiting.size >= maxAccounts) return false;
    this.#held ??= setTimeout(() => {
      this.#held = undefined;
      this.#startNext();
    }, leftMs);
    return true;
  }

  /** Whether an account has little to do, and next what is small. */
  #mayShare(accountId: string): boolean {
    const jobs = this.#waiting.get(accountId) ?? [];
    return jobs.length <= maxSharing && jobs[0]?.about !== undefined && !this.#alone.has(accountId);
  }

  /** Runs one group, of one account or of several. Never rejects. */
  async #serve(accountIds: readonly string[]): Promise<void> {
    const startedMs = performance.now();
    const isSmall = accountIds.every((accountId) => this.#mayShare(accountId));
    if (isSmall) this.#smallGroups.push(startedMs);
    for (const accountId of accountIds) this.#running.add(accountId);
    this.#groups++;
    const writing = this.#idle.pop() ?? this.#opened();
    const done =
      accountIds.length > 1
        ? await this.#runShared(accountIds, writing)
        : await this.#runGroup(accountIds[0] ?? '', writing, startedMs);
    if (done > 0) {
      const endedMs = performance.now();
      // How long another node had the lock says nothing about the next ones.
      if (writing.session.beganMs !== undefined) this.#cost.add(done, endedMs - writing.session.beganMs);
      this.#onGroup(done, endedMs - startedMs);
    }
    this.#idle.push(writing);
    this.#groups--;
    if (isSmall) this.#smallGroups.splice(this.#smallGroups.indexOf(startedMs), 1);
    for (const accountId of accountIds) {
      this.#running.delete(accountId);
      if (!this.#alone.has(accountId)) this.#putLast(accountId); // else it was not its turn yet
    }
    this.#startNext();
    if (this.#isIdle) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  #opened(): Writing<Tx> {
    const writing = this.#open();
    this.#sessions.push(writing.session);
    return writing;
  }

  #putLast(accountId: string): void {
    const jobs = this.#waiting.get(accountId);
    if (jobs === undefined) return;
    this.#waiting.delete(accountId);
    this.#waiting.set(accountId, jobs);
  }

  /** The next job of an account, and those that may run at the same time: who has anything in common with one before waits. */
  #takeTogether(accountId: string, most: number): Job<Tx>[] {
    const jobs = this.#waiting.get(accountId) ?? [];
    const taken: Job<Tx>[] = [];
    const left: Job<Tx>[] = [];
    const names = new Set<string>();
    for (const job of jobs.slice(0, maxGroupSize)) {
      if (taken.length >= most || (taken.length > 0 && job.about === undefined)) break;
      const isApart = job.about?.every((name) => !names.has(name)) ?? true;
      (isApart ? taken : left).push(job);
      if (job.about === undefined) break;
      for (const name of job.about) names.add(name);
    }
    jobs.splice(0, taken.length + left.length, ...left);
    this.#waitingCount -= taken.length;
    if (jobs.length === 0) this.#waiting.delete(accountId);
    return taken;
  }

  /** Fails the jobs of an account that have waited too long for what a group of it could not get, such as its lock. */
  #expire(accountId: string, error: unknown): void {
    const now = performance.now();
    const jobs = this.#waiting.get(accountId) ?? [];
    const late = jobs.filter(({ deadlineMs }) => deadlineMs <= now);
    const left = jobs.filter(({ deadlineMs }) => deadlineMs > now);
    if (left.length > 0) this.#waiting.set(accountId, left);
    else this.#waiting.delete(accountId);
    this.#waitingCount -= late.length;
    for (const { reject } of late) reject(failureOf(error));
  }

  /** @returns how many jobs are done */
  async #runGroup(accountId: string, writing: Writing<Tx>, startedMs: number): Promise<number> {
    this.#alone.delete(accountId);
    const most = accountId === '' ? 1 : maxGroupSize;
    if (!this.#waiting.has(accountId)) return 0;
    if (!(await this.#begin(accountId, writing.session))) return 0;
    const done: Done<Tx>[] = [];
    let jobs = this.#takeTogether(accountId, Math.min(most, maxTogether));
    while (jobs.length > 0) {
      if (!(await runTogether(writing, jobs, done))) return await this.#undo(writing, done);
      const room = performance.now() - startedMs >= this.#maxGroupMs ? 0 : most - done.length;
      jobs = this.#takeTogether(accountId, Math.min(room, maxTogether));
    }
    return await this.#commit(writing, done);
  }

  /**
   * Begins the transaction of a group.
   * @returns whether it may go on; else its account has another turn
   */
  async #begin(accountId: string, session: Session): Promise<boolean> {
    if (accountId === '') {
      void session.begin(accountId);
    } else if (this.#mayWait) {
      this.#beginWaiting(accountId, session);
    } else if (!(await session.beginShared([accountId])).has(accountId) && session.failure === undefined) {
      await session.rollback();
      this.#pause(accountId);
      return false;
    }
    this.#missing.delete(accountId);
    return true;
  }

  get #mayWait(): boolean {
    return this.#locking < this.#maxLocking;
  }

  #beginWaiting(accountId: string, session: Session, options?: { readonly isCareful: boolean }): void {
    this.#locking++;
    void session.begin(accountId, options).then(() => {
      this.#locking--;
      const [paused] = this.#paused.keys();
      if (paused !== undefined && this.#mayWait) this.#resume(paused);
    });
  }

  /** Gives others their turns while an account cannot have its lock, and the more the longer that lasts. */
  #pause(accountId: string): void {
    const now = performance.now();
    const sinceMs = this.#missing.get(accountId) ?? now;
    if (now - sinceMs >= this.#busyTimeoutMs) this.#expire(accountId, lockNotAvailable());
    if (!this.#waiting.has(accountId)) {
      this.#missing.delete(accountId);
      return;
    }
    this.#missing.set(accountId, sinceMs);
    const forMs = Math.min(pauseMs.most, Math.max(pauseMs.least, now - sinceMs));
    this.#paused.set(
      accountId,
      setTimeout(() => this.#resume(accountId), forMs),
    );
  }

  #resume(accountId: string): void {
    clearTimeout(this.#paused.get(accountId));
    this.#paused.delete(accountId);
    this.#startNext();
  }

  /**
   * Runs the next jobs of several accounts, and only those: nobody waits for what another account does after them, or for a
   * lock that somebody else has. If it fails, each account goes on alone, with the same jobs.
   * @returns how many jobs are done
   */
  async #runShared(accountIds: readonly string[], writing: Writing<Tx>): Promise<number> {
    const { session } = writing;
    const locked = await session.beginShared(accountIds);
    for (const accountId of accountIds) {
      if (locked.has(accountId)) this.#missing.delete(accountId);
      else if (this.#mayWait || session.failure !== undefined) this.#alone.add(accountId);
      else this.#pause(accountId);
    }
    const most = Math.max(1, Math.floor(maxTogether / accountIds.length));
    const jobs = [...locked].flatMap((accountId) => this.#takeTogether(accountId, most));
    const done: Done<Tx>[] = [];
    const isWhole = await runTogether(writing, jobs, done);
    if (isWhole && jobs.length > 0) return await this.#commit(writing, done);
    const { failure } = session;
    await session.rollback();
    this.#putBack(jobs);
    if (failure !== undefined) for (const accountId of accountIds) this.#expire(accountId, failure);
    return 0;
  }

  /** Lets jobs wait again, before the others of their accounts, which go on alone. */
  #putBack(jobs: readonly Job<Tx>[]): void {
    for (const job of jobs.toReversed()) {
      const waiting = this.#waiting.get(job.accountId);
      if (waiting === undefined) this.#waiting.set(job.accountId, [job]);
      else waiting.unshift(job);
      this.#waitingCount++;
      this.#alone.add(job.accountId);
    }
  }

  /** @returns how many jobs are done */
  async #commit(writing: Writing<Tx>, done: readonly Done<Tx>[]): Promise<number> {
    const { session } = writing;
    try {
      await session.commit();
    } catch (error) {
      if (session.failure !== undefined) return await this.#undo(writing, done, error);
      await session.rollback();
      for (const { job } of done) job.reject(failureOf(error));
      return done.length;
    }
    this.#onCommit(session.touches);
    for (const { job, outcome } of done) settle(job, outcome);
    return done.length;
  }

  /**
   * Rolls a group back. What one of its works may be to blame for is found by repeating each alone, or each account alone if
   * several shared it.
   * @param reason why it cannot be committed, or that nobody knows whether it was
   * @returns how many jobs are done
   */
  async #undo(writing: Writing<Tx>, done: readonly Done<Tx>[], reason = writing.session.failure): Promise<number> {
    const { failure } = writing.session;
    await writing.session.rollback();
    // Not the fault of a work: the connection, a timeout, or a database that another version has taken over.
    const isUnavailable = !isConflict(failure) && asDomainError(failure) instanceof DomainError;
    const jobs = done.map(({ job }) => job);
    const isShared = new Set(jobs.map(({ accountId }) => accountId)).size > 1;
    if (isShared && !isUnavailable) {
      this.#putBack(jobs);
      return 0;
    }
    for (const { job, outcome } of done) {
      if (isUnavailable) job.reject(failureOf(reason));
      else if (done.length === 1 && failure === undefined) settle(job, outcome);
      else await this.#runAlone(writing, job);
    }
    if (isUnavailable) for (const { accountId } of jobs) this.#expire(accountId, failure);
    return done.length;
  }

  /** Runs a job in a careful transaction of its own, and again when it had to give way to another. */
  async #runAlone(writing: Writing<Tx>, job: Job<Tx>): Promise<void> {
    const { session } = writing;
    for (let attempt = 1; ; attempt++) {
      this.#beginWaiting(job.accountId, session, { isCareful: true });
      const { outcome } = await run(writing, job);
      // What has failed first is why the statements behind it did.
      const error = session.failure ?? ('error' in outcome ? outcome.error : undefined);
      let failure = error;
      if (error === undefined && 'value' in outcome) {
        try {
          await session.commit();
          this.#onCommit(session.touches);
          settle(job, outcome);
          return;
        } catch (error) {
          failure = error;
        }
      }
      await session.rollback();
      if (!isConflict(failure) || attempt === maxAttempts || performance.now() >= job.deadlineMs) {
        job.reject('error' in outcome ? asDomainError(error) : failureOf(failure));
        return;
      }
      await backOff(attempt);
    }
  }
}

/**
 * Runs jobs at the same time.
 * @param done to which they are added
 * @returns whether the transaction can be committed
 */
async function runTogether<Tx>(writing: Writing<Tx>, jobs: readonly Job<Tx>[], done: Done<Tx>[]): Promise<boolean> {
  const ran = await Promise.all(jobs.map((job) => run(writing, job)));
  done.push(...ran);
  const isSpoilt = ran.some(({ outcome, hasWritten }) => 'error' in outcome && hasWritten);
  return writing.session.failure === undefined && !isSpoilt;
}

/** Runs a unit of work until it settles, or its connection is lost. Then its scope ends. */
async function run<Tx>({ session, transactionFor }: Writing<Tx>, job: Job<Tx>): Promise<Done<Tx>> {
  const scope = new WorkScope();
  let outcome: Outcome;
  try {
    outcome = { value: await Promise.race([job.work(transactionFor(scope)), session.lost]) };
  } catch (error) {
    outcome = { error };
  }
  await scope.end();
  return { job, outcome, hasWritten: scope.hasWritten };
}

function settle<Tx>(job: Job<Tx>, outcome: Outcome): void {
  if ('error' in outcome) job.reject(asDomainError(outcome.error));
  else job.resolve(outcome.value);
}

/** As PostgreSQL would say it. */
function lockNotAvailable(): Error {
  return Object.assign(new Error('Another node has the lock of the account'), { code: '55P03' });
}

/** A lost transaction is never the fault of a unit of work, so it is UNAVAILABLE whatever was thrown. */
function failureOf(cause: unknown): DomainError {
  const error = asDomainError(cause);
  return error instanceof DomainError ? error : unavailable('The storage could not complete the write.', cause);
}
