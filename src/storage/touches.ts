import type { Touched } from '../domain/storage-port.ts';

/** What a transaction has touched that somebody may wait for. */
export class Touches {
  readonly accountIds = new Set<string>();
  readonly webhooks = new Map<string, string>();
  #hasTouchedAll = false;

  /** It has appended to an account's log. */
  grew(accountId: string): void {
    this.accountIds.add(accountId);
  }

  /** It has written a delivery to a webhook that may be due. */
  becameDue(accountId: string, webhookId: string): void {
    this.webhooks.set(webhookId, accountId);
  }

  /** It has revoked a credential, or hidden what is being erased: every listener has to look what it holds. */
  touchedAll(): void {
    this.#hasTouchedAll = true;
  }

  get isEmpty(): boolean {
    return !this.#hasTouchedAll && this.accountIds.size + this.webhooks.size === 0;
  }

  /** What to tell; undefined if it concerns everybody. */
  get told(): Touched | undefined {
    return this.#hasTouchedAll ? undefined : this;
  }

  add(others: Touched | undefined): void {
    if (others === undefined) this.#hasTouchedAll = true;
    for (const accountId of others?.accountIds ?? []) this.accountIds.add(accountId);
    for (const [webhookId, accountId] of others?.webhooks ?? []) this.webhooks.set(webhookId, accountId);
  }
}
