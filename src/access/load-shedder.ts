import { DomainError } from '../domain/errors.ts';
import type { Storage } from '../domain/storage-port.ts';
import { Pace } from '../runtime/pace.ts';

/**
 * A read arriving this soon after the first arrival in a turn of the event loop is admitted at once, unless reads wait
 * already. It is about what a few reads take together.
 */
const openMs = 2;
/**
 * Minimum time to admit waiting requests per turn of the event loop, which accepts only one new connection each time;
 * otherwise as long as everything else took, so that refusing many does not starve the rest.
 */
const minSliceMs = 2;
/** The longest acceptable wait: with a longer backlog, requests are refused. */
const patienceMs = 1_000;
/** Overload must last this long: after a pause every estimate is briefly too high. */
const stallMs = 500;
/** This many may always wait: a pool of clients, each waiting for its response, is no overload. */
const neverRefused = 256;

/** Reads queue separately, so that they do not wait for all writes. */
export type Line = 'reads' | 'others';

interface Waiting {
  readonly sinceMs: number;
  readonly enter: () => void;
  readonly refuse: (error: DomainError) => void;
}

export interface LoadShedderOptions {
  readonly storage: Pick<Storage, 'writeBacklogMs'>;
  /** How many writes wait for their transaction: together with the requests here, those who wait for an answer. */
  readonly waitingWrites: () => number;
  /**
   * Called at the first refusal, and every ten seconds while refusals continue, with the number since the last call.
   */
  readonly onRefusal: (refused: number) => void;
}

/**
 * Load shedding: admits requests as fast as they can be processed, alternately from two queues in order of arrival, and
 * refuses those that would wait too long before any work is done for them.
 *
 * A single thread does all the work, so excess requests have to wait somewhere. In the sockets' buffers they could not
 * be counted, and admitted all at once they would delay the requests in progress, so they wait here. The backlog is
 * estimated from the number of waiting requests and their average cost, so a pause such as a garbage collection delays
 * requests but refuses none.
 */
