import { afterMicrotasks } from './after-microtasks.ts';
import { FairQueue } from './fair-queue.ts';
import { MovingAverage } from './moving-average.ts';

/**
 * What arrives this soon after the first arrival in a turn of the event loop runs at once, unless others of its kind wait
 * already. It is about what a few reads take together.
 */
const openMs = 2;
/**
 * What arrives this long after the first arrival waits until the event loop has read what else there is. Answered at once,
 * thousands of clients would have sent their next requests by then, and the loop would not turn for seconds.
 */
const arrivalsAtOnceMs = 5;
/** How long arrivals that wait are begun per turn of the event loop, which accepts only one new connection each time. */
const arrivalsMs = 20;
/**
 * How many arrivals of one owner are begun in such a turn. What they do when their bodies are there, or the answers of a
 * database, has no time of its own: the next turn takes as long as all of that, and who waits for a database waits for
 * many turns.
 */
const arrivalsOfOwner = 16;
/** How long requests that wait run in it: as long as everything else took, so that neither starves the other, within these. */
const minRequestsMs = 2;
const maxRequestsMs = 20;
/** How long one account's requests run before it is another's turn: many run in it, or one that takes long. */
const turnOfAccountMs = 2;
/** The same for steps: half as long as the requests, many of which wait for one, but at least this. */
const minStepsMs = 2;
/**
 * A request needs several turns of the event loop, from its arrival to its commit. So that it need not wait for a long
 * step in each of them, the loop turns once for so much time that the last steps took, up to a limit.
 */
const msPerTurn = 10;
const maxTurnsBetween = 10;
/** For so long the event loop turns for new connections, of which it accepts one each time, before it does other work. */
const acceptingMs = 5;

type Run = () => void;

/**
 * Decides what a process does next. Requests wait here until there is time for them, by the network of their client until
 * it is known whose they are, then by account. Work of unknown length (large bodies and answers, messages of sockets,
 * events, reports, erasures) is done in steps that wait here too. Reads, writes and steps each wait in a line of their own,
 * in which accounts take turns: however much one account has waiting, another's next comes after one step of each, or after
 * a moment's requests.
 *
 * In each turn of the event loop, some new requests of each owner are begun, which may mean to refuse them; then requests
 * run for as long as everything else has taken, reads and writes alternately; and then steps for a few milliseconds.
 *
 * What may run begins when its promise resolves, and has its time until it waits for anything but promises that are
 * already settled.
 */
export class Scheduler {
  readonly #arrivals = new FairQueue<Run>();
  readonly #reads = new FairQueue<Run>();
  readonly #writes = new FairQueue<Run>();
  readonly #steps = new FairQueue<Run>();
  /** Whose turn it is among the requests. */
  #areReadsNext = true;
  /** The line from which an account has its turn, and until when. */
  #line = this.#reads;
  #turnEndsMs = 0;
  /** Time of the first arrival in this turn of the event loop, or of the start of the requests' time in it. */
  #startedMs: number | undefined;
  /** Since when the event loop has done anything but run waiting requests. */
  #otherWorkSinceMs = 0;
  /** Waiting requests that ran in the last turn. */
  #requestsRun = 0;
  /** Average cost of a request, including what runs in between. */
  readonly #requestCost = new MovingAverage();
  #isStepping = false;
  /** Turns of the event loop that have to pass before the next step, unless they take longer than the last steps. */
  #turnsWithoutSteps = 0;
  #noStepsUntilMs = 0;
  /** Whether a connection was accepted in this turn: others may wait behind it. */
  #hasAccepted = false;
  #acceptingSinceMs: number | undefined;

  /** How many requests wait. */
  get waitingRequests(): number {
    return this.#reads.size + this.#writes.size;
  }

  /** Expected time to run all requests that wait. */
  get requestsMs(): number {
    return this.waitingRequests * this.#requestCost.eachMs;
  }

