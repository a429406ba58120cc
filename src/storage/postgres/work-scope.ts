/** What a unit of work has done with its transaction, and whether it may still use it: after the end every call throws. */
export class WorkScope {
  /** Whether it has changed anything, or tried to. */
  hasWritten = false;
  #hasEnded = false;
  readonly #calls: Promise<unknown>[] = [];

  /** Adds a call of the transaction, which may not be over when its work is: what it does next would be done outside. */
  call<T>(method: () => T): T {
    if (this.#hasEnded) throw new Error('A storage transaction was used after it had ended');
    const result = method();
    if (result instanceof Promise) this.#calls.push(result);
    return result;
  }

  /** Lets no further calls begin, and resolves when those that have are over. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    await Promise.allSettled(this.#calls);
  }
}

/**
 * Wraps a group of queries for writers: every call first checks whether the work may still use its transaction.
 * @returns makes the wrapped group for one work
 */
export function scoped<Reads extends object, Writes extends object>(
  reads: Reads,
  writes: Writes,
): (scope: WorkScope) => Reads & Writes {
  // A class, so that a work costs one small object per group and no closures.
  class Scoped {
    readonly scope: WorkScope;
    constructor(scope: WorkScope) {
      this.scope = scope;
    }
  }
  for (const group of [reads, writes]) {
    for (const [name, method] of Object.entries(group) as [string, (...args: never[]) => unknown][]) {
      Object.defineProperty(Scoped.prototype, name, {
        value(this: Scoped, ...args: never[]): unknown {
          if (group === writes) this.scope.hasWritten = true;
          return this.scope.call(() => method(...args));
        },
      });
    }
  }
  return (scope) => new Scoped(scope) as unknown as Reads & Writes;
}
