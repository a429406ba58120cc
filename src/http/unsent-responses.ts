import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';

/** Bytes that all connections may have unsent together. */
const maxBytes = 64 * 1024 * 1024;
/** After a count, what is unsent has to grow by this before the next. */
const countEveryBytes = 1024 * 1024;
/** Cut-off readers are logged this often at most. */
const logEveryMs = 10_000;

interface Unsent {
  readonly accountId: string | undefined;
  bytes: number;
  readonly forget: () => void;
}

/**
 * Limits the memory of responses that their clients have not read yet. Each response has a limit of its own, but a client
 * can send many requests and read none of the responses. When all together are too large, the connection that has been
 * slow for longest, of the account with the most unsent bytes, is cut off. Other accounts are not affected.
 */
export class UnsentResponses {
  readonly #log: Logger;
  /** The connections that had bytes unsent when they were last counted, the longest slow first. */
  readonly #slow = new Map<Duplex, Unsent>();
  /** The sum of what was counted. Some may have been sent since. */
  #bytes = 0;
  #countAtBytes = maxBytes;
  #loggedMs = Number.NEGATIVE_INFINITY;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** To be called after something was written for a client. */
  note(connection: Duplex, accountId: string | undefined): void {
    if (connection.writableLength === 0 || connection.destroyed) return;
    const unsent = this.#slow.get(connection) ?? this.#watch(connection, accountId);
    this.#bytes += connection.writableLength - unsent.bytes;
    unsent.bytes = connection.writableLength;
    if (this.#bytes > this.#countAtBytes) this.#makeRoom();
  }

  /** Counts a connection until its client has taken everything. */
  #watch(connection: Duplex, accountId: string | undefined): Unsent {
    const unsent: Unsent = { accountId, bytes: 0, forget: () => this.#forget(connection) };
    connection.on('drain', unsent.forget).on('close', unsent.forget);
    this.#slow.set(connection, unsent);
    return unsent;
  }

  #forget(connection: Duplex): void {
    const unsent = this.#slow.get(connection);
    if (unsent === undefined) return;
    this.#slow.delete(connection);
    this.#bytes -= unsent.bytes;
    connection.off('drain', unsent.forget).off('close', unsent.forget);
  }

  #makeRoom(): void {
    this.#count();
    while (this.#bytes > maxBytes) {
      const ofAccount = new Map<string | undefined, number>();
      for (const { accountId, bytes } of this.#slow.values()) {
        ofAccount.set(accountId, (ofAccount.get(accountId) ?? 0) + bytes);
      }
      const [most] = [...ofAccount].reduce((one, other) => (other[1] > one[1] ? other : one));
      const [connection, unsent] = this.#slow.entries().find(([, { accountId }]) => accountId === most) ?? [];
      if (connection === undefined || unsent === undefined) break;
      this.#forget(connection);
      connection.destroy();
      this.#report(most, unsent.bytes);
    }
    this.#countAtBytes = Math.max(maxBytes, this.#bytes + countEveryBytes);
  }

  /** Counts what is still unsent. A connection with little to send does not say when it has sent it. */
  #count(): void {
    for (const [connection, unsent] of this.#slow) {
      this.#bytes += connection.writableLength - unsent.bytes;
      unsent.bytes = connection.writableLength;
      if (unsent.bytes === 0) this.#forget(connection);
    }
  }

  #report(accountId: string | undefined, bytes: number): void {
    const nowMs = performance.now();
    if (nowMs - this.#loggedMs < logEveryMs) return;
    this.#loggedMs = nowMs;
    this.#log.warn({ accountId, bytes }, 'a slow reader was cut off: too many unread responses');
  }
}