  /** How long the next request of this account is expected to wait. */
  waitMs(accountId: string): number {
    const { eachMs } = this.#requestCost;
    if (eachMs === 0) return 0; // nothing has run yet
    const inTurn = Math.max(1, Math.floor(turnOfAccountMs / eachMs));
    return (this.#reads.before(accountId, inTurn) + this.#writes.before(accountId, inTurn)) * eachMs;
  }

  /** To be called with each connection that is accepted. */
  accepted(): void {
    this.#hasAccepted = true;
  }

  /**
   * Lets a request that has just been read begin, at once or after a wait.
   * @param owner the account whose connection it is, or the network of its client
   * @returns undefined if it may begin at once
   */
  arrival(owner: string): Promise<void> | undefined {
    const nowMs = performance.now();
    const startedMs = this.#start(nowMs);
    if (this.#arrivals.size === 0 && nowMs - startedMs < arrivalsAtOnceMs) return undefined;
    return this.#wait(this.#arrivals, owner);
  }

  /**
   * Lets a request run, at once or after a wait. Writes always wait: they would wait for the shared commit anyway, and
   * those that begin together share reads.
   * @returns undefined if it may run at once
   */
  request(accountId: string, isRead: boolean): Promise<void> | undefined {
    if (isRead && this.#isOpen(this.#reads)) return undefined;
    return this.#wait(isRead ? this.#reads : this.#writes, accountId);
  }

  /** Resolves when the account may take a step. */
  step(accountId: string): Promise<void> {
    return this.stepAtOnce() ? Promise.resolve() : this.#wait(this.#steps, accountId);
  }

  /** Takes a step without waiting, if there is time and no other is taken or waits. @returns whether it may be taken */
  stepAtOnce(): boolean {
    if (this.#isStepping || this.#turnsWithoutSteps > 0 || !this.#isOpen(this.#steps)) return false;
    this.#isStepping = true;
    const startedMs = performance.now();
    afterMicrotasks(() => this.#stepped(startedMs));
    return true;
  }

  #isOpen(line: FairQueue<Run>): boolean {
    const nowMs = performance.now();
    return nowMs - this.#start(nowMs) < openMs && line.size === 0;
  }

  #wait(line: FairQueue<Run>, accountId: string): Promise<void> {
    this.#start(performance.now());
    return new Promise((run) => line.push(accountId, run));
  }

  /** @returns when this turn of the event loop was started */
  #start(nowMs: number): number {
    if (this.#startedMs === undefined) {
      this.#startedMs = nowMs;
      this.#otherWorkSinceMs = nowMs;
      setImmediate(this.#nextTurn);
    }
    return this.#startedMs;
  }

  readonly #nextTurn = (): void => {
    const nowMs = performance.now();
    this.#acceptingSinceMs ??= nowMs;
    if (this.#hasAccepted && nowMs - this.#acceptingSinceMs < acceptingMs) {
      this.#hasAccepted = false;
      setImmediate(this.#nextTurn);
      return;
    }
    this.#acceptingSinceMs = undefined;
    const otherWorkMs = nowMs - this.#otherWorkSinceMs;
    if (this.#requestsRun > 0) {
      const ranMs = this.#otherWorkSinceMs - (this.#startedMs ?? nowMs);
      // Other work is counted for as long as the requests ran: if it took longer, none were left to run.
      this.#requestCost.add(this.#requestsRun, ranMs + Math.min(ranMs, otherWorkMs));
      this.#requestsRun = 0;
    }
    this.#turnsWithoutSteps = nowMs > this.#noStepsUntilMs ? 0 : Math.max(0, this.#turnsWithoutSteps - 1);
    if (this.waitingRequests + this.#arrivals.size + this.#steps.size + this.#turnsWithoutSteps === 0) {
      this.#startedMs = undefined;
      return;
    }
    this.#startedMs = nowMs; // what arrives from here on is of the next turn
    const runRequests = (): void => {
      this.#startedMs = performance.now();
      const otherWorkAndArrivalsMs = otherWorkMs + this.#startedMs - nowMs;
      const requestsMs = Math.min(maxRequestsMs, Math.max(minRequestsMs, otherWorkAndArrivalsMs));
      run(this.#takeRequest, this.#startedMs + requestsMs, this.#runSteps);
    };
    const arrivals = this.#arrivals.takeOfEach(arrivalsOfOwner);
    run(() => arrivals.next().value, nowMs + arrivalsMs, runRequests);
  };

  readonly #takeRequest = (): Run | undefined => {
    const nowMs = performance.now();
    const next = (nowMs < this.#turnEndsMs ? this.#line.takeMore() : undefined) ?? this.#nextTurnOfAccount(nowMs);
    if (next !== undefined) this.#requestsRun++;
    return next;
  };

  #nextTurnOfAccount(nowMs: number): Run | undefined {
    const [line, other] = this.#areReadsNext ? [this.#reads, this.#writes] : [this.#writes, this.#reads];
    this.#areReadsNext = !this.#areReadsNext;
    const taken = line.size > 0 ? line : other;
    if (taken.size === 0) return undefined;
    this.#line = taken;
    this.#turnEndsMs = nowMs + turnOfAccountMs;
    return taken.take();
  }

  readonly #runSteps = (): void => {
    const nowMs = performance.now();
    this.#otherWorkSinceMs = nowMs;
    if (this.#turnsWithoutSteps > 0 || this.#steps.size === 0) {
      setImmediate(this.#nextTurn);
      return;
    }
    this.#isStepping = true;
    run(
      () => this.#steps.take(),
      nowMs + Math.max(minStepsMs, (nowMs - (this.#startedMs ?? nowMs)) / 2),
      () => {
        this.#stepped(nowMs);
        setImmediate(this.#nextTurn);
      },
    );
  };

  #stepped(startedMs: number): void {
    this.#isStepping = false;
    const nowMs = performance.now();
    const tookMs = nowMs - startedMs;
    if (tookMs <= msPerTurn) return;
    this.#turnsWithoutSteps = Math.min(maxTurnsBetween, Math.ceil(tookMs / msPerTurn));
    this.#noStepsUntilMs = nowMs + tookMs;
  }
}

/** Runs one after the other until none is left or the time is over. */
function run(take: () => Run | undefined, endMs: number, then: () => void): void {
  const next = (): void => {
    const first = performance.now() < endMs ? take() : undefined;
    if (first === undefined) {
      then();
    } else {
      first();
      afterMicrotasks(next);
    }
  };
  next();
}

/** The scheduler of this process, which everything shares: whatever an account does, it has one turn in each line. */
export const scheduler = new Scheduler();
