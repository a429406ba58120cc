import { Histogram } from './histogram.ts';

const everyMs = 20;

/**
 * How late timers fire, which shows how long the event loop was blocked. Node's own monitor reports quantiles since its
 * last reset, which two scrapers would reset for each other.
 */
export class EventLoopDelay {
  readonly seconds = new Histogram([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]);
  #timer: NodeJS.Timeout | undefined;

  start(): void {
    let dueMs = performance.now() + everyMs;
    this.#timer ??= setInterval(() => {
      const nowMs = performance.now();
      this.seconds.observe(Math.max(0, nowMs - dueMs) / 1_000);
      dueMs = nowMs + everyMs;
    }, everyMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
