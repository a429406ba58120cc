import { DomainError } from '../domain/errors.ts';
import { type Owner, shareOfMember } from '../runtime/held-memory.ts';
import { inThousands, mebibyte } from './answer-budget.ts';
import type { CompiledOperation } from './compile.ts';
import type { PreparedDocument } from './documents.ts';

interface Limits {
  readonly whose: string;
  /** Memory of what the subscriptions hold: documents, their compiled forms, and variables. */
  readonly weight: number;
  /** Open subscriptions. Each takes 6 KiB itself, and twice as much while it begins. */
  readonly subscriptions: number;
}

const ofOwner: Limits = { whose: 'an account', weight: 32 * mebibyte, subscriptions: 5_000 };
const ofMember: Limits = {
  whose: 'tokens that are bound to the same',
  weight: ofOwner.weight * shareOfMember,
  subscriptions: ofOwner.subscriptions * shareOfMember,
};
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
  /** By the names of owners, and of their members. */
  readonly #holdings = new Map<string, Holdings>();

  find(owner: string, source: string): PreparedDocument | undefined {
    return this.#holdings.get(owner)?.find(source);
  }

  /**
   * Counts a subscription and what it holds, until it is released.
   * @throws QUOTA_EXCEEDED for one too many, and when what the owner holds takes too much memory
   */
  hold({ name, member }: Owner, subscription: Holdable): Hold {
    const all = new Map([[name, this.#of(name, ofOwner)]]);
    if (member !== undefined) all.set(member, this.#of(member, ofMember));
    const hold = new Hold([...all.values()], subscription);
    for (const [of, holdings] of all) this.#holdings.set(of, holdings);
    return hold;
  }

  #of(name: string, limits: Limits): Holdings {
    return this.#holdings.get(name) ?? new Holdings(limits, () => this.#holdings.delete(name));
  }
}

/** What an open subscription holds. A class rather than a closure, since there may be ten thousand at a time. */
export class Hold {
  readonly #holdings: readonly Holdings[];
  readonly #prepared: PreparedDocument;
  readonly #compiled: CompiledOperation;
  readonly #ofVariables: number;

  constructor(holdings: readonly Holdings[], { prepared, compiled, variables }: Holdable) {
    this.#holdings = holdings;
    this.#prepared = prepared;
    this.#compiled = compiled;
    this.#ofVariables = weightOfVariables(variables);
    for (const each of holdings) each.requireRoom(prepared, compiled, this.#ofVariables);
    for (const each of holdings) each.add(prepared, compiled, this.#ofVariables);
  }

  /** To be called once. */
  release(): void {
    for (const each of this.#holdings) each.remove(this.#prepared, this.#compiled, this.#ofVariables);
  }
}

/** What an owner holds, or a member of it. */
class Holdings {
  readonly #bySource = new Map<string, PreparedDocument>();
  readonly #parts = new Map<PreparedDocument | CompiledOperation, Part>();
  readonly #limits: Limits;
  readonly #onEmpty: () => void;
  #weight = 0;
  #subscriptions = 0;

  constructor(limits: Limits, onEmpty: () => void) {
    this.#limits = limits;
    this.#onEmpty = onEmpty;
  }

  find(source: string): PreparedDocument | undefined {
    return this.#bySource.get(source);
  }

  /** @throws QUOTA_EXCEEDED */
  requireRoom(prepared: PreparedDocument, compiled: CompiledOperation, ofVariables: number): void {
    const { whose, weight, subscriptions } = this.#limits;
    if (this.#subscriptions >= subscriptions) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `There may be ${inThousands(subscriptions)} open subscriptions of ${whose}.`,
      );
    }
    const more =
      ofVariables + this.#moreFor(prepared, prepared.parsedWeight) + this.#moreFor(compiled, compiled.weight);
    if (this.#weight + more > weight) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `The documents and the long variables of the open subscriptions of ${whose} may take ${weight / mebibyte} MiB of memory. Use the same text with short variables.`,
      );
    }
  }

  add(prepared: PreparedDocument, compiled: CompiledOperation, ofVariables: number): void {
    this.#subscriptions++;
    this.#weight += ofVariables;
    this.#holdPart(prepared, prepared.parsedWeight);
    this.#holdPart(compiled, compiled.weight);
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

  /** How much memory one more holder of it takes. */
  #moreFor(of: PreparedDocument | CompiledOperation, weight: number): number {
    return this.#parts.has(of) ? 0 : weight;
  }

  #holdPart(of: PreparedDocument | CompiledOperation, weight: number): void {
    const part = this.#parts.get(of) ?? { weight, holders: 0 };
    this.#weight += this.#moreFor(of, weight);
    part.holders++;
    this.#parts.set(of, part);
  }

  #releasePart(of: PreparedDocument | CompiledOperation): void {
    const part = this.#parts.get(of);
    if (part === undefined || --part.holders > 0) return;
    this.#weight -= part.weight;
    this.#parts.delete(of);
  }
}

function weightOfVariables(variables: object): number {
  const { length } = JSON.stringify(variables);
  return length > shortVariables ? bytesPerCharacter * length : 0;
}
