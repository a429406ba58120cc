/** How much all may weigh together, in bytes. */
const maxWeight = 32 * 1024 * 1024;

/** One that keeps what it can do without. */
interface Keeper {
  /** Lets go of all that it keeps, and notes so. */
  forget(): void;
}

/**
 * What the tails of all accounts keep together, however many are followed. When it is too much, those that have had
 * nothing new for the longest time let go of theirs: who needs it reads the storage.
 */
export class TailBudget {
  /** Of those that keep anything, the one that has grown last at the end. */
  readonly #weights = new Map<Keeper, number>();
  #weight = 0;

  /** Notes how much one keeps now. It must be less than all may. */
  note(keeper: Keeper, weight: number): void {
    const before = this.#weights.get(keeper) ?? 0;
    this.#weight += weight - before;
    this.#weights.delete(keeper);
    if (weight > 0) this.#weights.set(keeper, weight);
    if (weight <= before) return;
    for (const quietest of this.#weights.keys()) {
      if (this.#weight <= maxWeight) return;
      quietest.forget();
    }
  }
}
