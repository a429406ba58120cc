import type { Caller } from '../domain/caller.ts';
import { operations } from '../domain/operations.ts';
import { Recent, textWeight } from '../domain/recent.ts';

/** An answer that went well, and the operations that were called for it. */
export interface KeptAnswer {
  readonly body: string;
  readonly calls: readonly string[];
}

/** In bytes, of questions and answers. */
const maxKept = 4 * 1024 * 1024;
/** In characters, of a question and its answer. */
const maxLength = 64 * 1024;

const hangOnStorageAlone = new Set<string>(
  Object.values(operations).flatMap((operation) => (operation.hangsOnStorageAlone ? [operation.name] : [])),
);

/**
 * The answers to those who ask the same again, as pages do that poll. None is ever out of date: each time the storage
 * says in which state it is, and an answer is given again in the state that it was made in, to the same key, if nothing
 * but the storage comes into it.
 */
export class KeptAnswers {
  readonly #kept = new Recent<KeptAnswer>(maxKept);

  /**
   * @param question all that the answer hangs on beside the caller and the storage
   * @param state that of the storage when all of the question had come
   */
  get({ keyId, credential }: Caller, question: string, state: number): KeptAnswer | undefined {
    return credential === 'key' ? this.#kept.get(`${keyId} ${question}`, state) : undefined;
  }

  /** @param state that of the storage before the answer was made */
  keep({ keyId, credential }: Caller, question: string, state: number, answer: KeptAnswer): void {
    // The tokens of a key see less than it, each in its own way.
    if (credential !== 'key' || !answer.calls.every((name) => hangOnStorageAlone.has(name))) return;
    if (question.length + answer.body.length > maxLength) return;
    this.#kept.keep(`${keyId} ${question}`, state, answer, textWeight(answer.body));
  }
}
