import { setImmediate as nextTurn } from 'node:timers/promises';

/** Divides the time of one group of writes into slices, between which the event loop turns. */
export class Slices {
  readonly #minMs: number;
  #limitMs: number;
  #endedMs = 0;
  #startedMs = performance.now();

  constructor(minMs: number) {
    this.#minMs = minMs;
    this.#limitMs = minMs;
  }

  /** How long the group has held the event loop so far, without the turns in between. */
  get heldMs(): number {
    return this.#endedMs + performance.now() - this.#startedMs;
  }

  /**
   * Yields to the event loop if the slice is over. The next slice may last as long as that turn did: however busy the
   * loop is, writes get half of it.
   */
  async yieldIfOver(): Promise<void> {
    if (performance.now() - this.#startedMs >= this.#limitMs) {
      this.#limitMs = Math.max(this.#minMs, await this.yield());
    }
  }

  /** Yields to the event loop. @returns how long that turn took */
  async yield(): Promise<number> {
    const leftMs = performance.now();
    await nextTurn();
    this.#endedMs += leftMs - this.#startedMs;
    this.#startedMs = performance.now();
    return this.#startedMs - leftMs;
  }
}
