import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';

/** What a connection may have unsent without being counted, in bytes. */
export const ordinaryBytes = 128 * 1024;
/** What those above it may have unsent together, in bytes. */
const maxBytes = 64 * 1024 * 1024;
/** Cut-off readers are logged this often at most. */
const logEveryMs = 10_000;

/**
 * Bounds the memory of answers that were made and that their clients have not taken yet. Each has a bound of its own, but
 * a client can ask for many and read none of them. When all together are too large, the account that holds the most loses
 * the connection that has been slow for longest. Others notice nothing.
 */
export class UnsentAnswers {
  readonly #log: Logger;
  /** The accounts of connections that have more unsent than is ordinary, the longest slow first. */
  readonly #slow = new Map<Duplex, string | undefined>();
  #loggedMs = Number.NEGATIVE_INFINITY;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** To be called after something large was written for a client. */
  note(connection: Duplex, accountId: string | undefined): void {
    if (connection.writableLength <= ordinaryBytes || connection.destroyed) return;
    if (!this.#slow.has(connection)) this.#watch(connection, accountId);
    this.#makeRoom();
  }

  /** Counts a connection until its client has taken everything. */
  #watch(connection: Duplex, accountId: string | undefined): void {
    const forget = (): void => {
      this.#slow.delete(connection);
      connection.off('drain', forget).off('close', forget);
    };
    connection.on('drain', forget).on('close', forget);
    this.#slow.set(connection, accountId);
  }

  #makeRoom(): void {
    let total = 0;
    const ofAccount = new Map<string | undefined, number>();
    for (const [connection, accountId] of this.#slow) {
      const bytes = connection.writableLength;
      total += bytes;
      ofAccount.set(accountId, (ofAccount.get(accountId) ?? 0) + bytes);
    }
    while (total > maxBytes) {
      const [most] = [...ofAccount.keys()].sort((a, b) => (ofAccount.get(b) ?? 0) - (ofAccount.get(a) ?? 0));
      const [connection] = this.#slow.entries().find(([, accountId]) => accountId === most) ?? [];
      if (connection === undefined) return;
      const bytes = connection.writableLength;
      total -= bytes;
      ofAccount.set(most, (ofAccount.get(most) ?? 0) - bytes);
      this.#slow.delete(connection);
      connection.destroy();
      this.#report(most, bytes);
    }
  }

  #report(accountId: string | undefined, bytes: number): void {
    const nowMs = performance.now();
    if (nowMs - this.#loggedMs < logEveryMs) return;
    this.#loggedMs = nowMs;
    this.#log.warn({ accountId, bytes }, 'cut off a slow reader: too many answers wait to be read');
  }
}
