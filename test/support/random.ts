/**
 * A reproducible random number generator: the same seed and stream give the same numbers, whatever other instances draw
 * in between. The algorithm is mulberry32, which is not fit for anything that must be unpredictable.
 */
export class Random {
  #state: number;

  /** @param stream selects one of many independent sequences of the same seed */
  constructor(seed: number, stream: number) {
    this.#state = scramble(scramble(seed >>> 0) ^ stream);
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number, both bounds inclusive. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  /** A whole number from 0, below the limit. */
  below(limit: number): number {
    return this.integer(0, limit - 1);
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)] as T;
  }

  /**
   * A log-normally distributed number, as the times that people take to answer are. Half of them are below the median,
   * and a larger sigma gives a longer tail.
   */
  logNormal(median: number, sigma: number): number {
    // The Box-Muller transform; `1 -` avoids the logarithm of zero.
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
    return median * Math.exp(sigma * normal);
  }
}

/** Spreads neighbouring numbers over all 32 bits (the finalizer of MurmurHash3). */
function scramble(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
