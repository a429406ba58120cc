/** Measured overhead of an entry in bytes, without the characters of its id and its value. */
const entryWeight = 120;
/** If a string contains one of these, V8 stores all its characters in two bytes each. */
const wide = /[\u0100-\uffff]/;

/** Memory of a string's characters in bytes. */
export function textWeight(text: string): number {
  return wide.test(text) ? 2 * text.length : text.length;
}

interface Entry<T> {
  readonly version: number;
  /** Undefined if the value was requested only once so far. */
  readonly value: T | undefined;
  readonly weight: number;
}

/**
 * An LRU cache of values derived from versioned resources, by id. It is never stale as long as its users have just read
 * the resource's version: ids are never reused, and every change makes a new version.
 *
 * The first `keep` of a version stores only a note, the second one the value: most resources read once have changed
 * before they are read again, and caching them would be work for the garbage collector.
 */
export class VersionedCache<T> {
  readonly #maxWeight: number;
  /** Least recently used first. */
  readonly #kept = new Map<string, Entry<T>>();
  #weight = 0;

  /** @param maxWeight of the whole cache, in bytes */
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

  /** @param weight memory of the value in bytes */
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
