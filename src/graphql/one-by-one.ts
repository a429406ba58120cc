import { setImmediate as nextTurn } from 'node:timers/promises';

/** Does what takes long, one after the other and each in a turn of the event loop of its own: others come in between. */
export class OneByOne {
  #last: Promise<unknown> = Promise.resolve();

  /** @param work what takes the time before it waits for anything but the storage */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.then(
      () => nextTurn(),
      () => nextTurn(),
    );
    return done;
  }
}
