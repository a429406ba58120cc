import type { Socket } from 'node:net';
import { FairQueue } from '../runtime/fair-queue.ts';

/** After this long of reading in one turn of the event loop, whatever has not been read waits. */
const readingMs = 20;
/** How many connections are read in the next turn of the event loop: twice as many after a short one, half after a long. */
const firstAtOnce = 8;
const maxAtOnce = 1_024;

/**
 * Lets clients take turns in being read. The event loop reads up to 64 KiB from each connection that has something, one
 * after the other, before it does anything else, and Node parses them at once: a thousand heads, or ten thousand chunks of
 * a byte, take 10 ms and more. When reading has taken long, all connections are paused, and resumed a few at a time, one of
 * each owner in turn.
 */
export class ReadingTurns {
  readonly #open: () => Iterable<Socket>;
  readonly #ownerOf: (socket: Socket) => string;
  readonly #queue = new FairQueue<Socket>();
  readonly #waiting = new WeakSet<Socket>();
  /** When something was read first in this turn of the event loop. */
  #sinceMs: number | undefined;
  #atOnce = firstAtOnce;

  /**
   * @param open the connections that there are
   * @param ownerOf whose turn a connection's is: an account, or an address where that is not known
   */
  constructor(open: () => Iterable<Socket>, ownerOf: (socket: Socket) => string) {
    this.#open = open;
    this.#ownerOf = ownerOf;
  }

  /** Whether a connection waits to be read. It must stay paused. */
  isWaiting(socket: Socket): boolean {
    return this.#waiting.has(socket);
  }

  /** To be called for each new connection. */
  opened(socket: Socket): void {
    if (this.#queue.size > 0) this.#pause(socket);
  }

  /** To be called with each head that was read. */
  read(): void {
    const nowMs = performance.now();
    if (this.#sinceMs === undefined) this.#start(nowMs);
    else if (this.#queue.size === 0 && nowMs - this.#sinceMs > readingMs) {
      for (const socket of this.#open()) this.#pause(socket);
    }
  }

  #start(nowMs: number): void {
    this.#sinceMs = nowMs;
    setImmediate(() => {
      const tookMs = performance.now() - nowMs;
      this.#sinceMs = undefined;
      if (this.#queue.size > 0) this.#resumeSome(tookMs);
    });
  }

  #resumeSome(tookMs: number): void {
    this.#atOnce = tookMs > readingMs ? Math.max(1, this.#atOnce >> 1) : Math.min(maxAtOnce, 2 * this.#atOnce);
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

  #pause(socket: Socket): void {
    if (this.#waiting.has(socket)) return;
    this.#waiting.add(socket);
    this.#queue.push(this.#ownerOf(socket), socket);
    socket.pause();
  }
}
