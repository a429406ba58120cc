/**
 * Keeps what was made last of things that have a version, by id. What is kept is exact as long as whoever asks
 * has just seen the thing's version: ids are never used twice, and every change of a thing is a new version of it.
 */
export class Recent<T> {
  readonly #maxWeight: number;
  /** In the order of their last use. */
  readonly #kept = new Map<string, { readonly version: number; readonly value: T; readonly weight: number }>();
  #weight = 0;

  /** @param maxWeight of all that is kept, in bytes or whatever `keep` is told */
  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  get(id: string, version: number): T | undefined {
    const found = this.#kept.get(id);
    if (found === undefined || found.version !== version) return undefined;
    this.#kept.delete(id);
    this.#kept.set(id, found);
    return found.value;
  }

  keep(id: string, version: number, value: T, weight: number): void {
    this.#forget(id);
    this.#kept.set(id, { version, value, weight });
    this.#weight += weight;
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
