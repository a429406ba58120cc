/** Lets only a few pieces of work of each account be under way at the same time. The others wait, in their order. */
export class FewAtOnce {
  readonly #limit: number;
  readonly #byAccount = new Map<string, { running: number; readonly waiting: (() => void)[] }>();

  /** @param limit how many of an account are under way at most */
  constructor(limit: number) {
    this.#limit = limit;
  }

  async run<T>(accountId: string, work: () => T | Promise<T>): Promise<T> {
    const account = this.#byAccount.get(accountId) ?? { running: 0, waiting: [] };
    this.#byAccount.set(accountId, account);
    if (account.running < this.#limit) account.running++;
    else await new Promise<void>((enter) => account.waiting.push(enter));
    try {
      return await work();
    } finally {
      const next = account.waiting.shift();
      if (next !== undefined)
        next(); // its place stays taken
      else if (--account.running === 0) this.#byAccount.delete(accountId);
    }
  }
}
