import type { Connection } from './open.ts';

/**
 * Says whether anybody has committed anything, in whichever process: `PRAGMA data_version` of a connection changes
 * with each commit of another one. To ask takes a good part of a query, so one answer serves whatever is read before
 * the loop goes on to something else, by requests that had all come before it was asked.
 */
export class Commits {
  readonly #dataVersion: () => unknown;
  #version: unknown;
  #state = 0;
  #isKnown = false;
  #isHeld = false;

  /** @param connection one that only reads: its own commits would not show */
  constructor(connection: Connection) {
    const statement = connection.prepare('PRAGMA data_version').pluck();
    this.#dataVersion = () => statement.get();
  }

  /** A number that stays the same until the next commit. */
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

  /** Somebody may have committed. */
  readonly askAgain = (): void => {
    this.#isKnown = false;
  };

  /**
   * From here on one answer serves all that is read: only for those who have come before, and until the loop turns.
   * @returns ends that
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

/** Keeps what was read until anybody commits anything, but not that there is nothing: the keys of that can be any. */
export class CommitCache<T> {
  readonly #commits: Commits;
  readonly #maxWeight: number;
  readonly #weigh: (value: NonNullable<T>) => number;
  readonly #kept = new Map<string, T>();
  #weight = 0;
  #state = -1;

  /**
   * @param maxWeight of all that is kept
   * @param weigh says what a thing weighs, with its key; by default they are counted
   */
  constructor(commits: Commits, maxWeight: number, weigh: (value: NonNullable<T>) => number = () => 1) {
    this.#commits = commits;
    this.#maxWeight = maxWeight;
    this.#weigh = weigh;
  }

  /** What `read` returns, or has returned since the last commit. */
  get(key: string, read: () => T): T {
    const { state } = this.#commits;
    if (state !== this.#state) this.#forget();
    this.#state = state;
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const value = read();
    if (value == null) return value;
    const weight = this.#weigh(value);
    if (this.#weight + weight > this.#maxWeight) this.#forget();
    this.#kept.set(key, value);
    this.#weight += weight;
    return value;
  }

  #forget(): void {
    this.#kept.clear();
    this.#weight = 0;
  }
}
