/**
 * A queue that is fair by account: one item of each account in turn, or as many as its turn has time for, those of one
 * account in the order they came. An item that turned out to take as long as many can be counted as so many.
 */
export class FairQueue<T> {
  /** The items by account; the account whose turn it is comes first. */
  readonly #byAccount = new Map<string, T[]>();
  /** Whose the last item was that was taken. */
  #last = '';
  /** How many turns accounts have had in advance. */
  readonly #owed = new Map<string, number>();
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
    this.#passOver();
    const [first] = this.#byAccount;
    if (first === undefined) return undefined;
    const [accountId, items] = first;
    this.#last = accountId;
    const item = this.#takeFrom(accountId, items);
    if (items.length > 0) this.#putLast(accountId, items);
    return item;
  }

  /** Takes the next items one by one, at most so many of each account. */
  *takeOfEach(most: number): Generator<T, undefined> {
    for (let round = 0; round < most; round++) {
      for (let left = this.#byAccount.size; left > 0; left--) {
        const item = this.take();
        if (item !== undefined) yield item;
      }
    }
    return undefined;
  }

  /** Takes another item of the account that had the last turn, as a part of that turn. */
  takeMore(): T | undefined {
    const items = this.#byAccount.get(this.#last);
    return items && this.#takeFrom(this.#last, items);
  }

  #takeFrom(accountId: string, items: T[]): T | undefined {
    const item = items.shift();
    this.#size--;
    if (items.length === 0) this.#byAccount.delete(accountId);
    if (this.#size === 0) this.#owed.clear();
    return item;
  }

  /** Counts what was taken of an account as so many more turns, if others wait for theirs. */
  charge(accountId: string, turns: number): void {
    if (turns > 0 && this.#size > 0) this.#owed.set(accountId, (this.#owed.get(accountId) ?? 0) + turns);
  }

  /** Lets those wait who have had turns in advance, as long as there are others. */
  #passOver(): void {
    while (this.#owed.size > 0 && this.#byAccount.size > 1) {
      const [[accountId, items] = ['', []]] = this.#byAccount;
      const owed = this.#owed.get(accountId);
      if (owed === undefined) return;
      if (owed > 1) this.#owed.set(accountId, owed - 1);
      else this.#owed.delete(accountId);
      this.#putLast(accountId, items);
    }
  }

  #putLast(accountId: string, items: T[]): void {
    if (this.#byAccount.size === 1) return;
    this.#byAccount.delete(accountId);
    this.#byAccount.set(accountId, items);
  }

  /**
   * About how many items would be taken before the next one of this account: it shares the queue with all others.
   * @param inTurn how many are taken of an account in a turn
   */
  before(accountId: string, inTurn = 1): number {
    const own = this.#byAccount.get(accountId)?.length ?? 0;
    return Math.min(this.#size, Math.ceil((own + 1) / inTurn) * this.#byAccount.size * inTurn);
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
    if (this.#size === 0) this.#owed.clear();
    return removed;
  }
}
