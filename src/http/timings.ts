/** Timeouts and intervals of connections, in milliseconds. */
export interface ConnectionTimings {
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

export const defaultTimings: ConnectionTimings = {
  headMs: 10_000,
  requestMs: 30_000,
  heartbeatMs: 15_000,
  slowReaderMs: 30_000,
  pingMs: 12_000,
  initMs: 3_000,
};
