import type { Touched } from '../../domain/ports.ts';
import { isBusy } from './errors.ts';
import type { Connection } from './open.ts';
import { emptyLog } from './write-ahead-log.ts';

type Listener = (touched?: Touched) => void;

/** How often another process's commits are looked for; a look costs about a microsecond. */
const pollMs = 20;
/** When another process has kept the write-ahead log from being emptied, it is tried again. */
const cleanRetryMs = 50;

/**
 * Tells listeners of commits. Those of this process it is told of; those of others show in
 * `PRAGMA data_version` of the writing connection, which its own commits do not change.
 */
export class CommitWatch {
  readonly #connection: Connection;
  readonly #countErasures: { get(): unknown };
  readonly #listeners = new Set<Listener>();
  /** What the transactions of the running group have touched. */
  #grown = new Set<string>();
  #due = new Set<string>();
  #blurred = false;
  #hasErased = false;
  /** How many erasures there were when it was last looked for those of others. */
  #erasures: unknown;
  /** Whether there may be more by now. */
  #isToLook = false;
  #version = 0;
  #polling: NodeJS.Timeout | undefined;
  #cleaning: NodeJS.Timeout | undefined;

  /** @param reading another connection than the writing one, which sees what is not committed */
  constructor(connection: Connection, reading: Connection) {
    this.#connection = connection;
    // None as long as something is left to be erased: what was erased by then is in the log still, and more will be.
    this.#countErasures = reading
      .prepare("SELECT value FROM meta WHERE name = 'erasures' AND NOT EXISTS (SELECT 1 FROM erasing)")
      .pluck();
    this.#erasures = this.#countErasures.get();
  }

  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    if (this.#polling === undefined) {
      this.#version = this.#dataVersion();
      this.#isToLook = true;
      this.#polling = setInterval(() => this.#poll(), pollMs).unref();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#stopPolling();
    };
  }

  /** Notes that a transaction has appended to an account's log. */
  readonly grew = (accountId: string): void => {
    this.#grown.add(accountId);
  };

  /** Notes that a transaction has made a delivery to a webhook that may be due. */
  readonly becameDue = (webhookId: string): void => {
    this.#due.add(webhookId);
  };

  /** Notes that a transaction has ended a credential. Whoever watches has to look at all. */
  readonly endedCredential = (): void => {
    this.#blurred = true;
  };

  /** Notes that a transaction has taken something out of sight for good. Whoever keeps it has to let go of it. */
  readonly hid = (): void => {
    this.#blurred = true;
  };

  /** Notes that a transaction has removed the last of something that only the write-ahead log may still hold. */
  readonly erased = (): void => {
    this.#hasErased = true;
  };

  /** The group that touched what was noted is committed, or undone: a hint too many does no harm. */
  readonly committed = (): void => {
    const [accountIds, webhookIds, blurred] = [this.#grown, this.#due, this.#blurred];
    if (accountIds.size > 0) this.#grown = new Set();
    if (webhookIds.size > 0) this.#due = new Set();
    this.#blurred = false;
    if (this.#hasErased) this.cleanLog();
    this.#hasErased = false;
    if (blurred) this.#tell(undefined);
    else if (accountIds.size + webhookIds.size > 0) this.#tell({ accountIds, webhookIds });
  };

  /** Empties the write-ahead log, which still holds what was erased: at once, or as soon as others let it. */
  cleanLog(): void {
    clearTimeout(this.#cleaning);
    this.#cleaning = emptyLog(this.#connection) ? undefined : setTimeout(() => this.cleanLog(), cleanRetryMs).unref();
  }

  close(): void {
    this.#stopPolling();
    clearTimeout(this.#cleaning);
  }

  #stopPolling(): void {
    clearInterval(this.#polling);
    this.#polling = undefined;
  }

  #poll(): void {
    const version = this.#dataVersion();
    if (version !== this.#version) {
      this.#version = version;
      this.#isToLook = true;
      this.#tell(undefined);
    }
    if (this.#isToLook) this.#cleanAfterOthers();
  }

  /** Who has erased something empties the log, but may be stopped before others let it. */
  #cleanAfterOthers(): void {
    try {
      this.#isToLook = false;
      const erasures = this.#countErasures.get();
      if (erasures === undefined || erasures === this.#erasures) return;
      this.#erasures = erasures;
      this.cleanLog();
    } catch (error) {
      this.#isToLook = isBusy(error); // else not before something else is committed
    }
  }

  #dataVersion(): number {
    try {
      return this.#connection.pragma('data_version', { simple: true }) as number;
    } catch {
      return this.#version; // busy: the next look will see it
    }
  }

  #tell(touched: Touched | undefined): void {
    for (const listener of this.#listeners) listener(touched);
  }
}
