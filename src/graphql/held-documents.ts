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

interface Held {
  readonly weight: number;
  holders: number;
}

/** What an owner holds. */
interface Holdings {
  /** By text. */
  readonly documents: Map<string, PreparedDocument>;
  readonly held: Map<PreparedDocument | CompiledOperation, Held>;
  weight: number;
  subscriptions: number;
}

/**
 * The documents of the subscriptions that are open, and what is compiled from them. Each is held for as long as a
 * subscription lasts, whether it is still in the cache or not. Subscriptions of the same text share one, and its compiled
 * form if their `@skip` and `@include` agree. Their variables are counted with them.
 */
export class HeldDocuments {
  readonly #byOwner = new Map<string, Holdings>();

  find(owner: string, source: string): PreparedDocument | undefined {
    return this.#byOwner.get(owner)?.documents.get(source);
  }

  /**
   * Counts a subscription and what it holds, until it is released.
   * @returns releases it
   * @throws QUOTA_EXCEEDED for one too many, and when what the owner holds takes too much memory
   */
  hold(owner: string, { prepared, compiled, variables }: Holdable): () => void {
    const holdings: Holdings = this.#byOwner.get(owner) ?? {
      documents: new Map(),
      held: new Map(),
      weight: 0,
      subscriptions: 0,
    };
    if (holdings.subscriptions >= maxSubscriptions) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `An account may have ${inThousands(maxSubscriptions)} subscriptions open.`,
      );
    }
    const parts: [PreparedDocument | CompiledOperation, Held][] = [
      [prepared, holdings.held.get(prepared) ?? { weight: prepared.parsedWeight, holders: 0 }],
      [compiled, holdings.held.get(compiled) ?? { weight: compiled.weight, holders: 0 }],
    ];
    const ofVariables = weightOfVariables(variables);
    const more = parts.reduce((sum, [, { weight, holders }]) => sum + (holders === 0 ? weight : 0), ofVariables);
    if (holdings.weight + more > maxWeight) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        `The documents and the long variables of an account’s open subscriptions may take ${maxWeight / mebibyte} MiB of memory. Use the same text with short variables.`,
      );
    }
    holdings.weight += more;
    holdings.subscriptions++;
    for (const [part, held] of parts) {
      held.holders++;
      holdings.held.set(part, held);
    }
    holdings.documents.set(prepared.source, prepared);
    this.#byOwner.set(owner, holdings);
    return () => {
      holdings.subscriptions--;
      holdings.weight -= ofVariables;
      for (const [part, held] of parts) {
        if (--held.holders > 0) continue;
        holdings.weight -= held.weight;
        holdings.held.delete(part);
        if (holdings.documents.get(prepared.source) === part) holdings.documents.delete(prepared.source);
      }
      if (holdings.held.size === 0) this.#byOwner.delete(owner);
    };
  }
}

function weightOfVariables(variables: object): number {
  const { length } = JSON.stringify(variables);
  return length > shortVariables ? bytesPerCharacter * length : 0;
}
