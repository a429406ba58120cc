interface Cache {
  /** Empties the cache. */
  clear(): void;
}

/** The most text of responses to cache for the subscriptions of an account, and for all. In UTF-16 code units. */
const maxCachedOfAccount = 1024 * 1024;
const maxCached = 16 * maxCachedOfAccount;

/**
 * Counts the text of the cached responses. A response can be a thousand times as long as its event, because aliases
 * repeat its fields, and an account can have thousands of different subscriptions. Where there is too much, what the
 * account has cached goes, or what the one has that has cached most: it is computed again for those that need it. Some of
 * what is counted may have gone with its event.
 */
export class CachedText {
  readonly #accounts = new Map<string, Map<Cache, number>>();
  readonly #ofAccounts = new Map<string, number>();
  #all = 0;

  add(accountId: string, cache: Cache, length: number): void {
    if ((this.#ofAccounts.get(accountId) ?? 0) + length > maxCachedOfAccount) this.#emptyAll(accountId);
    while (this.#all + length > maxCached) this.#emptyAll(this.#largest());
    const caches = this.#accounts.get(accountId) ?? new Map<Cache, number>();
    this.#accounts.set(accountId, caches);
    caches.set(cache, (caches.get(cache) ?? 0) + length);
    this.#count(accountId, length);
  }

  empty(accountId: string, cache: Cache): void {
    cache.clear();
    const caches = this.#accounts.get(accountId);
    const length = caches?.get(cache) ?? 0;
    caches?.delete(cache);
    if (caches?.size === 0) this.#accounts.delete(accountId);
    this.#count(accountId, -length);
  }

  #emptyAll(accountId: string): void {
    for (const cache of this.#accounts.get(accountId)?.keys() ?? []) this.empty(accountId, cache);
  }

  #largest(): string {
    let [largest, most] = ['', 0];
    for (const [accountId, length] of this.#ofAccounts) if (length > most) [largest, most] = [accountId, length];
    return largest;
  }

  #count(accountId: string, length: number): void {
    const ofAccount = (this.#ofAccounts.get(accountId) ?? 0) + length;
    if (ofAccount > 0) this.#ofAccounts.set(accountId, ofAccount);
    else this.#ofAccounts.delete(accountId);
    this.#all += length;
  }
}
