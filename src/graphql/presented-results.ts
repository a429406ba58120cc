import type { ExecutionResult } from 'graphql';
import { asGraphQLError } from './requests.ts';

/** The results of a subscription, one for each event. If it fails, its last result is the error. */
export class PresentedResults implements AsyncIterableIterator<ExecutionResult> {
  readonly #events: AsyncIterator<unknown, unknown>;
  readonly #answer: (event: unknown) => Promise<ExecutionResult>;
  readonly #present: (result: ExecutionResult) => ExecutionResult;
  #failed = false;

  /** @param present gives the errors of a result the form that clients may see */
  constructor(
    events: AsyncIterator<unknown, unknown>,
    answer: (event: unknown) => Promise<ExecutionResult>,
    present: (result: ExecutionResult) => ExecutionResult,
  ) {
    this.#events = events;
    this.#answer = answer;
    this.#present = present;
  }

  async next(): Promise<IteratorResult<ExecutionResult>> {
    if (this.#failed) return { done: true, value: undefined };
    try {
      const next = await this.#events.next();
      if (next.done === true) return { done: true, value: undefined };
      return { done: false, value: this.#present(await this.#answer(next.value)) };
    } catch (error) {
      this.#failed = true;
      return { done: false, value: this.#present({ errors: [asGraphQLError(error)] }) };
    }
  }

  async return(): Promise<IteratorResult<ExecutionResult>> {
    await this.#events.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
