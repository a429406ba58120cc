/** Time for which one transaction changes rows. Committing them takes about as long again. */
const maxMs = 4;
/** Rows changed by one transaction, at most. */
const maxRows = 128;

/**
 * What one transaction does of a large change. A transaction blocks the event loop, and rows can be large, so the limit
 * is mainly one of time; other requests run between the transactions.
 */
export class TimeBudget {
  readonly #endsMs = performance.now() + maxMs;
  #rows = 0;

  /** Counts changed rows. @returns whether the rest should go into another transaction */
  isSpentWith(rows: number): boolean {
    this.#rows += rows;
    return this.#rows >= maxRows || performance.now() > this.#endsMs;
  }
}
