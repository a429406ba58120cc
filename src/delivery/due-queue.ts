/** An item of a queue. It may be in one queue at a time. */
export interface Dated {
  dueAtMs: number;
  /** Its index in the heap of the queue; -1 if it is in none. */
  heapIndex: number;
}

/** A priority queue by due time: a binary heap whose items know their index, so that any of them can be moved. */
export class DueQueue<T extends Dated> {
  readonly #heap: T[] = [];

  /** The due time of the first item; infinite if there is none. */
  get firstMs(): number {
    return this.#heap[0]?.dueAtMs ?? Number.POSITIVE_INFINITY;
  }

  /** Adds an item, or moves it after its due time has changed. */
  put(item: T): void {
    if (item.heapIndex === -1) {
      item.heapIndex = this.#heap.length;
      this.#heap.push(item);
    }
    this.#rise(item);
    this.#sink(item);
  }

  remove(item: T): void {
    if (item.heapIndex === -1) return;
    const last = this.#heap.pop();
    if (last !== undefined && last !== item) {
      this.#set(item.heapIndex, last);
      this.#rise(last);
      this.#sink(last);
    }
    item.heapIndex = -1;
  }

  /** Removes and returns the first item if it is due at `nowMs`. */
  take(nowMs: number): T | undefined {
    const [first] = this.#heap;
    if (first === undefined || first.dueAtMs > nowMs) return undefined;
    this.remove(first);
    return first;
  }

  #set(index: number, item: T): void {
    this.#heap[index] = item;
    item.heapIndex = index;
  }

  #rise(item: T): void {
    for (;;) {
      const index = item.heapIndex;
      const parent = this.#heap[(index - 1) >> 1];
      if (parent === undefined || parent.dueAtMs <= item.dueAtMs) return;
      this.#set(parent.heapIndex, item);
      this.#set(index, parent);
    }
  }

  #sink(item: T): void {
    for (;;) {
      const index = item.heapIndex;
      const [left, right] = [this.#heap[2 * index + 1], this.#heap[2 * index + 2]];
      const child = right !== undefined && left !== undefined && right.dueAtMs < left.dueAtMs ? right : left;
      if (child === undefined || child.dueAtMs >= item.dueAtMs) return;
      this.#set(child.heapIndex, item);
      this.#set(index, child);
    }
  }
}
