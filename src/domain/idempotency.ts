import * as z from 'zod';
import { bindingOf, type Caller, maySee } from './caller.ts';
import { DomainError, notFound } from './errors.ts';
import type { Secrets } from './ports.ts';
import type { Reads, Storage, Transaction } from './storage-port.ts';

/** How long the result of a key's first request is kept. */
export const idempotencyMs = 24 * 3_600_000;

export const idempotencyKeyDescription =
  'A unique key for this request, of 1 to 255 visible ASCII characters: repeated with it within 24 hours, the request returns the first result again.';
export const idempotencyKeyPattern = /^[\x21-\x7e]{1,255}$/;

export const idempotencyKeyInput = z
  .string({ error: 'must be a string' })
  .regex(idempotencyKeyPattern, { error: 'must be 1 to 255 visible ASCII characters' })
  .nullish()
  .describe(idempotencyKeyDescription);

/** How an operation stores its result, so that a repeated request returns it and changes nothing. */
export interface Repeatable<Input, Output> {
  /** The part of the input that identifies the request; by default all of it. */
  asked?(input: Input): object;
  /** The result to be stored and replayed, without secrets. */
  kept?(output: Output): Output;
  /** The conversation in the result, with which the stored result is erased. */
  conversationIdOf?(output: Output): string | null;
  /** Whether the result is partial: a repeated request then continues from it. */
  isPartial?(output: Output): boolean;
}

/** A result as stored under an idempotency key. */
export interface IdempotencyRecord {
  /** A hash of the request and of what the caller is bound to. */
  readonly fingerprint: Uint8Array;
  /** JSON; null when it was erased with its conversation. */
  readonly result: string | null;
  readonly conversationId: string | null;
  /** Epoch milliseconds. */
  readonly createdAtMs: number;
}

/** @param part the partial result to continue from, if any */
type Work<Output> = (tx: Transaction, part?: Output) => Promise<Output>;

interface Request<Output> {
  readonly caller: Caller;
  readonly now: number;
  readonly secrets: Secrets;
  readonly operation: string;
  /** The part of the input that identifies the request. */
  readonly asked: object;
  readonly key: string;
  readonly repeatable: Pick<Repeatable<never, Output>, 'kept' | 'conversationIdOf' | 'isPartial'>;
  readonly onReplay: () => void;
}

/** Runs work so that it takes effect once per key, and its result is stored in the same transaction as the effect. */
export class Once<Output> {
  readonly #request: Request<Output>;
  readonly #fingerprint: Uint8Array;
  /** Whether this request has run before: what it finds under its key then can be its own. */
  #hasBegun = false;

  constructor(request: Request<Output>) {
    const { secrets, operation, asked, caller } = request;
    this.#request = request;
    this.#fingerprint = secrets.hash(canonicalJson([operation, asked, bindingOf(caller) ?? null]));
  }

  /**
   * Runs the work in a transaction and stores its result, unless there is one to replay.
   * @throws IDEMPOTENCY_KEY_REUSED when the key was used for another request; NOT_FOUND when the result was erased
   */
  async run(storage: Pick<Storage, 'write'>, work: Work<Output>): Promise<Output> {
    // A transaction may be rolled back and repeated, so only the outcome of the committed run counts.
    const { output, wasKnown } = await storage.write((tx) => this.#workOrReplay(tx, work));
    if (wasKnown && !this.#hasBegun) this.#request.onReplay();
    this.#hasBegun = true;
    return output;
  }

  /** `wasKnown`: whether there was a result before, of this request or another. */
  async #workOrReplay(tx: Transaction, work: Work<Output>): Promise<{ output: Output; wasKnown: boolean }> {
    const { caller, now, repeatable } = this.#request;
    const storedKey = await this.#storedKey(tx);
    const before = await this.#find(tx, storedKey);
    if (before !== undefined && repeatable.isPartial?.(before) !== true) return { output: before, wasKnown: true };
    const output = await work(tx, before);
    await tx.idempotencyRecords.put(caller.account.id, storedKey, {
      fingerprint: this.#fingerprint,
      result: JSON.stringify(repeatable.kept?.(output) ?? output),
      conversationId: repeatable.conversationIdOf?.(output) ?? null,
      createdAtMs: now,
    });
    return { output, wasKnown: before !== undefined };
  }

  /** Bound callers have keys of their own, so that they neither learn of others nor take them. */
  async #storedKey({ events }: Pick<Reads, 'events'>): Promise<string> {
    const { caller, key } = this.#request;
    const { account, conversationId, visitor } = caller;
    if (visitor !== undefined) return `visitor:${await events.visitorHash(account.id, visitor.id)} ${key}`;
    return conversationId === undefined ? key : `${conversationId} ${key}`;
  }

  /** The stored result of the same request, if any. */
  async #find(
    { idempotencyRecords, conversations }: Pick<Reads, 'idempotencyRecords' | 'conversations'>,
    storedKey: string,
  ): Promise<Output | undefined> {
    const { caller, now } = this.#request;
    const kept = await idempotencyRecords.find(caller.account.id, storedKey);
    if (kept === undefined || kept.createdAtMs <= now - idempotencyMs) return undefined;
    if (!sameBytes(kept.fingerprint, this.#fingerprint)) throw keyReused();
    if (kept.result === null) throw new DomainError('NOT_FOUND', 'The result of this request has since been deleted.');
    if (caller.visitor !== undefined && kept.conversationId !== null) {
      const conversation = await conversations.find(caller.account.id, kept.conversationId);
      if (conversation === undefined || !maySee(caller, conversation)) throw notFound('conversation');
    }
    return JSON.parse(kept.result) as Output;
  }
}

export function keyReused(): DomainError {
  return new DomainError(
    'IDEMPOTENCY_KEY_REUSED',
    'This idempotency key was already used for another request; use a new one.',
  );
}

/** JSON independent of the order of keys, and of whether a missing value is omitted or null. */
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
