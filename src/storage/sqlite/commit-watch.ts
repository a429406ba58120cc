import type { Touched } from '../../domain/storage-port.ts';
import { Touches } from '../touches.ts';
import { isBusy } from './errors.ts';
import type { Connection } from './open.ts';

type Listener = (touched?: Touched) => void;

/** How often to poll for other processes' commits, which costs about a microsecond each time. */
const pollMs = 20;

/**
 * Notifies listeners of commits. This process reports its own; those of others show in `PRAGMA data_version` of the
 * writing connection, which its own commits do not change.
 */
export class CommitWatch {
  /** What the current group has touched. */
  touches = new Touches();
  readonly #connection: Connection;
  readonly #emptyLog: () => void;
  readonly #erasureCount: { get(): unknown };
  readonly #listeners = new Set<Listener>();
  #hasErased = false;
  /** The number of erasures when those of other processes were last looked for. */
  #erasures: unknown;
  /** Whether there may be more by now. */
  #mayHaveErasures = false;
  #version = 0;
  #polling: NodeJS.Timeout | undefined;

  /**
   * @param reading another connection: the writing one sees what is not committed
   * @param emptyLog called when the write-ahead log holds copies of what was erased
   */
  constructor(connection: Connection, reading: Connection, emptyLog: () => void) {
    this.#connection = connection;
    this.#emptyLog = emptyLog;
    // No row until nothing is left to be erased: before that, the log would soon hold erased data again.
    this.#erasureCount = reading
      .prepare("SELECT value FROM meta WHERE name = 'erasures' AND NOT EXISTS (SELECT 1 FROM erasing)")
      .pluck();
    this.#erasures = this.#erasureCount.get();
  }

  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    if (this.#polling === undefined) {
      this.#version = this.#dataVersion();
      this.#mayHaveErasures = true;
      this.#polling = setInterval(() => this.#poll(), pollMs).unref();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#stopPolling();
    };
  }

  /** A transaction has deleted the last rows of something, of which the write-ahead log may still hold copies. */
  readonly erased = (): void => {
    this.#hasErased = true;
  };

  /** The group was committed, or rolled back: a superfluous notification does no harm. */
  readonly committed = (): void => {
    const { touches } = this;
    if (!touches.isEmpty) this.touches = new Touches();
    if (this.#hasErased) this.#emptyLog();
    this.#hasErased = false;
    if (!touches.isEmpty) this.#notify(touches.told);
  };

  close(): void {
    this.#stopPolling();
  }

  #stopPolling(): void {
    clearInterval(this.#polling);
    this.#polling = undefined;
  }

  #poll(): void {
    const version = this.#dataVersion();
    if (version !== this.#version) {
      this.#version = version;
      this.#mayHaveErasures = true;
      this.#notify(undefined);
    }
    if (this.#mayHaveErasures) this.#cleanAfterOthers();
  }

  /** The process that erases something empties the log itself, but may end before other processes allow it. */
  #cleanAfterOthers(): void {
    try {
      this.#mayHaveErasures = false;
      const erasures = this.#erasureCount.get();
      if (erasures === undefined || erasures === this.#erasures) return;
      this.#erasures = erasures;
      this.#emptyLog();
    } catch (error) {
      this.#mayHaveErasures = isBusy(error); // after any other error not before the next commit
    }
  }

  #dataVersion(): number {
    try {
      return this.#connection.pragma('data_version', { simple: true }) as number;
    } catch {
      return this.#version; // busy: the next poll will see it
    }
  }

  #notify(touched: Touched | undefined): void {
    for (const listener of this.#listeners) listener(touched);
  }
}
