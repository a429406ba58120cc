/** Time for which one transaction changes rows. Committing them takes about as long again. */
const maxMs = 4;
/** Rows changed by one transaction, at most. */
const maxRows = 128;

/**
 * The share of a large change that one transaction does. A transaction blocks the event loop, and rows can be large,
 * so the limit is mainly one of time; other requests run between the transactions.
 */
export class Portion {
  readonly #endsMs = performance.now() + maxMs;
  #rows = 0;

  /** Counts changed rows. @returns whether the rest should go into another transaction */
  isFullWith(rows: number): boolean {
    this.#rows += rows;
    return this.#rows >= maxRows || performance.now() > this.#endsMs;
  }
}
