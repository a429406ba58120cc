import { setImmediate as nextTurn } from 'node:timers/promises';

/** Divides the time of writes into slices, between which the event loop turns. */
export class Slices {
  readonly #minMs: number;
  #limitMs: number;
  #endedMs = 0;
  #startedMs = 0;

  /** @param minMs how long a slice may last at least */
  constructor(minMs: number) {
    this.#minMs = minMs;
    this.#limitMs = minMs;
  }

  /** Begins the first slice of a group of writes. */
  begin(): void {
    this.#endedMs = 0;
    this.#startedMs = performance.now();
  }

  /** How long a slice may last: as long as the last turn of the event loop did. However busy it is, writes get half. */
  get limitMs(): number {
    return this.#limitMs;
  }

  /** How long the group has held the event loop so far, without the turns in between. */
  get heldMs(): number {
    return this.#endedMs + performance.now() - this.#startedMs;
  }

  /**
   * Yields to the event loop if the slice is over.
   * @param leastMs how long it may last at least
   */
  async yieldIfOver(leastMs = 0): Promise<void> {
    if (performance.now() - this.#startedMs >= Math.max(leastMs, this.#limitMs)) await this.yield();
  }

  /** Yields to the event loop. */
  async yield(): Promise<void> {
    const leftMs = performance.now();
    await nextTurn();
    this.#endedMs += leftMs - this.#startedMs;
    this.#startedMs = performance.now();
    this.#limitMs = Math.max(this.#minMs, this.#startedMs - leftMs);
  }
}
