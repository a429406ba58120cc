import { DomainError } from '../domain/errors.ts';

/** Bytes of one body that are not counted: an ordinary request never waits for large ones, nor is refused for them. */
export const ordinaryBodyBytes = 16 * 1024;
/** About what a parsed value takes beside its text. */
const bytesPerValue = 64;

/** About what is held of a text that is parsed. */
export function parsedBytes(textBytes: number, values: number): number {
  return textBytes + bytesPerValue * values;
}

/** Bytes that bodies may hold in all, and those of one account. */
const maxBytes = 64 * 1024 * 1024;
const maxBytesOfAccount = maxBytes / 2;

/**
 * Bounds the memory of bodies until their requests are answered: a client can send many at once, and end none of them; and
 * what was parsed of them waits for turns, and for locks.
 */
class HeldBodies {
  readonly #byAccount = new Map<string, number>();
  #bytes = 0;

  /** @throws UNAVAILABLE when so much more would be too much */
  add(accountId: string, bytes: number): void {
    const ofAccount = (this.#byAccount.get(accountId) ?? 0) + bytes;
    if (ofAccount > maxBytesOfAccount || this.#bytes + bytes > maxBytes) {
      throw new DomainError('UNAVAILABLE', 'Too many large requests are under way at once; send this one again.', {
        retryAfterSeconds: 1,
        isOverload: true,
      });
    }
    this.#byAccount.set(accountId, ofAccount);
    this.#bytes += bytes;
  }

  remove(accountId: string, bytes: number): void {
    const ofAccount = (this.#byAccount.get(accountId) ?? 0) - bytes;
    if (ofAccount > 0) this.#byAccount.set(accountId, ofAccount);
    else this.#byAccount.delete(accountId);
    this.#bytes -= bytes;
  }
}

const held = new HeldBodies();

/** The memory of the parameters of one request, counted for its account. */
export class BodyMemory {
  readonly accountId: string;
  #bytes = 0;

  constructor(accountId: string) {
    this.accountId = accountId;
  }

  /** @throws UNAVAILABLE */
  growTo(bytes: number): void {
    if (bytes <= ordinaryBodyBytes) return;
    held.add(this.accountId, bytes - this.#bytes);
    this.#bytes = bytes;
  }

  /**
   * Counts what is parsed from a text, which may take more than the text.
   * @throws UNAVAILABLE
   */
  growToParsed(textBytes: number, values: number): void {
    this.growTo(Math.max(this.#bytes, parsedBytes(textBytes, values)));
  }

  release(): void {
    if (this.#bytes > 0) held.remove(this.accountId, this.#bytes);
    this.#bytes = 0;
  }
}
