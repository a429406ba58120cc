import { DomainError } from '../domain/errors.ts';
import { Pace } from '../domain/pace.ts';
import type { Storage } from '../domain/storage-port.ts';

/** For so long whoever only reads is let in at once, before the loop turns. It is what some at once take. */
const openMs = 2;
/**
 * Those who wait are let in for so long at least before the loop turns, which takes but one new connection each time;
 * and for as long as all else has taken since, so that refusing many does not keep it from serving the others.
 */
const minSliceMs = 2;
/** A backlog that takes longer than this to work off is refused. */
const patienceMs = 1_000;
/** It has to look like that for so long: after a stall everything seems to take long, and soon no more. */
const stallMs = 500;
/** So many may wait whatever it takes: a pool of clients, each waiting for its answer, is no flood. */
const neverRefused = 256;

/** Those who only read have a line of their own, so that they need not wait for all who write. */
export type Line = 'reads' | 'others';

interface Waiting {
  readonly sinceMs: number;
  readonly enter: () => void;
  readonly refuse: (error: DomainError) => void;
}

export interface TurnstileOptions {
  readonly storage: Pick<Storage, 'holdReads' | 'waitingWrites' | 'writeBacklogMs'>;
  /** Told the first time, and every ten seconds then while it goes on, how many were refused since. */
  readonly onRefusal: (refused: number) => void;
}

/**
 * Lets requests in as fast as they can be worked off, from two lines in turn and from each in the order of their coming,
 * and refuses those that would wait too long, before anything is done for them.
 *
 * One thread does everything, so what it has no time for waits. Left in the sockets, it could not be counted; let in
 * all at once, it would hold up what was begun. So it waits here. What counts is how many wait and how long one takes
 * on the average, so a stall, such as a garbage collection, makes requests wait and refuses none.
 */
export class Turnstile {
  readonly #options: TurnstileOptions;
  readonly #lines: Readonly<Record<Line, Waiting[]>> = { reads: [], others: [] };
  #lineBefore: Line = 'others';
  /** When somebody first came in this turn of the loop, or when the slice of those who wait began. */
  #sliceStartedMs: number | undefined;
  /** Since when the loop has done other things than to work for those who have waited. */
  #elseSinceMs = 0;
  /** How many of those who wait were let in by the slice before. */
  #letIn = 0;
  /** What a request takes, what else is done between counted in. */
  readonly #pace = new Pace();
  /** Since when there has been too much to do. */
  #crowdedSinceMs: number | undefined;
  #refused = 0;
  readonly #told = { refused: 0, atMs: Number.NEGATIVE_INFINITY };
  /** The same for all: when there is much to refuse, each has to cost next to nothing. */
  readonly #refusal = new DomainError('UNAVAILABLE', 'More is asked of the service than it can answer in time.', {
    retryAfterSeconds: 1,
    isLoggedInAggregate: true,
  });

  constructor(options: TurnstileOptions) {
    this.#options = options;
  }

  /** How many were refused, ever. */
  get refused(): number {
    return this.#refused;
  }

  /** How long it would take to work off all that waits. */
  get backlogMs(): number {
    return this.#waiting * this.#pace.eachMs + this.#options.storage.writeBacklogMs;
  }

  get #waiting(): number {
    return this.#lines.reads.length + this.#lines.others.length;
  }

  /**
   * Comes in, at once or when it is its turn. Who does more than to read waits for others in any case, for the commit
   * that they share: so it is let in together with them, and what they all ask for is read once.
   * @throws UNAVAILABLE
   */
  enter(line: Line): Promise<void> | undefined {
    const nowMs = performance.now();
    if (this.#hasTooMuchToDo(nowMs)) throw this.#refuse(nowMs);
    if (this.#sliceStartedMs === undefined) {
      this.#sliceStartedMs = nowMs;
      this.#elseSinceMs = nowMs;
      setImmediate(this.#nextTurn);
    }
    if (line === 'reads' && this.#lines[line].length === 0 && nowMs - this.#sliceStartedMs < openMs) return undefined;
    return new Promise((enter, refuse) => {
      this.#lines[line].push({ sinceMs: nowMs, enter, refuse });
    });
  }

  #hasTooMuchToDo(nowMs: number): boolean {
    const isFlood = this.#waiting + this.#options.storage.waitingWrites > neverRefused;
    const backlogMs = isFlood ? this.backlogMs : 0;
    if (backlogMs < patienceMs / 2) this.#crowdedSinceMs = undefined;
    if (backlogMs <= patienceMs) return false;
    this.#crowdedSinceMs ??= nowMs;
    return nowMs - this.#crowdedSinceMs >= stallMs;
  }

  readonly #nextTurn = (): void => {
    const nowMs = performance.now();
    if (this.#letIn > 0) {
      const sliceMs = this.#elseSinceMs - (this.#sliceStartedMs ?? nowMs);
      // What else was done has at most as long: there was nobody left to let in if it has taken longer.
      this.#pace.add(this.#letIn, sliceMs + Math.min(sliceMs, nowMs - this.#elseSinceMs));
      this.#letIn = 0;
    }
    if (this.#waiting === 0) {
      this.#sliceStartedMs = undefined;
      return;
    }
    this.#sliceStartedMs = nowMs;
    this.#letInUntil(nowMs + Math.max(minSliceMs, nowMs - this.#elseSinceMs));
  };

  /** Lets them in one after the other, each when the one before has got as far as it gets without waiting. */
  #letInUntil(endMs: number): void {
    const { storage } = this.#options;
    const endReads = storage.holdReads(); // all of them have come by now, and the loop does not turn until the end
    let entered = 0;
    const next = (): void => {
      const nowMs = performance.now();
      // Whoever is let in to write waits once more. That must not become longer than the wait at the door.
      const isOver = nowMs >= endMs || storage.writeBacklogMs > patienceMs / 2;
      const first = isOver && entered > 0 ? undefined : this.#takeFirst();
      if (first === undefined) {
        endReads();
        this.#elseSinceMs = nowMs;
        setImmediate(this.#nextTurn);
        return;
      }
      this.#letIn++;
      const behind = this.#waiting + storage.waitingWrites;
      if (nowMs - first.sinceMs > patienceMs && behind > neverRefused) {
        first.refuse(this.#refuse(nowMs));
      } else {
        entered++;
        first.enter();
      }
      queueMicrotask(() => process.nextTick(next)); // a tick that is set by a microtask comes after the last of them
    };
    next();
  }

  #takeFirst(): Waiting | undefined {
    const { reads, others } = this.#lines;
    if (this.#waiting > neverRefused) {
      // In a flood whoever came first: else those of the longer line would be refused only after a long wait.
      return (reads[0]?.sinceMs ?? Number.POSITIVE_INFINITY) < (others[0]?.sinceMs ?? Number.POSITIVE_INFINITY)
        ? reads.shift()
        : others.shift();
    }
    const next: Line = this.#lineBefore === 'reads' ? 'others' : 'reads';
    if (this.#lines[next].length > 0) this.#lineBefore = next;
    return this.#lines[this.#lineBefore].shift();
  }

  #refuse(nowMs: number): DomainError {
    this.#refused++;
    if (nowMs - this.#told.atMs > 10_000) {
      this.#options.onRefusal(this.#refused - this.#told.refused);
      this.#told.refused = this.#refused;
      this.#told.atMs = nowMs;
    }
    return this.#refusal;
  }
}
