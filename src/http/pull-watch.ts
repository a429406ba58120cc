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
