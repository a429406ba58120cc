/** A queue that is fair by account: one item of each account in turn, those of one account in the order they came. */
export class FairQueue<T> {
  /** The items by account; the account whose turn it is comes first. */
  readonly #byAccount = new Map<string, T[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(accountId: string, item: T): void {
    const items = this.#byAccount.get(accountId);
    if (items === undefined) this.#byAccount.set(accountId, [item]);
    else items.push(item);
    this.#size++;
  }

  /** Takes the next item. */
  take(): T | undefined {
    const [first] = this.#byAccount;
    if (first === undefined) return undefined;
    const [accountId, items] = first;
    const item = items.shift();
    this.#size--;
    if (items.length === 0) this.#byAccount.delete(accountId);
    else if (this.#byAccount.size > 1) {
      this.#byAccount.delete(accountId);
      this.#byAccount.set(accountId, items);
    }
    return item;
  }

  /** About how many items would be taken before the next one of this account: it shares the queue with all others. */
  before(accountId: string): number {
    const own = this.#byAccount.get(accountId)?.length ?? 0;
    return Math.min(this.#size, (own + 1) * this.#byAccount.size);
  }

  /** Removes and returns the items for which this holds. */
  removeWhere(condition: (item: T) => boolean): T[] {
    const removed: T[] = [];
    for (const [accountId, items] of this.#byAccount) {
      const left = items.filter((item) => !condition(item));
      if (left.length === items.length) continue;
      removed.push(...items.filter(condition));
      if (left.length === 0) this.#byAccount.delete(accountId);
      else this.#byAccount.set(accountId, left);
    }
    this.#size -= removed.length;
    return removed;
  }
}
