/** The limit on the memory of all caches, in bytes. */
const maxBytes = 32 * 1024 * 1024;

/** A cache that may be emptied at any time. */
interface Cache {
  /** Empties the cache, and reports its size as 0. */
  clear(): void;
}

/**
 * Bounds the memory that the tails of all accounts take together. When there is too much, the tails that have not grown
 * for the longest time are cleared; their followers read from the storage.
 */
export class TailBudget {
  /** The sizes of caches that are not empty, least recently grown first. */
  readonly #sizes = new Map<Cache, number>();
  #bytes = 0;

  /** Reports the present size of a cache. It must be below the limit on all caches. */
  resize(cache: Cache, bytes: number): void {
    const before = this.#sizes.get(cache) ?? 0;
    this.#bytes += bytes - before;
    this.#sizes.delete(cache);
    if (bytes > 0) this.#sizes.set(cache, bytes);
    if (bytes <= before) return;
    for (const oldest of this.#sizes.keys()) {
      if (this.#bytes <= maxBytes) return;
      oldest.clear();
    }
  }
}
