/** How long things on a connection may take, in milliseconds. */
export interface StreamTimings {
  /** From the first byte of a request, or from the opening of its connection, to the end of its head. */
  readonly headMs: number;
  /** The same to the end of its body. */
  readonly requestMs: number;
  /** Between the blocks that move a quiet SSE reader's cursor on. */
  readonly heartbeatMs: number;
  /** How long a reader, of a stream or of any answer, may leave what it was sent lying before its connection is ended. */
  readonly slowReaderMs: number;
  /** Between the pings of a socket, and for each one's pong. */
  readonly pingMs: number;
  /** From the opening of a socket to its `connection_init`. */
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
 * Watches over a consumer that pulls: it has a time to come back after each thing that it was given.
 * A generator that nobody pulls from is parked and cannot look at a clock itself.
 */
export class PullWatch {
  readonly #limitMs: number;
  readonly #onStalled: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(limitMs: number, onStalled: () => void) {
    this.#limitMs = limitMs;
    this.#onStalled = onStalled;
  }

  /** Something was handed over. */
  given(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onStalled, this.#limitMs).unref();
  }

  /** The consumer came back for more, or has ended. */
  taken(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
