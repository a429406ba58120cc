import { closeCodes, type Wire } from './wire.ts';

type Socket = Pick<Wire, 'address' | 'close'>;

/** How many sockets may wait for their `connection_init`. */
const maxSilent = 1_000;

/**
 * Sockets that have not sent `connection_init` yet, which needs no credential. Each is closed after a while. When there
 * are too many, the oldest of the address that has most of them is closed: those of others, and of clients that send it
 * at once, are not affected.
 */
export class SilentSockets {
  readonly #initMs: number;
  readonly #byAddress = new Map<string, Set<Socket>>();
  #size = 0;

  /** @param initMs how long a socket may be silent */
  constructor(initMs: number) {
    this.#initMs = initMs;
  }

  /** @returns to be called when the socket has sent its `connection_init`, or has ended */
  add(wire: Socket): () => void {
    const { address } = wire;
    const timer = setTimeout(() => wire.close(closeCodes.silent, 'Connection initialisation timeout'), this.#initMs);
    const ofAddress = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, ofAddress.add(wire));
    this.#size++;
    if (this.#size > maxSilent) this.#closeOldest();
    return () => {
      clearTimeout(timer);
      if (!ofAddress.delete(wire)) return;
      this.#size--;
      if (ofAddress.size === 0) this.#byAddress.delete(address);
    };
  }

  #closeOldest(): void {
    let most: ReadonlySet<Socket> = new Set();
    for (const ofAddress of this.#byAddress.values()) if (ofAddress.size > most.size) most = ofAddress;
    const [oldest] = most;
    oldest?.close(closeCodes.tryAgain, 'Too many sockets without connection_init');
  }
}
