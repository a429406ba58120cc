import { DomainError } from '../domain/errors.ts';
import type { Cost } from './measure.ts';

/** The most objects in one response: a hundred conversations with a hundred messages each, and what is around them. */
export const maxObjects = 11_000;
/** The most values in one response, which are made in 16 to 40 ms. */
export const maxValues = 100_000;
export const maxObjectsOfEvent = 100;
export const maxValuesOfEvent = 2_000;

/** What could return more values than a short list waits for its account's turn. */
const fewValues = 200;
export const mebibyte = 1024 * 1024;

/** The most JSON in one response, in bytes. */
export const maxBytes = 8 * mebibyte;

/** The most JSON in the response to one event of a subscription, in bytes. */
export const maxEventBytes = mebibyte / 4;

/** The most errors in one response. */
export const maxErrors = 100;

/**
 * What the response to one request may still contain; the operations of a batch share it. How much it could hold is
 * known before it is made, how long that is only while it is.
 */
export class AnswerBudget {
  /** The bytes of JSON so far. */
  bytes = 0;
  /** Whether it is that of a mutation, or of a batch with one. */
  isOfMutation = false;
  /** Whether a list has been read for it. */
  hasListed = false;
  /** The bytes of long texts that were read for it, whether or not they are part of it. */
  #readBytes = 0;
  readonly #maxBytes: number;
  #objects = 0;
  #values = 0;
  #size = 0;

  constructor(max = maxBytes) {
    this.#maxBytes = max;
  }

  /** Whether there are more bytes than allowed. */
  get isSpent(): boolean {
    return this.bytes > this.#maxBytes || this.#readBytes > this.#maxBytes;
  }

  /** What to say then. */
  get tooLong(): string {
    const size = this.#maxBytes < mebibyte ? `${this.#maxBytes / 1024} KiB` : `${this.#maxBytes / mebibyte} MiB`;
    return this.#readBytes > this.#maxBytes
      ? `More than ${size} of messages, attempts, events or documents would be read for the answer; ask for smaller pages.`
      : `The answer would hold more than ${size} of JSON; ask for fewer fields, or smaller pages.`;
  }

  /**
   * Counts long texts that were read for the answer.
   * @throws QUERY_TOO_COMPLEX when they have more bytes than an answer may have
   */
  read(bytes: number): void {
    this.#readBytes += bytes;
    if (this.#readBytes > this.#maxBytes) throw new DomainError('QUERY_TOO_COMPLEX', this.tooLong);
  }

  /** Whether the operation could take so long that it has to wait for its account's turn. */
  get needsTurn(): boolean {
    return this.#values > fewValues;
  }

  /** About how much memory it could take, in bytes. */
  get size(): number {
    return this.#size;
  }

  /**
   * Spends the objects and values that an operation could return, before it runs.
   * @throws QUERY_TOO_COMPLEX
   */
  spendCost({ objects, values, bytes }: Cost): void {
    // A refused operation spends nothing of what is left for its batch.
    refuseMore('The answer', 'objects', this.#objects + objects, maxObjects);
    refuseMore('The answer', 'values', this.#values + values, maxValues);
    this.#objects += objects;
    this.#values += values;
    this.#size += bytes;
  }
}

/**
 * Refuses a subscription whose answer to an event could be too large.
 * @throws QUERY_TOO_COMPLEX
 */
export function refuseLargeEvent({ objects, values }: Cost): void {
  refuseMore('The answer to an event', 'objects', objects, maxObjectsOfEvent);
  refuseMore('The answer to an event', 'values', values, maxValuesOfEvent);
}

function refuseMore(answer: string, things: string, count: number, limit: number): void {
  if (count <= limit) return;
  const figures = `${answer} could hold ${inThousands(count)} ${things}; at most ${inThousands(limit)} are allowed.`;
  throw new DomainError('QUERY_TOO_COMPLEX', `${figures} Ask for fewer fields, or smaller pages.`);
}

/** A number for people to read: `11,000`. */
export function inThousands(count: number): string {
  return count.toLocaleString('en-GB');
}
