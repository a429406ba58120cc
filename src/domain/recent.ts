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

  /** @param maxWeight of all that is kept, in bytes or whatever `keep` is told */
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

  keep(id: string, version: number, value: T, weight: number): void {
    const isAgain = this.#kept.get(id)?.version === version;
    this.#forget(id);
    const entry = isAgain ? { version, value, weight } : { version, value: undefined, weight: id.length };
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
