import { DomainError } from '../domain/errors.ts';

/** Bytes of one body that are not counted: an ordinary request never waits for large ones, nor is refused for them. */
export const ordinaryBodyBytes = 16 * 1024;
/** Bytes that the bodies which are arriving may hold in all, and those of one account. */
const maxBytes = 64 * 1024 * 1024;
const maxBytesOfAccount = maxBytes / 2;

/** Bounds the memory of bodies until they are parsed: a client can send many at once, and end none of them. */
class ArrivingBodies {
  readonly #byAccount = new Map<string, number>();
  #bytes = 0;

  /** @throws UNAVAILABLE when so much more would be too much */
  add(accountId: string, bytes: number): void {
    const ofAccount = (this.#byAccount.get(accountId) ?? 0) + bytes;
    if (ofAccount > maxBytesOfAccount || this.#bytes + bytes > maxBytes) {
      throw new DomainError('UNAVAILABLE', 'Too many large bodies are arriving at once; send this one again.', {
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

const arriving = new ArrivingBodies();

/** The memory of one body, counted for its account. */
export class BodyMemory {
  readonly #accountId: string;
  #bytes = 0;

  constructor(accountId: string) {
    this.#accountId = accountId;
  }

  /** @throws UNAVAILABLE */
  growTo(bytes: number): void {
    if (bytes <= ordinaryBodyBytes) return;
    arriving.add(this.#accountId, bytes - this.#bytes);
    this.#bytes = bytes;
  }

  release(): void {
    if (this.#bytes > 0) arriving.remove(this.#accountId, this.#bytes);
    this.#bytes = 0;
  }
}
