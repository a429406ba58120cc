import { type Holder, memoryOwner } from '../access/memory-owner.ts';
import { HeldMemory, type Owner } from '../runtime/held-memory.ts';
import { noRoom } from './no-room.ts';

/** Bytes of one request that are not counted: an ordinary one never waits for large ones, nor is refused for them. */
export const ordinaryBytes = 16 * 1024;
/** About what a parsed value takes beside its text. */
const bytesPerValue = 64;

/** About what is held of a text that is parsed. */
export function parsedBytes(textBytes: number, values: number): number {
  return textBytes + bytesPerValue * values;
}

/**
 * Bytes that requests may hold until they are answered: a client can send many at once, and end none of them; and what was
 * parsed of them waits for turns, and for locks.
 */
const held = new HeldMemory({ ofOne: 32 * 1024 * 1024, ofAll: 64 * 1024 * 1024 });

/** The memory of the parameters of one request, counted for its caller. */
export class RequestMemory {
  readonly accountId: string;
  readonly #owner: Owner;
  #bytes = 0;

  constructor(caller: Holder) {
    this.accountId = caller.account.id;
    this.#owner = memoryOwner(caller);
  }

  /** @throws UNAVAILABLE */
  growTo(bytes: number): void {
    if (bytes <= ordinaryBytes) return;
    if (!held.add(this.#owner, bytes - this.#bytes)) {
      throw noRoom('Too many large requests are under way at once; send this one again.');
    }
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
    if (this.#bytes > 0) held.remove(this.#owner, this.#bytes);
    this.#bytes = 0;
  }
}

/**
 * Gives back the memory of bytes that nobody reads any more. It lies outside of the heap, where a hundred megabytes of
 * it would wait for the collector, which begins late because the heap is small.
 */
export function giveBack({ buffer, byteLength }: Buffer): void {
  const isWhole = buffer.byteLength === byteLength; // otherwise others may have parts of it
  if (isWhole && byteLength > 0) (buffer as ArrayBuffer).transfer(0);
}
