/** How long readers may hold the event loop before it turns. */
const sliceMs = 2;

/**
 * Admits readers of the storage one at a time, so that however many catch up at once, the event loop turns in between.
 * Each is admitted when the one before has got as far as it can without waiting.
 */
export class ReadTurns {
  readonly #waiting: (() => void)[] = [];
  #isAdmitting = false;

  /** Resolves when it is the caller's turn. */
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
        queueMicrotask(() => process.nextTick(next)); // a tick set by a microtask comes after all microtasks
      }
    };
    next();
  }
}
