import { DomainError } from '../domain/errors.ts';

/**
 * The most values in one response. A hundred conversations with a hundred messages each, all fields selected, are a
 * seventh of it. graphql-js takes up to a second for a response of this size.
 */
export const maxValues = 1_000_000;

/** The most text of messages, metadata and the like in one response, in UTF-16 code units. */
const maxText = 16 * 1024 * 1024;

/**
 * How many values, and how much of the texts that can be long, the response to one request may still contain. The
 * limit on objects bounds neither, because aliases can select the same field again and again.
 */
export class AnswerBudget {
  #values = maxValues;
  #text = maxText;
  #overspending: AbortController | undefined;

  /** Aborts when the text budget is exceeded, because the rest of the response would be discarded. */
  get overspent(): AbortSignal {
    this.#overspending ??= new AbortController();
    return this.#overspending.signal;
  }

  /**
   * Spends the values that an operation could return, before it runs.
   * @throws QUERY_TOO_COMPLEX
   */
  spendValues(values: number): void {
    if (values > this.#values) {
      throw new DomainError(
        'QUERY_TOO_COMPLEX',
        `The answer could hold more than ${maxValues} values; ask for fewer fields, or smaller pages.`,
      );
    }
    this.#values -= values; // a refused operation spends nothing of what is left for its batch
  }

  /**
   * Spends the length of a text when it becomes part of the response.
   * @throws QUERY_TOO_COMPLEX
   */
  spend(characters: number): void {
    this.#text -= characters;
    if (this.#text >= 0) return;
    const error = new DomainError(
      'QUERY_TOO_COMPLEX',
      'The answer would hold more than 16 MiB of text; ask for smaller pages.',
    );
    this.#overspending ??= new AbortController();
    this.#overspending.abort(error);
    throw error;
  }

  /** Spends the length of metadata as JSON, and returns it. */
  spendMetadata<M extends object>(metadata: M): M {
    if (Object.keys(metadata).length > 0) this.spend(JSON.stringify(metadata).length);
    return metadata;
  }

  /** Resets the text budget for the next response of a subscription. Its values were spent once, for each response. */
  renew(): void {
    this.#text = maxText;
  }
}
