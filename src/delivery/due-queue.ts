/** Something that has a place in a queue by the time at which it is due. */
export interface Dated {
  dueAtMs: number;
  /** Its place in the queue's heap; -1 when it is in none. */
  heapIndex: number;
}

/** A queue from which the first that is due is taken: a binary heap whose members know their place in it. */
export class DueQueue<T extends Dated> {
  readonly #heap: T[] = [];

  /** When the first is due; infinite when there is none. */
  get firstMs(): number {
    return this.#heap[0]?.dueAtMs ?? Number.POSITIVE_INFINITY;
  }

  /** Puts it in, or in its new place when its time has changed. */
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

  /** Takes out the first if it is due by a time. */
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
