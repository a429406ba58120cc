/** So many texts may wait before they are indexed: whoever searches looks at each of them. */
const maxWaiting = 128;

/** Sees to it that texts do not wait for long: once there are some, it indexes them, in transactions of their own. */
export class SearchIndexer {
  readonly #index: () => Promise<boolean>;
  #waiting = 0;
  #isRunning = false;

  /** @param index indexes some, and says whether none are left */
  constructor(index: () => Promise<boolean>) {
    this.#index = index;
  }

  /** A transaction has written a text. It may still be rolled back: looking for it in vain does no harm. */
  readonly added = (): void => {
    this.#waiting++;
  };

  /** To be called after each transaction. */
  committed(): void {
    if (this.#waiting >= maxWaiting && !this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      do this.#waiting = 0;
      while (!(await this.#index()));
    } catch {
      // The texts wait on. They are found all the same, and maintenance tries again every minute and reports it.
    } finally {
      this.#isRunning = false;
    }
  }
}