export class LoadShedder {
  readonly #options: LoadShedderOptions;
  readonly #lines: Readonly<Record<Line, Waiting[]>> = { reads: [], others: [] };
  #previousLine: Line = 'others';
  /** Time of the first arrival in this turn of the event loop, or of the start of the current slice. */
  #sliceStartedMs: number | undefined;
  /** Since when the event loop has done anything but admit waiting requests. */
  #otherWorkSinceMs = 0;
  /** Waiting requests admitted in the previous slice. */
  #admitted = 0;
  /** Average cost of a request, including what runs in between. */
  readonly #pace = new Pace();
  /** Since when the estimated backlog has been too long. */
  #overloadedSinceMs: number | undefined;
  #refused = 0;
  readonly #reported = { refused: 0, atMs: Number.NEGATIVE_INFINITY };
  /** One shared error: in a flood, a refusal has to cost next to nothing. */
  readonly #refusal = new DomainError('UNAVAILABLE', 'The service is overloaded and cannot answer in time.', {
    retryAfterSeconds: 1,
    isOverload: true,
  });

  constructor(options: LoadShedderOptions) {
    this.#options = options;
  }

  /** Total number of refusals. */
  get refused(): number {
    return this.#refused;
  }

  /** Estimated time to process everything that waits. */
  get backlogMs(): number {
    return this.#waiting * this.#pace.eachMs + this.#options.storage.writeBacklogMs;
  }

  get #waiting(): number {
    return this.#lines.reads.length + this.#lines.others.length;
  }

  /** How many writes wait for their transaction. */
  get waitingWrites(): number {
    return this.#options.waitingWrites();
  }

  /** Whether more wait than a pool of clients would explain. */
  get #isFlood(): boolean {
    return this.#waiting + this.waitingWrites > neverRefused;
  }

  /**
   * Admits a request, at once or after a wait. Writes always queue: they would wait for the shared commit anyway, and
   * admitted together they share reads.
   * @returns undefined if admitted at once
   * @throws UNAVAILABLE when overloaded; the promise can reject with it, too
   */
  enter(line: Line): Promise<void> | undefined {
    const nowMs = performance.now();
    if (this.#isOverloaded(nowMs)) throw this.#refuse(nowMs);
    if (this.#sliceStartedMs === undefined) {
      this.#sliceStartedMs = nowMs;
      this.#otherWorkSinceMs = nowMs;
      setImmediate(this.#nextTurn);
    }
    if (line === 'reads' && this.#lines[line].length === 0 && nowMs - this.#sliceStartedMs < openMs) return undefined;
    return new Promise((enter, refuse) => {
      this.#lines[line].push({ sinceMs: nowMs, enter, refuse });
    });
  }

  #isOverloaded(nowMs: number): boolean {
    const backlogMs = this.#isFlood ? this.backlogMs : 0;
    if (backlogMs < patienceMs / 2) this.#overloadedSinceMs = undefined;
    if (backlogMs <= patienceMs) return false;
    this.#overloadedSinceMs ??= nowMs;
    return nowMs - this.#overloadedSinceMs >= stallMs;
  }

  readonly #nextTurn = (): void => {
    const nowMs = performance.now();
    if (this.#admitted > 0) {
      const sliceMs = this.#otherWorkSinceMs - (this.#sliceStartedMs ?? nowMs);
      // Other work is counted up to the length of the slice: if it took longer, no requests were left to admit.
      this.#pace.add(this.#admitted, sliceMs + Math.min(sliceMs, nowMs - this.#otherWorkSinceMs));
      this.#admitted = 0;
    }
    if (this.#waiting === 0) {
      this.#sliceStartedMs = undefined;
      return;
    }
    this.#sliceStartedMs = nowMs;
    this.#admitUntil(nowMs + Math.max(minSliceMs, nowMs - this.#otherWorkSinceMs));
  };

  /** Admits requests one by one, each after the previous one has run as far as it can without waiting. */
  #admitUntil(endMs: number): void {
    const { storage } = this.#options;
    let entered = 0;
    const next = (): void => {
      const nowMs = performance.now();
      // An admitted write waits again, for its commit, which must not take longer than the wait for admission.
      const isOver = nowMs >= endMs || storage.writeBacklogMs > patienceMs / 2;
      const first = isOver && entered > 0 ? undefined : this.#takeFirst();
      if (first === undefined) {
        this.#otherWorkSinceMs = nowMs;
        setImmediate(this.#nextTurn);
        return;
      }
      this.#admitted++;
      if (nowMs - first.sinceMs > patienceMs && this.#isFlood) {
        first.refuse(this.#refuse(nowMs));
      } else {
        entered++;
        first.enter();
      }
      queueMicrotask(() => process.nextTick(next)); // a tick queued by a microtask runs after all microtasks
    };
    next();
  }

  #takeFirst(): Waiting | undefined {
    const { reads, others } = this.#lines;
    if (this.#waiting > neverRefused) {
      // In a flood strictly by arrival: otherwise requests in the longer queue would be refused only after a long wait.
      return (reads[0]?.sinceMs ?? Number.POSITIVE_INFINITY) < (others[0]?.sinceMs ?? Number.POSITIVE_INFINITY)
        ? reads.shift()
        : others.shift();
    }
    const next: Line = this.#previousLine === 'reads' ? 'others' : 'reads';
    if (this.#lines[next].length > 0) this.#previousLine = next;
    return this.#lines[this.#previousLine].shift();
  }

  #refuse(nowMs: number): DomainError {
    this.#refused++;
    if (nowMs - this.#reported.atMs > 10_000) {
      this.#options.onRefusal(this.#refused - this.#reported.refused);
      this.#reported.refused = this.#refused;
      this.#reported.atMs = nowMs;
    }
    return this.#refusal;
  }
}
