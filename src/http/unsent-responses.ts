import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import { type Holder, memoryOwner } from '../access/memory-owner.ts';
import type { Owner } from '../runtime/held-memory.ts';

/** Bytes that all connections may have unsent together, and those of one owner. */
const maxBytes = 64 * 1024 * 1024;
const maxBytesOfOwner = maxBytes / 2;
/** Clients without an account. */
const nobody: Owner = { name: '' };
/** After a count, so much has to be added before the next. */
const countEveryBytes = 1024 * 1024;
/** Cut-off readers are logged this often at most. */
const logEveryMs = 10_000;

interface Unsent {
  readonly accountId: string | undefined;
  readonly owner: Owner;
  bytes: number;
  readonly forget: () => void;
}

/**
 * Limits the memory of responses that their clients have not read yet. Each response has a limit of its own, but a client
 * can send many requests and read none of the responses. When those of an owner, or all together, are too large, the
 * connection that has been slow for longest, of the owner with the most unsent bytes, is cut off; of bound tokens, of those
 * that are bound to the same and have the most. Others are not affected. Clients without an account count as one.
 */
export class UnsentResponses {
  readonly #log: Logger;
  /** The connections that had bytes unsent when they were last counted, the longest slow first. */
  readonly #slow = new Map<Duplex, Unsent>();
  /** What was counted, in all and by owner. Some may have been sent since. */
  #bytes = 0;
  readonly #byOwner = new Map<string, number>();
  #addedSinceCount = 0;
  #loggedMs = Number.NEGATIVE_INFINITY;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** To be called after something was written for a client. */
  note(connection: Duplex, caller: Holder | undefined): void {
    if (connection.writableLength === 0 || connection.destroyed) return;
    const unsent = this.#slow.get(connection) ?? this.#watch(connection, caller);
    this.#addedSinceCount += Math.max(0, connection.writableLength - unsent.bytes);
    this.#set(unsent, connection.writableLength);
    const ofOwner = this.#byOwner.get(unsent.owner.name) ?? 0;
    const isTooMuch = ofOwner > maxBytesOfOwner || this.#bytes > maxBytes;
    if (isTooMuch && this.#addedSinceCount >= countEveryBytes) this.#makeRoom();
  }

  /** Counts a connection until its client has taken everything. */
  #watch(connection: Duplex, caller: Holder | undefined): Unsent {
    const owner = caller === undefined ? nobody : memoryOwner(caller);
    const unsent = { accountId: caller?.account.id, owner, bytes: 0, forget: () => this.#forget(connection) };
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
    const { name } = unsent.owner;
    const ofOwner = (this.#byOwner.get(name) ?? 0) + bytes - unsent.bytes;
    if (ofOwner > 0) this.#byOwner.set(name, ofOwner);
    else this.#byOwner.delete(name);
    this.#bytes += bytes - unsent.bytes;
    unsent.bytes = bytes;
  }

  #makeRoom(): void {
    this.#count();
    for (;;) {
      const [most, ofMost] = largest(this.#byOwner);
      if (ofMost <= maxBytesOfOwner && this.#bytes <= maxBytes) return;
      const ofOwner = [...this.#slow].filter(([, { owner }]) => owner.name === most);
      const byMember = new Map<string | undefined, number>();
      for (const [, { owner, bytes }] of ofOwner) byMember.set(owner.member, (byMember.get(owner.member) ?? 0) + bytes);
      const [member] = largest(byMember);
      const [connection, unsent] = ofOwner.find(([, { owner }]) => owner.member === member) ?? [];
      if (connection === undefined || unsent === undefined) return;
      const { accountId, bytes } = unsent;
      this.#forget(connection);
      connection.destroy();
      this.#report(accountId, bytes);
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

function largest<Key>(sizes: ReadonlyMap<Key, number>): [Key | undefined, number] {
  let most: [Key | undefined, number] = [undefined, 0];
  for (const each of sizes) if (each[1] > most[1]) most = each;
  return most;
}
