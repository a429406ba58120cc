/** What an entry takes besides its id and its value, in bytes: its place in a map, itself and the head of the id. Measured. */
const entryWeight = 120;
/** As soon as a text has one of these, V8 keeps each of its characters in two bytes. */
const wide = /[\u0100-\uffff]/;

/** What the characters of a text take in memory, in bytes. */
export function textWeight(text: string): number {
  return wide.test(text) ? 2 * text.length : text.length;
}

interface Entry<T> {
  readonly version: number;
  /** Undefined when it was made but once. */
  readonly value: T | undefined;
  readonly weight: number;
}

/**
 * Keeps what was made last of things that have a version, by id. What is kept is exact as long as whoever asks
 * has just seen the thing's version: ids are never used twice, and every change of a thing is a new version of it.
 *
 * What is made for the first time is only taken note of, and kept when it is made again: most of what is read once
 * has changed before anybody comes back to it, and would in the meantime be work for the collection of garbage.
 */
export class Recent<T> {
  readonly #maxWeight: number;
  /** In the order of their last use. */
  readonly #kept = new Map<string, Entry<T>>();
  #weight = 0;

  /** @param maxWeight of all that is kept, in bytes */
  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  get(id: string, version: number): T | undefined {
    const found = this.#kept.get(id);
    if (found?.value === undefined || found.version !== version) return undefined;
    this.#kept.delete(id);
    this.#kept.set(id, found);
    return found.value;
  }

  /** @param weight what the value takes in memory, in bytes */
  keep(id: string, version: number, value: T, weight: number): void {
    const isAgain = this.#kept.get(id)?.version === version;
    this.#forget(id);
    const ownWeight = entryWeight + textWeight(id);
    const entry = isAgain
      ? { version, value, weight: ownWeight + weight }
      : { version, value: undefined, weight: ownWeight };
    this.#kept.set(id, entry);
    this.#weight += entry.weight;
    for (const oldest of this.#kept.keys()) {
      if (this.#weight <= this.#maxWeight) return;
      this.#forget(oldest);
    }
  }

  #forget(id: string): void {
    this.#weight -= this.#kept.get(id)?.weight ?? 0;
    this.#kept.delete(id);
  }
}
