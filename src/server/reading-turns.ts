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
 * a byte, take 10 ms and more. When reading has taken long, all connections of who has sent the most in this turn are
 * paused, and resumed a few at a time, one of each owner in turn. The others go on.
 */
export class ReadingTurns {
  readonly #open: () => Iterable<Socket>;
  readonly #ownerOf: (socket: Socket) => string;
  readonly #queue = new FairQueue<Socket>();
  readonly #waiting = new WeakSet<Socket>();
  /** How much had been read from connections when it was looked at last. */
  readonly #bytesRead = new WeakMap<Socket, number>();
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

  /** To be called with each head that was read. */
  read(): void {
    const nowMs = performance.now();
    if (this.#sinceMs === undefined) {
      this.#start(nowMs);
    } else if (this.#queue.size === 0 && nowMs - this.#sinceMs > readingMs) {
      this.#pauseMost();
    }
  }

  /**
   * Pauses the connections of who has sent the most bytes since this was done last. One that is new goes on until
   * something was read: the event loop accepts one in each turn, so that these are few.
   */
  #pauseMost(): void {
    const bytesOf = new Map<string, number>();
    for (const socket of this.#open()) {
      const owner = this.#ownerOf(socket);
      const bytes = socket.bytesRead - (this.#bytesRead.get(socket) ?? 0);
      if (bytes > 0) this.#bytesRead.set(socket, socket.bytesRead);
      bytesOf.set(owner, (bytesOf.get(owner) ?? 0) + bytes);
    }
    const [most] = [...bytesOf].reduce((one, other) => (other[1] > one[1] ? other : one), ['', 0]);
    for (const socket of this.#open()) {
      if (socket.bytesRead > 0 && this.#ownerOf(socket) === most) this.#pause(socket, most);
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

  #pause(socket: Socket, owner: string): void {
    if (this.#waiting.has(socket)) return;
    this.#waiting.add(socket);
    this.#queue.push(owner, socket);
    socket.pause();
  }
}
