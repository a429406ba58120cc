import { DomainError } from '../domain/errors.ts';

/**
 * Values in one answer. A hundred conversations with a hundred messages each, whole, are a seventh of it; graphql-js is
 * busy with so many for up to a second.
 */
export const maxValues = 1_000_000;

/** Characters of messages, metadata and the like in one answer. */
const maxText = 16 * 1024 * 1024;

/**
 * What the answer to one request may still hold, of values and of the texts that can be long. Aliases ask for the same
 * again and again, so the number of objects bounds neither.
 */
export class AnswerBudget {
  #values = maxValues;
  #text = maxText;
  #overspending: AbortController | undefined;

  /** Aborts when the texts have become too long: what else is made of the answer is for nobody. */
  get overspent(): AbortSignal {
    this.#overspending ??= new AbortController();
    return this.#overspending.signal;
  }

  /**
   * Spends what an operation could return, before it runs.
   * @throws QUERY_TOO_COMPLEX
   */
  spendValues(values: number): void {
    if (values > this.#values) {
      throw new DomainError(
        'QUERY_TOO_COMPLEX',
        `The answer could hold more than ${maxValues} values; ask for fewer fields, or smaller pages.`,
      );
    }
    this.#values -= values; // what is refused leaves the rest to the others of its batch
  }

  /**
   * Spends a text that the answer holds, as it is made.
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

  /** Hands on metadata, for its length as JSON. */
  spendMetadata<M extends object>(metadata: M): M {
    if (Object.keys(metadata).length > 0) this.spend(JSON.stringify(metadata).length);
    return metadata;
  }

  /** A subscription has one answer after another. None has more values than were spent when it began. */
  renew(): void {
    this.#text = maxText;
  }
}
