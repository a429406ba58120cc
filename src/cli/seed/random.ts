/**
 * Chance that can be repeated: the same seed and the same stream give the same numbers, whatever else is drawn in
 * between. The generator is mulberry32. Nothing that has to be unpredictable is made with it.
 */
export class Random {
  #state: number;

  /** @param stream a number for each thing that is to have chances of its own */
  constructor(seed: number, stream: number) {
    this.#state = scramble(scramble(seed >>> 0) ^ stream);
  }

  /** From 0, included, to 1, excluded. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number, both ends included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)] as T;
  }

  /**
   * A log-normal number: half of them lie below the median, and the larger sigma is, the longer is the tail.
   * How long people take to answer is spread so.
   */
  logNormal(median: number, sigma: number): number {
    // Box and Muller's way to a normal number; one minus keeps the logarithm from zero.
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
    return median * Math.exp(sigma * normal);
  }
}

/** Spreads neighbouring numbers over all of 32 bits. */
function scramble(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
