import type { Caller } from '../domain/caller.ts';
import { operations } from '../domain/operations.ts';
import { textWeight, VersionedCache } from '../runtime/versioned-cache.ts';

/** A response without errors, and the operations that were called for it. */
export interface KeptAnswer {
  readonly body: string;
  readonly calls: readonly string[];
}

/** The size of the cache in bytes, of requests and responses together. */
const maxKept = 4 * 1024 * 1024;
/** The most characters of one request and its response. */
const maxLength = 64 * 1024;

const cacheable = new Set<string>(
  Object.values(operations).flatMap((operation) => (operation.isCacheable ? [operation.name] : [])),
);

/**
 * Caches responses for clients that repeat a request, such as pages that poll. No response is out of date: it is used
 * again only in the storage state that it was made in, only for the same key, and only if it depends on nothing but the
 * storage.
 */
export class KeptAnswers {
  readonly #kept = new VersionedCache<KeptAnswer>(maxKept);

  /**
   * @param question everything that the response depends on besides the caller and the storage
   * @param state of the storage when the request had arrived in full
   */
  get({ keyId, credential }: Caller, question: string, state: number): KeptAnswer | undefined {
    return credential === 'key' ? this.#kept.get(`${keyId} ${question}`, state) : undefined;
  }

  /** @param state of the storage before the response was made */
  keep({ keyId, credential }: Caller, question: string, state: number, answer: KeptAnswer): void {
    // The tokens of a key see less than the key, each something else.
    if (credential !== 'key' || !answer.calls.every((name) => cacheable.has(name))) return;
    if (question.length + answer.body.length > maxLength) return;
    this.#kept.keep(`${keyId} ${question}`, state, answer, textWeight(answer.body));
  }
}
