import { z } from 'zod';
import type { Caller } from './caller.ts';
import { DomainError } from './errors.ts';
import type { Secrets } from './ports.ts';
import type { Reads, Storage, Transaction } from './storage-port.ts';

/** How long a key holds the result of its first request. */
export const idempotencyMs = 24 * 3_600_000;

export const idempotencyKeyDescription =
  'A unique key for this request: repeated with it within 24 hours, the request returns the first result again.';
export const idempotencyKeyPattern = /^[\x21-\x7e]{1,255}$/;

export const idempotencyKeyInput = z
  .string({ error: 'must be a string' })
  .regex(idempotencyKeyPattern, { error: 'must be 1 to 255 visible ASCII characters' })
  .nullish()
  .describe(idempotencyKeyDescription);

/** How the result of an operation is kept, so that the same request again gives it and changes nothing. */
export interface Repeatable<Input, Output> {
  /** What of the input makes it the same request: by default all of it. */
  asked?(input: Input): object;
  /** The result as it is kept and given again: a secret must not be. */
  kept?(output: Output): Output;
  /** The conversation that the result tells of: it is erased with it. */
  conversationIdOf?(output: Output): string | null;
  /** Whether it is the result of a part only: the same request again goes on from there. */
  isPartial?(output: Output): boolean;
}

/** The result of a request, as it is kept under the caller's key for it. */
export interface KeptResult {
  /** A hash of what was asked, and by which kind of caller. */
  readonly fingerprint: Uint8Array;
  /** JSON; null when it was erased with its conversation. */
  readonly result: string | null;
  readonly conversationId: string | null;
  /** Epoch milliseconds. */
  readonly createdAtMs: number;
}

/** @param part the result of a part, if there is one to go on from */
type Work<Output> = (tx: Transaction, part?: Output) => Promise<Output>;

interface Request<Output> {
  readonly caller: Caller;
  readonly now: number;
  readonly secrets: Secrets;
  readonly operation: string;
  /** What makes it the same request. */
  readonly asked: object;
  readonly key: string;
  readonly repeatable: Pick<Repeatable<never, Output>, 'kept' | 'conversationIdOf' | 'isPartial'>;
  readonly onReplay: () => void;
}

/** What came of a work, or of the same request before. */
interface Outcome<Output> {
  readonly output: Output;
  readonly isReplay: boolean;
}

/** Runs works so that each key's effect happens once, and its result is stored with it or not at all. */
export class Once<Output> {
  readonly #request: Request<Output>;
  readonly #fingerprint: Uint8Array;
  /** Whether a part of the result is this request's own. */
  #hasWorked = false;

  constructor(request: Request<Output>) {
    const { secrets, operation, asked, caller } = request;
    this.#request = request;
    // A caller bound to a conversation is shown less, so it is not given what another was shown.
    this.#fingerprint = secrets.hash(canonicalJson([operation, asked, caller.conversationId ?? null]));
  }

  /**
   * Runs the work in a transaction and keeps its result, unless there is one to be given again.
   * @throws IDEMPOTENCY_KEY_REUSED when the key came with another request; NOT_FOUND when the result was erased
   */
  async run(storage: Pick<Storage, 'write'>, work: Work<Output>): Promise<Output> {
    // A transaction may be undone and tried again: what it has come to counts once it is committed.
    const { output, isReplay } = await storage.write((tx) => this.#workOrReplay(tx, work));
    if (!isReplay) this.#hasWorked = true;
    else if (!this.#hasWorked) this.#request.onReplay();
    return output;
  }

  async #workOrReplay(tx: Transaction, work: Work<Output>): Promise<Outcome<Output>> {
    const { caller, key, now, repeatable } = this.#request;
    const before = await this.#find(tx);
    if (before !== undefined && repeatable.isPartial?.(before) !== true) return { output: before, isReplay: true };
    const output = await work(tx, before);
    await tx.keptResults.put(caller.account.id, key, {
      fingerprint: this.#fingerprint,
      result: JSON.stringify(repeatable.kept?.(output) ?? output),
      conversationId: repeatable.conversationIdOf?.(output) ?? null,
      createdAtMs: now,
    });
    return { output, isReplay: false };
  }

  /** The result of the same request before, if there was one. */
  async #find({ keptResults }: Pick<Reads, 'keptResults'>): Promise<Output | undefined> {
    const { caller, key, now } = this.#request;
    const kept = await keptResults.find(caller.account.id, key);
    if (kept === undefined || kept.createdAtMs <= now - idempotencyMs) return undefined;
    if (!sameBytes(kept.fingerprint, this.#fingerprint)) throw keyReused();
    if (kept.result === null) throw new DomainError('NOT_FOUND', 'What this request has made was deleted since.');
    return JSON.parse(kept.result) as Output;
  }
}

export function keyReused(): DomainError {
  return new DomainError('IDEMPOTENCY_KEY_REUSED', 'This idempotency key came with another request; use a new one.');
}

/** JSON that depends neither on the order of keys nor on whether what is left out is said to be null. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    const said = Object.entries(part).filter(([, each]) => each !== null);
    return Object.fromEntries(said.sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
