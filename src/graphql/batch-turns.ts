import { scheduler } from '../runtime/scheduler.ts';

/** For how long a batch is worked on before others have their turn. */
const stretchMs = 2;

/** The turns of the operations of a batch, which Yoga would have in one step: each may take as long as a request. */
export class BatchTurns {
  readonly #accountId: string;
  #sinceMs = performance.now();

  /** To be made when the work begins. */
  constructor(accountId: string) {
    this.#accountId = accountId;
  }

  /** @returns undefined if the next operation may be worked on at once */
  next(): Promise<void> | undefined {
    if (performance.now() - this.#sinceMs < stretchMs) return undefined;
    return scheduler.step(this.#accountId).then(() => {
      this.#sinceMs = performance.now();
    });
  }
}
