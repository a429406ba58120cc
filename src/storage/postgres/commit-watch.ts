import type { Touched } from '../../domain/storage-port.ts';

type Listener = (touched?: Touched) => void;

/** What a transaction has touched that somebody may wait for. */
export class Touches {
  readonly #accountIds = new Set<string>();
  readonly #webhooks = new Map<string, string>();
  #hasTouchedAll = false;

  /** It has appended to an account's log. */
  grew(accountId: string): void {
    this.#accountIds.add(accountId);
  }

  /** It has written a delivery to a webhook that may be due. */
  becameDue(accountId: string, webhookId: string): void {
    this.#webhooks.set(webhookId, accountId);
  }

  /** It has revoked a credential, or hidden what is being erased: every listener has to look what it holds. */
  touchedAll(): void {
    this.#hasTouchedAll = true;
  }

  /** What of all this to tell; null if there is nothing, and undefined if it concerns everybody. */
  get told(): Touched | null | undefined {
    if (this.#hasTouchedAll) return undefined;
    const [accountIds, webhooks] = [this.#accountIds, this.#webhooks];
    return accountIds.size + webhooks.size > 0 ? { accountIds, webhooks } : null;
  }
}

/** Tells listeners of commits. */
export class CommitWatch {
  readonly #listeners = new Set<Listener>();

  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** A transaction was committed. */
  readonly committed = ({ told }: Touches): void => {
    if (told !== null) this.#notify(told);
  };

  #notify(touched: Touched | undefined): void {
    for (const listener of this.#listeners) listener(touched);
  }
}
