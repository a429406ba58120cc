import type { Socket } from 'node:net';
import { FairQueue } from '../runtime/fair-queue.ts';

/** How much is read of one owner in a turn of the event loop before its other connections wait, in bytes. */
const enough = 64 * 1024;
/** What a head counts as, however long it is. A body that is not in chunks takes next to no time to read. */
const headBytes = 256;
/** How many that wait are read in the next turn of the event loop: twice as many after little was read, half after much. */
const firstAtOnce = 2;
const maxAtOnce = 1_024;

/**
 * Lets clients take turns in being read. The event loop reads up to 64 KiB from each connection that has something, one
 * after the other, before it does anything else, and Node parses them at once: a thousand heads, or ten thousand chunks of
 * a byte, take 10 ms and more. When much of that was read of one owner, all its connections are paused, and resumed a few
 * at a time, one of each owner in turn. It is counted, not timed: what else a turn does is not the fault of who is read.
 */
export class ReadingTurns {
  readonly #open: () => Iterable<Socket>;
  readonly #ownerOf: (socket: Socket) => string;
  readonly #queue = new FairQueue<Socket>();
  readonly #waiting = new WeakSet<Socket>();
  /** Those that were resumed in the last turn, and are read in this one. */
  readonly #resumed = new Set<Socket>();
  /** How much had been read from a connection when it was counted last. */
  readonly #counted = new WeakMap<Socket, number>();
  /** What was read in this turn, by owner and in all. */
  readonly #read = new Map<string, number>();
  #readOfAll = 0;
  #hasTurn = false;
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

  /** Whether there may be something on a connection that was not read because others came first. */
  mayHaveMore(socket: Socket): boolean {
    return this.#waiting.has(socket) || this.#resumed.has(socket);
  }

  /** To be called with each new connection: where others wait, it is read after them. */
  accepted(socket: Socket): void {
    if (this.#queue.size > 0) this.#pause(socket, this.#ownerOf(socket));
  }

  /** Counts the head of a request, to be called before what follows it is parsed. */
  readHead(socket: Socket): void {
    this.#count(socket, headBytes);
  }

  /** Counts all that was read of a request in chunks since it was counted last, parsed or not, and lets it wait for its turn. */
  readChunks(socket: Socket): void {
    if (this.#waiting.has(socket)) return;
    const { bytesRead } = socket;
    this.#count(socket, bytesRead - (this.#counted.get(socket) ?? 0));
    this.#counted.set(socket, bytesRead);
    this.#pause(socket, this.#ownerOf(socket));
  }

  #count(socket: Socket, bytes: number): void {
    if (!this.#hasTurn) this.#startTurn();
    const owner = this.#ownerOf(socket);
    const before = this.#read.get(owner) ?? 0;
    this.#read.set(owner, before + bytes);
    this.#readOfAll += bytes;
    if (before < enough && before + bytes >= enough) this.#pauseAll(owner);
  }

  #pauseAll(owner: string): void {
    for (const socket of this.#open()) if (this.#ownerOf(socket) === owner) this.#pause(socket, owner);
  }

  #pause(socket: Socket, owner: string): void {
    if (this.#waiting.has(socket)) return;
    this.#waiting.add(socket);
    this.#queue.push(owner, socket);
    socket.pause();
  }

  #startTurn(): void {
    this.#hasTurn = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    if (this.#readOfAll >= enough) this.#atOnce = Math.max(1, this.#atOnce >> 1);
    else if (this.#readOfAll < enough / 2) this.#atOnce = Math.min(maxAtOnce, 2 * this.#atOnce);
    this.#hasTurn = false;
    this.#readOfAll = 0;
    this.#read.clear();
    this.#resumed.clear();
    for (let count = 0; count < this.#atOnce; count++) {
      const socket = this.#queue.take();
      if (socket === undefined) {
        this.#atOnce = firstAtOnce;
        break;
      }
      this.#waiting.delete(socket);
      this.#resumed.add(socket);
      socket.resume();
    }
    if (this.#resumed.size > 0) this.#startTurn(); // in which they are read
  }
}
