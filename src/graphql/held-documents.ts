import { DomainError } from '../domain/errors.ts';
import type { PreparedDocument } from './documents.ts';

const mebibyte = 1024 * 1024;
/** Memory of the documents of an owner’s subscriptions, and of their variables. */
const maxWeight = 32 * mebibyte;
/** What is compiled from a document takes about as much memory as the document itself. */
const compiledAndParsed = 2;
/** Variables up to this length in JSON are not counted: a subscription takes more than that itself. */
const shortVariables = 512;
/** What the values of longer ones take at most, for each character. */
const bytesPerCharacter = 8;

interface Held {
  readonly document: PreparedDocument;
  readonly weight: number;
  holders: number;
}

/** What an owner holds. */
interface Holdings {
  /** By text. */
  readonly documents: Map<string, Held>;
  weight: number;
}

/**
 * The documents of the subscriptions that are open. Each is held for as long as a subscription lasts, whether it is still
 * in the cache or not. Subscriptions of the same text share one. Their variables are counted with them.
 */
export class HeldDocuments {
  readonly #byOwner = new Map<string, Holdings>();

  find(owner: string, source: string): PreparedDocument | undefined {
    return this.#byOwner.get(owner)?.documents.get(source)?.document;
  }

  /**
   * Counts a document, and the variables of a subscription, until it is released.
   * @returns releases it
   * @throws QUOTA_EXCEEDED when what the owner holds takes too much memory
   */
  hold(owner: string, document: PreparedDocument, variables: object): () => void {
    const { source, weight } = document;
    const holdings = this.#byOwner.get(owner) ?? { documents: new Map<string, Held>(), weight: 0 };
    const { documents } = holdings;
    const held = documents.get(source) ?? { document, weight: compiledAndParsed * weight, holders: 0 };
    const ofVariables = weightOf(variables);
    const more = ofVariables + (held.holders === 0 ? held.weight : 0);
    if (holdings.weight + more > maxWeight) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `The documents and the long variables of an account’s open subscriptions may take ${maxWeight / mebibyte} MiB of memory. Use the same text with short variables.`,
      );
    }
    holdings.weight += more;
    held.holders++;
    documents.set(source, held);
    this.#byOwner.set(owner, holdings);
    return () => {
      holdings.weight -= ofVariables;
      if (--held.holders > 0) return;
      holdings.weight -= held.weight;
      documents.delete(source);
      if (documents.size === 0) this.#byOwner.delete(owner);
    };
  }
}

function weightOf(variables: object): number {
  const { length } = JSON.stringify(variables);
  return length > shortVariables ? bytesPerCharacter * length : 0;
}
