import { setImmediate as nextTurn } from 'node:timers/promises';

/** Runs slow work one after the other, and lets the event loop yield to other requests in between. */
export class OneByOne {
  #last: Promise<unknown> = Promise.resolve();

  /** @param work does its slow part before it awaits anything but the storage */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.then(
      () => nextTurn(),
      () => nextTurn(),
    );
    return done;
  }
}
