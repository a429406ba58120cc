import type { Clock, ClockReading } from '../domain/ports.ts';

/**
 * The limiter's clock. It goes on as time passes, whatever the machine's is set to, and over restarts; all processes on
 * one database go by the same. What it shows is near the time of day, unless that was wrong or is set: it is there to
 * tell how long ago something was.
 */
export class SteadyClock {
  readonly #clock: Clock;
  /** From the machine's uptime to this clock; undefined until it is set. */
  #offsetMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds. It means nothing before the first `keepUp`. */
  now(): number {
    return this.#clock.uptimeMs() + (this.#offsetMs ?? 0);
  }

  /**
   * Goes on from what was read last, by whichever process: nobody counts in a time before it.
   * @param latest undefined when nothing was ever read
   * @returns what it shows now
   */
  keepUp(latest: ClockReading | undefined): number {
    const uptimeMs = this.#clock.uptimeMs();
    this.#offsetMs ??= this.#goingOnFrom(latest) - uptimeMs;
    if (latest !== undefined) this.#offsetMs = Math.max(this.#offsetMs, latest.atMs - uptimeMs);
    return uptimeMs + this.#offsetMs;
  }

  reading(): ClockReading {
    const { boot } = this.#clock;
    return { atMs: this.now(), wallMs: this.#clock.now(), uptimeMs: this.#clock.uptimeMs(), boot };
  }

  /** The time of day at which this clock will show a time, to the second, if nobody sets the machine's until then. */
  toEpochMs(atMs: number): number {
    const aheadMs = this.#clock.now() - this.now();
    return atMs + Math.round(aheadMs / 1_000) * 1_000;
  }

  /** Where the machine was started anew since, only the time of day tells for how long nobody counted. */
  #goingOnFrom(latest: ClockReading | undefined): number {
    if (latest === undefined) return this.#clock.now();
    const uptimeMs = this.#clock.uptimeMs();
    const isSameBoot = this.#clock.boot === latest.boot && uptimeMs >= latest.uptimeMs;
    const passedMs = isSameBoot ? uptimeMs - latest.uptimeMs : this.#clock.now() - latest.wallMs;
    return latest.atMs + Math.max(0, passedMs);
  }
}
