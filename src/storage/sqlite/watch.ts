import type { Touched } from '../../domain/ports.ts';
import type { Connection } from './open.ts';

type Listener = (touched?: Touched) => void;

/** How often another process's commits are looked for; a look costs about a microsecond. */
const pollMs = 20;

/**
 * Tells listeners of commits. Those of this process it is told of; those of others show in
 * `PRAGMA data_version` of the writing connection, which its own commits do not change.
 */
export class CommitWatch {
  readonly #connection: Connection;
  readonly #listeners = new Set<Listener>();
  /** What the transactions of the running group have touched. */
  #grown = new Set<string>();
  #due = new Set<string>();
  #credentialsEnded = false;
  #version = 0;
  #polling: NodeJS.Timeout | undefined;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    if (this.#polling === undefined) {
      this.#version = this.#dataVersion();
      this.#polling = setInterval(() => this.#poll(), pollMs).unref();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.close();
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

  /** Notes that a transaction has ended a credential. */
  readonly endedCredential = (): void => {
    this.#credentialsEnded = true;
  };

  /** The group that touched what was noted is committed, or undone: a hint too many does no harm. */
  readonly committed = (): void => {
    const [accountIds, webhookIds, credentialsEnded] = [this.#grown, this.#due, this.#credentialsEnded];
    if (accountIds.size > 0) this.#grown = new Set();
    if (webhookIds.size > 0) this.#due = new Set();
    this.#credentialsEnded = false;
    if (credentialsEnded) this.#tell(undefined);
    else if (accountIds.size + webhookIds.size > 0) this.#tell({ accountIds, webhookIds });
  };

  close(): void {
    clearInterval(this.#polling);
    this.#polling = undefined;
  }

  #poll(): void {
    const version = this.#dataVersion();
    if (version === this.#version) return;
    this.#version = version;
    this.#tell(undefined);
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
