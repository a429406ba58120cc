/** Weight of earlier measurements at each new one. */
const keeps = 0.95;

/** A moving average of durations per item. A single slow item changes it little. */
export class MovingAverage {
  #count = 0;
  #ms = 0;

  get eachMs(): number {
    return this.#count === 0 ? 0 : this.#ms / this.#count;
  }

  /** Adds a measurement: the total duration of several items. */
  add(count: number, tookMs: number): void {
    this.#count = this.#count * keeps + count;
    this.#ms = this.#ms * keeps + tookMs;
  }
}
