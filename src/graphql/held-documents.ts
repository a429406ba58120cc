import { DomainError } from '../domain/errors.ts';
import type { PreparedDocument } from './documents.ts';

const mebibyte = 1024 * 1024;
/** Memory of the documents of an owner's subscriptions. */
const maxWeight = 32 * mebibyte;
/** What is compiled from a document takes about as much memory as the document itself. */
const compiledAndParsed = 2;

interface Held {
  readonly document: PreparedDocument;
  readonly weight: number;
  holders: number;
}

/**
 * The documents of the subscriptions that are open. Each is held for as long as a subscription lasts, whether it is still
 * in the cache or not. Subscriptions of the same text share one.
 */
export class HeldDocuments {
  /** By owner and text. */
  readonly #byOwner = new Map<string, Map<string, Held>>();

  find(owner: string, source: string): PreparedDocument | undefined {
    return this.#byOwner.get(owner)?.get(source)?.document;
  }

  /**
   * Counts a document until it is released.
   * @returns releases it
   * @throws QUOTA_EXCEEDED when the owner's documents take too much memory
   */
  hold(owner: string, document: PreparedDocument): () => void {
    const documents = this.#byOwner.get(owner) ?? new Map<string, Held>();
    const held = documents.get(document.source) ?? {
      document,
      weight: compiledAndParsed * document.weight,
      holders: 0,
    };
    if (held.holders === 0) {
      const others = documents.values().reduce((sum, { weight }) => sum + weight, 0);
      if (others + held.weight > maxWeight) {
        throw new DomainError(
          'QUOTA_EXCEEDED',
          `The documents of an account’s open subscriptions may take ${maxWeight / mebibyte} MiB of memory. Use the same text with variables.`,
        );
      }
    }
    held.holders++;
    documents.set(document.source, held);
    this.#byOwner.set(owner, documents);
    return () => {
      if (--held.holders > 0) return;
      documents.delete(document.source);
      if (documents.size === 0) this.#byOwner.delete(owner);
    };
  }
}
