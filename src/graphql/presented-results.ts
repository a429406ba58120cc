import type { ExecutionResult } from 'graphql';
import { asGraphQLError } from './requests.ts';

/** The results of a subscription with their errors presented. If it fails, its last result is the error. */
export class PresentedResults implements AsyncIterableIterator<ExecutionResult> {
  readonly #source: AsyncIterator<ExecutionResult, void>;
  readonly #present: (result: ExecutionResult) => ExecutionResult;
  #failed = false;

  constructor(source: AsyncIterator<ExecutionResult, void>, present: (result: ExecutionResult) => ExecutionResult) {
    this.#source = source;
    this.#present = present;
  }

  async next(): Promise<IteratorResult<ExecutionResult>> {
    if (this.#failed) return { done: true, value: undefined };
    try {
      const next = await this.#source.next();
      return next.done === true ? { done: true, value: undefined } : { done: false, value: this.#present(next.value) };
    } catch (error) {
      this.#failed = true;
      return { done: false, value: this.#present({ errors: [asGraphQLError(error)] }) };
    }
  }

  async return(): Promise<IteratorResult<ExecutionResult>> {
    await this.#source.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
