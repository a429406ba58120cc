/** How long reads may occupy the event loop before it yields. */
const sliceMs = 2;

/**
 * Admits readers of the storage one at a time, so that the event loop yields in between, however many catch up at once.
 * A reader is admitted when the one before it has run as far as it can without waiting.
 */
export class ReadTurns {
  readonly #waiting: (() => void)[] = [];
  #isAdmitting = false;

  /** Resolves when the caller may read. */
  next(): Promise<void> {
    return new Promise((enter) => {
      this.#waiting.push(enter);
      if (!this.#isAdmitting) this.#admit();
    });
  }

  #admit(): void {
    this.#isAdmitting = true;
    const endMs = performance.now() + sliceMs;
    const next = (): void => {
      const enter = this.#waiting.shift();
      if (enter === undefined) {
        this.#isAdmitting = false;
      } else if (performance.now() >= endMs) {
        this.#waiting.unshift(enter);
        setImmediate(() => this.#admit());
      } else {
        enter();
        queueMicrotask(() => process.nextTick(next)); // a tick queued by a microtask runs after all microtasks
      }
    };
    next();
  }
}
