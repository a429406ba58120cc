import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';

/** Bytes that all connections may have unsent together, and those of one account. */
const maxBytes = 64 * 1024 * 1024;
const maxBytesOfAccount = maxBytes / 2;
/** After a count, so much has to be added before the next. */
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
 * can send many requests and read none of the responses. When those of an account, or all together, are too large, the
 * connection that has been slow for longest, of the account with the most unsent bytes, is cut off. Other accounts are not
 * affected. Clients without an account count as one.
 */
export class UnsentResponses {
  readonly #log: Logger;
  /** The connections that had bytes unsent when they were last counted, the longest slow first. */
  readonly #slow = new Map<Duplex, Unsent>();
  /** What was counted, in all and by account. Some may have been sent since. */
  #bytes = 0;
  readonly #byAccount = new Map<string | undefined, number>();
  #addedSinceCount = 0;
  #loggedMs = Number.NEGATIVE_INFINITY;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** To be called after something was written for a client. */
  note(connection: Duplex, accountId: string | undefined): void {
    if (connection.writableLength === 0 || connection.destroyed) return;
    const unsent = this.#slow.get(connection) ?? this.#watch(connection, accountId);
    this.#addedSinceCount += Math.max(0, connection.writableLength - unsent.bytes);
    this.#set(unsent, connection.writableLength);
    const ofAccount = this.#byAccount.get(unsent.accountId) ?? 0;
    const isTooMuch = ofAccount > maxBytesOfAccount || this.#bytes > maxBytes;
    if (isTooMuch && this.#addedSinceCount >= countEveryBytes) this.#makeRoom();
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
    this.#set(unsent, 0);
    connection.off('drain', unsent.forget).off('close', unsent.forget);
  }

  #set(unsent: Unsent, bytes: number): void {
    const { accountId } = unsent;
    const ofAccount = (this.#byAccount.get(accountId) ?? 0) + bytes - unsent.bytes;
    if (ofAccount > 0) this.#byAccount.set(accountId, ofAccount);
    else this.#byAccount.delete(accountId);
    this.#bytes += bytes - unsent.bytes;
    unsent.bytes = bytes;
  }

  #makeRoom(): void {
    this.#count();
    for (;;) {
      let [most, ofMost]: [string | undefined, number] = [undefined, 0];
      for (const [accountId, bytes] of this.#byAccount) if (bytes > ofMost) [most, ofMost] = [accountId, bytes];
      if (ofMost <= maxBytesOfAccount && this.#bytes <= maxBytes) return;
      const [connection, unsent] = this.#slow.entries().find(([, { accountId }]) => accountId === most) ?? [];
      if (connection === undefined || unsent === undefined) return;
      const { bytes } = unsent;
      this.#forget(connection);
      connection.destroy();
      this.#report(most, bytes);
    }
  }

  /** Counts what is still unsent. A connection with little to send does not say when it has sent it. */
  #count(): void {
    this.#addedSinceCount = 0;
    for (const [connection, unsent] of this.#slow) {
      if (connection.writableLength > 0) this.#set(unsent, connection.writableLength);
      else this.#forget(connection);
    }
  }

  #report(accountId: string | undefined, bytes: number): void {
    const nowMs = performance.now();
    if (nowMs - this.#loggedMs < logEveryMs) return;
    this.#loggedMs = nowMs;
    this.#log.warn({ accountId, bytes }, 'a slow reader was cut off: too many unread responses');
  }
}
