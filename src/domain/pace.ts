/** How much of what was seen before counts beside what is seen now. */
const keeps = 0.95;

/** How long things take on the average of late. One that took much longer is one of many, and changes little. */
export class Pace {
  #count = 0;
  #ms = 0;

  get eachMs(): number {
    return this.#count === 0 ? 0 : this.#ms / this.#count;
  }

  /** Notes how long some things took together. */
  add(count: number, tookMs: number): void {
    this.#count = this.#count * keeps + count;
    this.#ms = this.#ms * keeps + tookMs;
  }
}
