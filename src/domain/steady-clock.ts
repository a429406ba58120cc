import type { Clock } from './ports.ts';

/** What the limiter's clock showed, and others at the same moment: from these it can go on after a restart. */
export interface ClockReading {
  readonly atMs: number;
  /** Epoch milliseconds, as the machine had them. */
  readonly wallMs: number;
  readonly uptimeMs: number;
  readonly boot: string;
}

/** When the machine's clock is off by no more than this from what it should be by now, nobody has set it. */
const toleranceMs = 100;

/**
 * The limiter's clock. It goes on as time passes, whatever the machine's is set to, and over restarts; all processes on
 * one database go by the same. What it shows is near the time of day, unless that was wrong or is set: it is there to
 * tell how long ago something was.
 */
export class SteadyClock {
  readonly #clock: Clock;
  /** From the machine's uptime to this clock. */
  #offsetMs = 0;
  /** From this clock to the time of day. */
  #aheadMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds. It means nothing before the first `goOnFrom`. */
  now(): number {
    return this.#clock.uptimeMs() + this.#offsetMs;
  }

  /**
   * Goes by what was kept last, by whichever process.
   * @param kept undefined when nothing was ever kept: then it begins with the time of day, until something is
   * @returns what it shows now
   */
  goOnFrom(kept: ClockReading | undefined): ClockReading {
    const { boot } = this.#clock;
    const [wallMs, uptimeMs] = [this.#clock.now(), this.#clock.uptimeMs()];
    const atMs = kept === undefined ? wallMs : kept.atMs + passedMs(kept, { wallMs, uptimeMs, boot });
    this.#offsetMs = atMs - uptimeMs;
    return { atMs, wallMs, uptimeMs, boot };
  }

  /**
   * The time of day at which this clock will show a time, if nobody sets the machine's until then.
   * @param nowMs what it shows now
   */
  toEpochMs(atMs: number, nowMs: number): number {
    const aheadMs = this.#clock.now() - nowMs;
    if (Math.abs(aheadMs - this.#aheadMs) > toleranceMs) this.#aheadMs = aheadMs;
    return atMs + this.#aheadMs;
  }
}

/** Where the machine was started anew since, only the time of day tells. */
function passedMs(kept: ClockReading, { wallMs, uptimeMs, boot }: Omit<ClockReading, 'atMs'>): number {
  if (kept.boot === boot && kept.uptimeMs <= uptimeMs) return uptimeMs - kept.uptimeMs;
  return Math.max(0, wallMs - kept.wallMs);
}

/** Whether the machine was neither started between two readings, nor its clock set. */
export function leadsTo(from: ClockReading, to: ClockReading): boolean {
  const setByMs = to.wallMs - to.atMs - (from.wallMs - from.atMs);
  return from.boot === to.boot && from.uptimeMs <= to.uptimeMs && Math.abs(setByMs) <= toleranceMs;
}
