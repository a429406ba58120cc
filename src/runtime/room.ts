interface RoomLimits {
  /** What all may hold together. */
  readonly size: number;
  /** What one account may hold. */
  readonly sizeOfAccount: number;
  /** How many of one account may wait. */
  readonly waitingOfAccount: number;
}

interface Waiting {
  readonly size: number;
  readonly enter: () => void;
}

/**
 * Lets work begin only while there is room for what it will hold in memory. What does not fit waits: that of one account
 * in its order, and the accounts by turns.
 */
export class Room {
  readonly #limits: RoomLimits;
  #held = 0;
  /** Whether somebody waits because all together hold so much: nobody who comes later goes first. */
  #isFull = false;
  readonly #heldByAccount = new Map<string, number>();
  /** By account; the one whose turn it is comes first. */
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(limits: RoomLimits) {
    this.#limits = limits;
  }

  /**
   * Waits for room. What is larger than all that an account may hold begins when the account holds nothing else.
   * @returns a function that leaves, however often it is called; undefined when too many of the account wait
   */
  enter(accountId: string, wanted: number): Promise<() => void> | (() => void) | undefined {
    const size = Math.min(wanted, this.#limits.sizeOfAccount);
    let isInside = true;
    const leave = (): void => {
      if (isInside) this.#leave(accountId, size);
      isInside = false;
    };
    const waiting = this.#waiting.get(accountId) ?? [];
    if (waiting.length === 0 && this.#fits(accountId, size)) {
      this.#isFull ||= this.#held + size > this.#limits.size;
      if (!this.#isFull) {
        this.#hold(accountId, size);
        return leave;
      }
    }
    if (waiting.length >= this.#limits.waitingOfAccount) return undefined;
    this.#waiting.set(accountId, waiting);
    return new Promise((resolve) => waiting.push({ size, enter: () => resolve(leave) }));
  }

  #fits(accountId: string, size: number): boolean {
    return (this.#heldByAccount.get(accountId) ?? 0) + size <= this.#limits.sizeOfAccount;
  }

  #hold(accountId: string, size: number): void {
    const ofAccount = (this.#heldByAccount.get(accountId) ?? 0) + size;
    if (ofAccount > 0) this.#heldByAccount.set(accountId, ofAccount);
    else this.#heldByAccount.delete(accountId);
    this.#held += size;
  }

  #leave(accountId: string, size: number): void {
    this.#hold(accountId, -size);
    this.#isFull = false;
    // An account that is let in goes to the end, and is looked at again there.
    for (const [next, waiting] of this.#waiting) {
      const [first] = waiting;
      if (first === undefined || !this.#fits(next, first.size)) continue;
      this.#isFull = this.#held + first.size > this.#limits.size;
      if (this.#isFull) return; // it comes first when more has left
      waiting.shift();
      this.#waiting.delete(next);
      if (waiting.length > 0) this.#waiting.set(next, waiting);
      this.#hold(next, first.size);
      first.enter();
    }
  }
}
