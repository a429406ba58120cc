import type { Clock } from './ports.ts';

/**
 * A reading of the limiter's clock and, at the same moment, of the machine's: from it the clock continues after a
 * restart.
 */
export interface ClockReading {
  readonly atMs: number;
  /** The machine's time of day, in epoch milliseconds. */
  readonly wallMs: number;
  readonly uptimeMs: number;
  readonly boot: string;
  /** How long the answer took, where it came from elsewhere: the clock may be ahead of the reading by this. */
  readonly uncertaintyMs?: number;
}

/** The machine's clock counts as set when it deviates from the expected time by more than this. */
const toleranceMs = 100;

/**
 * The limiter's clock: monotonic, even when the machine's clock is set, continued across restarts, and shared by all
 * processes on a database. Close to the time of day but not equal to it; it serves to measure elapsed time.
 */
export class SteadyClock {
  readonly #clock: Clock;
  /** From the machine's uptime to the earliest that this clock can be. */
  #offsetMs = 0;
  /** By how much it can be later. */
  #uncertaintyMs = 0;
  /** From this clock to the time of day. */
  #aheadMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The earliest that it can be, in milliseconds. Meaningless before the first `goOnFrom`. */
  earliest(): number {
    return this.#clock.uptimeMs() + this.#offsetMs;
  }

  /** The latest that it can be. */
  latest(): number {
    return this.earliest() + this.#uncertaintyMs;
  }

  /**
   * Continues from the last stored reading, of any process.
   * @param kept undefined if none was stored yet: then the clock starts at the time of day
   * @returns the current reading, at the earliest that it can be
   */
  goOnFrom(kept: ClockReading | undefined): ClockReading {
    const { boot } = this.#clock;
    const [wallMs, uptimeMs] = [this.#clock.now(), this.#clock.uptimeMs()];
    const atMs = kept === undefined ? wallMs : kept.atMs + passedMs(kept, { wallMs, uptimeMs, boot });
    this.#offsetMs = atMs - uptimeMs;
    this.#uncertaintyMs = kept?.uncertaintyMs ?? 0;
    return { atMs, wallMs, uptimeMs, boot };
  }

  /**
   * The time of day at which this clock will reach a time, unless the machine's clock is set until then.
   * @param nowMs the current time of this clock
   */
  toEpochMs(atMs: number, nowMs: number): number {
    const aheadMs = this.#clock.now() - nowMs;
    if (Math.abs(aheadMs - this.#aheadMs) > toleranceMs) this.#aheadMs = aheadMs;
    return atMs + this.#aheadMs;
  }
}

/** After a reboot only the time of day can tell how much time has passed. */
function passedMs(kept: ClockReading, { wallMs, uptimeMs, boot }: Omit<ClockReading, 'atMs'>): number {
  if (kept.boot === boot && kept.uptimeMs <= uptimeMs) return uptimeMs - kept.uptimeMs;
  return Math.max(0, wallMs - kept.wallMs);
}

/** Whether the machine was neither rebooted between two readings, nor its clock set. */
export function leadsTo(from: ClockReading, to: ClockReading): boolean {
  const setByMs = to.wallMs - to.atMs - (from.wallMs - from.atMs);
  return from.boot === to.boot && from.uptimeMs <= to.uptimeMs && Math.abs(setByMs) <= toleranceMs;
}
