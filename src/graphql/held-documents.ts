import { DomainError } from '../domain/errors.ts';
import { inThousands, mebibyte } from './answer-budget.ts';
import type { CompiledOperation } from './compile.ts';
import type { PreparedDocument } from './documents.ts';

/** Memory of what an owner’s subscriptions hold: documents, their compiled forms, and variables. */
const maxWeight = 32 * mebibyte;
/** Open subscriptions of an owner. Each takes 6 KiB itself, and twice as much while it begins. */
const maxSubscriptions = 5_000;
/** Variables up to this length in JSON are not counted: a subscription takes more than that itself. */
const shortVariables = 512;
/** What the values of longer ones take at most, for each character. */
const bytesPerCharacter = 8;

/** What a subscription needs for as long as it is open. */
export interface Holdable {
  readonly prepared: PreparedDocument;
  readonly compiled: CompiledOperation;
  readonly variables: object;
}

/** A document, or what is compiled from one, with its memory in bytes. */
interface Part {
  readonly weight: number;
  holders: number;
}

/**
 * The documents of the subscriptions that are open, and what is compiled from them. Each is held for as long as a
 * subscription lasts, whether it is still in the cache or not. Subscriptions of the same text share one, and its compiled
 * form if their `@skip` and `@include` agree. Their variables are counted with them.
 */
export class HeldDocuments {
  readonly #byOwner = new Map<string, Holdings>();

  find(owner: string, source: string): PreparedDocument | undefined {
    return this.#byOwner.get(owner)?.find(source);
  }

  /**
   * Counts a subscription and what it holds, until it is released.
   * @throws QUOTA_EXCEEDED for one too many, and when what the owner holds takes too much memory
   */
  hold(owner: string, subscription: Holdable): Hold {
    const holdings = this.#byOwner.get(owner) ?? new Holdings(() => this.#byOwner.delete(owner));
    const hold = new Hold(holdings, subscription);
    this.#byOwner.set(owner, holdings);
    return hold;
  }
}

/** What an open subscription holds. A class rather than a closure, since there may be ten thousand at a time. */
export class Hold {
  readonly #holdings: Holdings;
  readonly #prepared: PreparedDocument;
  readonly #compiled: CompiledOperation;
  readonly #ofVariables: number;

  constructor(holdings: Holdings, { prepared, compiled, variables }: Holdable) {
    this.#holdings = holdings;
    this.#prepared = prepared;
    this.#compiled = compiled;
    this.#ofVariables = weightOfVariables(variables);
    holdings.add(prepared, compiled, this.#ofVariables);
  }

  /** To be called once. */
  release(): void {
    this.#holdings.remove(this.#prepared, this.#compiled, this.#ofVariables);
  }
}

/** What an owner holds. */
class Holdings {
  readonly #bySource = new Map<string, PreparedDocument>();
  readonly #parts = new Map<PreparedDocument | CompiledOperation, Part>();
  readonly #onEmpty: () => void;
  #weight = 0;
  #subscriptions = 0;

  constructor(onEmpty: () => void) {
    this.#onEmpty = onEmpty;
  }

  find(source: string): PreparedDocument | undefined {
    return this.#bySource.get(source);
  }

  add(prepared: PreparedDocument, compiled: CompiledOperation, ofVariables: number): void {
    if (this.#subscriptions >= maxSubscriptions) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `An account may have ${inThousands(maxSubscriptions)} subscriptions open.`,
      );
    }
    const document = this.#parts.get(prepared) ?? { weight: prepared.parsedWeight, holders: 0 };
    const operation = this.#parts.get(compiled) ?? { weight: compiled.weight, holders: 0 };
    const more = ofVariables + moreFor(document) + moreFor(operation);
    if (this.#weight + more > maxWeight) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `The documents and the long variables of an account’s open subscriptions may take ${maxWeight / mebibyte} MiB of memory. Use the same text with short variables.`,
      );
    }
    this.#weight += more;
    this.#subscriptions++;
    document.holders++;
    operation.holders++;
    this.#parts.set(prepared, document).set(compiled, operation);
    this.#bySource.set(prepared.source, prepared);
  }

  remove(prepared: PreparedDocument, compiled: CompiledOperation, ofVariables: number): void {
    this.#subscriptions--;
    this.#weight -= ofVariables;
    this.#releasePart(prepared);
    this.#releasePart(compiled);
    if (!this.#parts.has(prepared) && this.#bySource.get(prepared.source) === prepared) {
      this.#bySource.delete(prepared.source);
    }
    if (this.#parts.size === 0) this.#onEmpty();
  }

  #releasePart(of: PreparedDocument | CompiledOperation): void {
    const part = this.#parts.get(of);
    if (part === undefined || --part.holders > 0) return;
    this.#weight -= part.weight;
    this.#parts.delete(of);
  }
}

/** How much memory one more holder of it takes. */
function moreFor({ weight, holders }: Part): number {
  return holders === 0 ? weight : 0;
}

function weightOfVariables(variables: object): number {
  const { length } = JSON.stringify(variables);
  return length > shortVariables ? bytesPerCharacter * length : 0;
}
