import type { Connection } from './open.ts';

/**
 * Tells whether anything was committed, in any process: `PRAGMA data_version` of a connection changes with each commit
 * of another one. Asking costs a good part of what a query does, so one answer serves everything that is read until the
 * event loop goes on: all of those requests had come in before it was asked.
 */
export class Commits {
  readonly #dataVersion: () => unknown;
  #version: unknown;
  #state = 0;
  #isKnown = false;
  #isHeld = false;

  /** @param connection a read-only one: its own commits would not show */
  constructor(connection: Connection) {
    const statement = connection.prepare('PRAGMA data_version').pluck();
    this.#dataVersion = () => statement.get();
  }

  /** A number that changes with the next commit. */
  get state(): number {
    if (this.#isKnown) return this.#state;
    const version = this.#dataVersion();
    if (version !== this.#version) {
      this.#version = version;
      this.#state++;
    }
    this.#isKnown = true;
    if (!this.#isHeld) process.nextTick(this.askAgain);
    return this.#state;
  }

  /** To be called when something may have been committed: the next read asks again. */
  readonly askAgain = (): void => {
    this.#isKnown = false;
  };

  /**
   * From here on one answer serves all reads. Only for requests that have come in already, and until the loop turns.
   * @returns a function that ends this
   */
  hold(): () => void {
    this.#isHeld = true;
    this.#isKnown = false;
    return () => {
      this.#isHeld = false;
      this.#isKnown = false;
    };
  }
}

/** Caches until the next commit. What was not found is not cached: callers could make up endless keys. */
export class CommitCache<T> {
  readonly #commits: Commits;
  readonly #maxWeight: number;
  readonly #weigh: (value: NonNullable<T>) => number;
  readonly #entries = new Map<string, T>();
  #weight = 0;
  #state = -1;

  /**
   * @param maxWeight of all entries together
   * @param weigh the weight of an entry, with its key; by default each is 1
   */
  constructor(commits: Commits, maxWeight: number, weigh: (value: NonNullable<T>) => number = () => 1) {
    this.#commits = commits;
    this.#maxWeight = maxWeight;
    this.#weigh = weigh;
  }

  /** The cached value, or what `read` returns. */
  get(key: string, read: () => T): T {
    const { state } = this.#commits;
    if (state !== this.#state) this.#clear();
    this.#state = state;
    const cached = this.#entries.get(key);
    if (cached !== undefined) return cached;
    const value = read();
    if (value == null) return value;
    const weight = this.#weigh(value);
    if (this.#weight + weight > this.#maxWeight) this.#clear();
    this.#entries.set(key, value);
    this.#weight += weight;
    return value;
  }

  #clear(): void {
    this.#entries.clear();
    this.#weight = 0;
  }
}
