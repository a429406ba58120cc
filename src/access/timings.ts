/** Timeouts and intervals of connections, in milliseconds. */
export interface StreamTimings {
  /** From the first byte of a request, or from opening its connection, to the end of its headers. */
  readonly headMs: number;
  /** The same, to the end of its body. */
  readonly requestMs: number;
  /** Between the SSE blocks that advance the cursor of a reader without matching events. */
  readonly heartbeatMs: number;
  /** How long a client may make no progress in reading a stream or any response before its connection is ended. */
  readonly slowReaderMs: number;
  /** Between the pings of a socket, and from each ping to its pong. */
  readonly pingMs: number;
  /** From opening a socket to its `connection_init`. */
  readonly initMs: number;
}

export const defaultTimings: StreamTimings = {
  headMs: 10_000,
  requestMs: 30_000,
  heartbeatMs: 15_000,
  slowReaderMs: 30_000,
  pingMs: 12_000,
  initMs: 3_000,
};

/**
 * Detects a stalled consumer of a pulled sequence: it has to return for more within a time limit. The generator cannot
 * measure this itself, since it is suspended while nothing is pulled.
 */
export class PullWatch {
  readonly #limitMs: number;
  readonly #onStalled: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(limitMs: number, onStalled: () => void) {
    this.#limitMs = limitMs;
    this.#onStalled = onStalled;
  }

  /** An item was handed to the consumer. */
  given(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onStalled, this.#limitMs).unref();
  }

  /** The consumer returned for more, or has ended. */
  taken(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
