import type { Socket } from 'node:net';
import { FairQueue } from '../runtime/fair-queue.ts';

/** After this long of reading in one turn of the event loop, whatever has not been read waits. */
const readingMs = 10;
/** How many that wait are read in the next turn of the event loop: twice as many after a short one, half after a long. */
const firstAtOnce = 2;
const maxAtOnce = 1_024;
/** Bytes count half after so long, and not at all once they are so few. */
const halfLifeMs = 250;
const forgottenBytes = 1_024;
/** How often it is looked at most how much was read from WebSockets. */
const lookMs = 50;

export interface Readable {
  /** The connections that can be paused. */
  open(): Iterable<Socket>;
  /** Those that have become WebSockets, which pause by themselves. */
  upgraded(): Iterable<Socket>;
  /** Whose turn a connection's is: an account, or an address where that is not known. */
  ownerOf(socket: Socket): string;
}

/**
 * Lets clients take turns in being read. The event loop reads up to 64 KiB from each connection that has something, one
 * after the other, before it does anything else, and Node parses them at once: a thousand heads, or ten thousand chunks of
 * a byte, take 10 ms and more. When reading has taken long, all connections of who has sent the most of late are paused,
 * and resumed a few at a time, one of each owner in turn. The others go on.
 */
export class ReadingTurns {
  readonly #connections: Readable;
  readonly #queue = new FairQueue<Socket>();
  readonly #waiting = new WeakSet<Socket>();
  /** How much had been read from a connection when it was looked at last. */
  readonly #seenBytes = new WeakMap<Socket, number>();
  /** How much was read of late, by owner. Not how long that took: collections of garbage would count for anybody. */
  readonly #bytes = new Map<string, number>();
  #halvedAtMs = 0;
  #lookedAtMs = 0;
  /** When something was read first in this turn of the event loop. */
  #sinceMs: number | undefined;
  #hasPaused = false;
  #atOnce = firstAtOnce;

  constructor(connections: Readable) {
    this.#connections = connections;
  }

  /** Whether a connection waits to be read. It must stay paused. */
  isWaiting(socket: Socket): boolean {
    return this.#waiting.has(socket);
  }

  /** To be called with each new connection: where others wait, it is read after them. */
  accepted(socket: Socket): void {
    if (this.#queue.size > 0) this.#pause(socket, this.#connections.ownerOf(socket));
  }

  /** To be called when a head or a part of a body has been read from a connection, and before what follows it is. */
  read(socket: Socket): void {
    this.#count(socket, 1);
    const nowMs = performance.now();
    if (this.#sinceMs === undefined) this.#start(nowMs);
    else if (!this.#hasPaused && nowMs - this.#sinceMs > readingMs) this.#pauseMost(nowMs);
  }

  /** Pauses a connection until its turn, which comes in the next turn of the event loop if few wait. */
  wait(socket: Socket): void {
    this.#pause(socket, this.#connections.ownerOf(socket));
    if (this.#sinceMs === undefined) this.#start(performance.now());
  }

  /** @param weight how much of what was read since it was looked at last was read of late */
  #count(socket: Socket, weight: number): void {
    const { bytesRead } = socket;
    const bytes = bytesRead - (this.#seenBytes.get(socket) ?? 0);
    if (bytes === 0) return;
    this.#seenBytes.set(socket, bytesRead);
    const owner = this.#connections.ownerOf(socket);
    this.#bytes.set(owner, (this.#bytes.get(owner) ?? 0) + weight * bytes);
  }

  #pauseMost(nowMs: number): void {
    this.#hasPaused = true;
    const sinceMs = nowMs - this.#lookedAtMs;
    if (sinceMs > lookMs) {
      this.#lookedAtMs = nowMs;
      for (const socket of this.#connections.upgraded()) this.#count(socket, Math.min(1, halfLifeMs / sinceMs));
    }
    const [most] = [...this.#bytes].reduce((one, other) => (other[1] > one[1] ? other : one), ['', 0]);
    for (const socket of this.#connections.open()) {
      if (this.#connections.ownerOf(socket) === most) this.#pause(socket, most);
    }
  }

  #pause(socket: Socket, owner: string): void {
    if (this.#waiting.has(socket)) return;
    this.#waiting.add(socket);
    this.#queue.push(owner, socket);
    socket.pause();
  }

  #start(nowMs: number): void {
    this.#sinceMs = nowMs;
    setImmediate(() => {
      const tookMs = performance.now() - nowMs;
      this.#sinceMs = undefined;
      this.#hasPaused = false;
      if (nowMs - this.#halvedAtMs > halfLifeMs) this.#halve(nowMs);
      if (this.#queue.size > 0) this.#resumeSome(tookMs);
    });
  }

  #halve(nowMs: number): void {
    this.#halvedAtMs = nowMs;
    for (const [owner, bytes] of this.#bytes) {
      if (bytes < forgottenBytes) this.#bytes.delete(owner);
      else this.#bytes.set(owner, bytes / 2);
    }
  }

  #resumeSome(tookMs: number): void {
    if (tookMs > readingMs) this.#atOnce = Math.max(1, this.#atOnce >> 1);
    else if (tookMs < readingMs / 2) this.#atOnce = Math.min(maxAtOnce, 2 * this.#atOnce);
    for (let count = 0; count < this.#atOnce; count++) {
      const socket = this.#queue.take();
      if (socket === undefined) {
        this.#atOnce = firstAtOnce;
        return;
      }
      this.#waiting.delete(socket);
      socket.resume();
    }
    this.#start(performance.now()); // they are read in the next turn
  }
}
