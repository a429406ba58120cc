/** How long one transaction takes rows away. To commit what it has changed takes about as long again. */
const maxMs = 4;
/** How many rows one transaction takes away at most. */
const maxRows = 128;

/**
 * How much one transaction takes away of what would be too much for one. A transaction holds the event loop, and rows
 * can be large: so it is the time that counts, and others come in between.
 */
export class Portion {
  readonly #endsMs = performance.now() + maxMs;
  #rows = 0;

  /** Counts rows that were taken away. @returns whether the rest is for another transaction */
  isFullWith(rows: number): boolean {
    this.#rows += rows;
    return this.#rows >= maxRows || performance.now() > this.#endsMs;
  }
}
