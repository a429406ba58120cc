import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';

/** Bytes of responses that a connection may have unsent without being counted. */
export const ordinaryBytes = 128 * 1024;
/** Bytes that the counted connections may have unsent together. */
const maxBytes = 64 * 1024 * 1024;
/** Cut-off readers are logged this often at most. */
const logEveryMs = 10_000;

/**
 * Limits the memory of responses that their clients have not read yet. Each response has a limit of its own, but a client
 * can send many requests and read none of the responses. When all together are too large, the connection that has been
 * slow for longest, of the account with the most unsent bytes, is cut off. Other accounts are not affected.
 */
export class UnsentResponses {
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
    this.#log.warn({ accountId, bytes }, 'a slow reader was cut off: too many unread responses');
  }
}
