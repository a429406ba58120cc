import type { Connection } from './open.ts';

/**
 * Keeps what was read until anybody commits anything, in whichever process: `PRAGMA data_version` of a connection
 * changes with each commit of another one, and asking for it takes a fraction of a query.
 */
export class Unchanged<T> {
  readonly #dataVersion: () => unknown;
  readonly #maxKept: number;
  readonly #kept = new Map<string, T>();
  #version: unknown;
  #state = 0;

  /**
   * @param connection one that only reads: its own commits would not show
   * @param maxKept how many things at most
   */
  constructor(connection: Connection, maxKept: number) {
    this.#maxKept = maxKept;
    const statement = connection.prepare('PRAGMA data_version').pluck();
    this.#dataVersion = () => statement.get();
  }

  /**
   * What `read` returns, or has returned since the last commit.
   * @param read is told a number that stays the same until the next commit
   */
  get(key: string, read: (state: number) => T): T {
    const version = this.#dataVersion();
    if (version !== this.#version || this.#kept.size >= this.#maxKept) {
      this.#kept.clear();
      this.#version = version;
      this.#state++;
    }
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const value = read(this.#state);
    this.#kept.set(key, value);
    return value;
  }
}
