import {
  type DocumentNode,
  type GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  type OperationDefinitionNode,
} from 'graphql';
import { type AdmissionContext, refuseGone } from '../access/admission.ts';
import { type Holder, memoryOwner } from '../access/memory-owner.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { type CompiledOperation, compileOperation, conditionsIn } from './compile.ts';
import type { VariableValues } from './execution.ts';
import { HeldDocuments, type Hold, type Holdable } from './held-documents.ts';
import { maxTokens } from './limits.ts';
import { type Measured, measure } from './measure.ts';
import { refuseRepeats } from './repeats.ts';
import { parseWithinLimits, validateDocument } from './requests.ts';

/** An operation of a document. */
interface PreparedOperation {
  readonly node: OperationDefinitionNode;
  /** Measures it with these coerced variables. After the first time it takes no time, unless it depends on them. */
  measure(variables: VariableValues['coerced']): Measured;
  /**
   * Its compiled form for these variables.
   * @throws QUERY_TOO_COMPLEX for too many fields
   */
  compiled(variables: VariableValues): CompiledOperation;
}

/** A document that has been parsed and validated. */
export class PreparedDocument {
  readonly source: string;
  readonly document: DocumentNode;
  readonly schema: GraphQLSchema;
  /** Its validation errors. */
  readonly errors: readonly GraphQLError[];
  readonly #conditions: readonly string[];
  readonly #operations = new Map<string | null, PreparedOperation | undefined>();
  /** By operation and conditions, the oldest first. */
  readonly #compiled = new Map<string, CompiledOperation>();
  #parsedWeight: number;
  #compiledWeight = 0;
  #onGrown: (() => void) | undefined;

  /** @throws GraphQLError for a syntax error, or for what is too long or repeats too much to be validated */
  constructor(schema: GraphQLSchema, source: string) {
    this.schema = schema;
    this.source = source;
    this.document = parseWithinLimits(source);
    refuseRepeats(schema, this.document);
    this.errors = validateDocument(schema, this.document);
    this.#conditions = conditionsIn(this.document);
    this.#parsedWeight = 2 * source.length + bytesPerToken * (this.document.tokenCount ?? maxTokens);
  }

  /** About how much memory it takes, in bytes, without what is compiled from it. It grows with each operation. */
  get parsedWeight(): number {
    return this.#parsedWeight;
  }

  /** About how much memory it takes, in bytes. */
  get weight(): number {
    return this.#parsedWeight + this.#compiledWeight;
  }

  /**
   * Keeps what is compiled from now on.
   * @param onGrown called when it has become heavier
   */
  keepCompiled(onGrown: () => void): void {
    this.#onGrown = onGrown;
  }

  forgetCompiled(): void {
    this.#onGrown = undefined;
    this.#compiled.clear();
    this.#compiledWeight = 0;
  }

  /** The operation with this name, or the only one; undefined if there is none. */
  operation(name: string | null): PreparedOperation | undefined {
    if (this.#operations.has(name)) return this.#operations.get(name);
    const node = getOperationAST(this.document, name);
    if (node == null) return undefined;
    const number = this.#operations.size;
    let fixed: Measured | undefined;
    const prepared: PreparedOperation = {
      node,
      measure: (variables) => {
        const measured = fixed ?? measure(this.schema, this.document, node, variables);
        if (measured.isFixed) fixed = measured;
        return measured;
      },
      compiled: ({ coerced }) => this.#compile(node, number, coerced),
    };
    this.#operations.set(name, prepared);
    this.#parsedWeight += bytesPerOperation;
    this.#onGrown?.();
    return prepared;
  }

  #compile(node: OperationDefinitionNode, number: number, variables: VariableValues['coerced']): CompiledOperation {
    const values = this.#conditions.map((name) => variables[name] === true);
    const key = `${number} ${values.join(' ')}`;
    const known = this.#compiled.get(key);
    if (known !== undefined) return known;
    const conditions = Object.fromEntries(this.#conditions.map((name, index) => [name, values[index] === true]));
    const compiled = compileOperation(this.schema, this.document, node, conditions);
    if (this.#onGrown === undefined) return compiled;
    this.#compiled.set(key, compiled);
    this.#compiledWeight += compiled.weight;
    for (const [key, oldest] of this.#compiled) {
      if (this.#compiledWeight <= maxCompiledWeight) break;
      this.#compiled.delete(key);
      this.#compiledWeight -= oldest.weight;
    }
    this.#onGrown();
    return compiled;
  }
}

// Measured, and rounded up.
const bytesPerToken = 400;
const bytesPerOperation = 2_000;

/** Of what is kept compiled of a document, in bytes. The largest operations are compiled for each use. */
const maxCompiledWeight = 2 * 1024 * 1024;

/** Memory of the cached documents in bytes: of one owner, and of all. */
const maxWeightOfOwner = 8 * 1024 * 1024;
const maxWeight = 8 * maxWeightOfOwner;

/** A request that asks for a document. */
export type Asking = Pick<AdmissionContext, 'isGone'>;

/** A cached document. */
interface KeptDocument {
  readonly prepared: PreparedDocument;
  /** What it weighed when it was last kept: it grows. */
  readonly weight: number;
  /** The hash of its text, if it was persisted. */
  readonly hash: string | undefined;
}

/** The documents of an owner. */
interface Kept {
  /** The least recently used first. */
  readonly bySource: Map<string, KeptDocument>;
  /** The texts of those that were persisted. */
  readonly byHash: Map<string, string>;
  weight: number;
}

/** Prepares documents, and caches the valid ones that were used most recently. */
export class Documents {
  /** Those of open subscriptions. */
  readonly #held = new HeldDocuments();
  readonly #schema: GraphQLSchema;
  /** By owner, the least recently active first. */
  readonly #kept = new Map<string, Kept>();
  /** Of requests that were left to Yoga after their document had been prepared, which need not be in the cache. */
  readonly #byRequest = new WeakMap<object, PreparedDocument>();
  #weight = 0;

  constructor(schema: GraphQLSchema) {
    this.#schema = schema;
  }

  /**
   * The prepared form of a document of an owner. Unless it is cached, the account has to wait for its turn.
   * @param request may ask again
   * @throws GraphQLError for a syntax error, or for what is too long or repeats too much to be validated
   * @throws BAD_REQUEST for a client that has gone meanwhile
   */
  prepare(caller: Holder, source: string, request?: Asking): Awaitable<PreparedDocument> {
    const before = request && this.#byRequest.get(request);
    if (before?.source === source) return before;
    return this.#get(memoryOwner(caller).name, source) ?? this.#prepare(caller, source, request);
  }

  /** The text that an owner has persisted under its hash, for as long as it is in the cache. */
  persisted(caller: Holder, hash: string): string | undefined {
    return this.#kept.get(memoryOwner(caller).name)?.byHash.get(hash);
  }

  /**
   * Prepares a document, as `prepare` does, and persists it if it is valid.
   * @param hash of its text
   */
  async persist(caller: Holder, hash: string, source: string, request?: Asking): Promise<PreparedDocument> {
    const prepared = await this.prepare(caller, source, request);
    if (prepared.errors.length === 0) this.#keep(memoryOwner(caller).name, prepared, hash);
    return prepared;
  }

  /**
   * Holds what a subscription needs for as long as it is open, until it is released.
   * @throws QUOTA_EXCEEDED when what the owner holds takes too much memory
   */
  hold(caller: Holder, subscription: Holdable): Hold {
    return this.#held.hold(memoryOwner(caller), subscription);
  }

  async #prepare(caller: Holder, source: string, request?: Asking): Promise<PreparedDocument> {
    await scheduler.step(caller.account.id);
    if (request !== undefined) refuseGone(request);
    const key = memoryOwner(caller).name;
    const meanwhile = this.#get(key, source);
    if (meanwhile !== undefined) return meanwhile;
    const prepared = new PreparedDocument(this.#schema, source);
    if (request !== undefined) this.#byRequest.set(request, prepared);
    if (prepared.errors.length === 0) this.#keep(key, prepared);
    return prepared;
  }

  /** A cached document, which becomes the most recently used one. */
  #get(key: string, source: string): PreparedDocument | undefined {
    const kept = this.#kept.get(key)?.bySource.get(source);
    const prepared = kept?.prepared ?? this.#held.find(key, source);
    if (prepared !== undefined) this.#keep(key, prepared);
    return prepared;
  }

  /** @param persistedAs the hash of its text, if it is to be persisted now */
  #keep(key: string, prepared: PreparedDocument, persistedAs?: string): void {
    const { source, weight } = prepared;
    const kept = this.#kept.get(key) ?? { bySource: new Map(), byHash: new Map(), weight: 0 };
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    const before = kept.bySource.get(source);
    const hash = persistedAs ?? before?.hash;
    this.#remove(kept, source);
    if (before?.prepared !== prepared) before?.prepared.forgetCompiled();
    kept.bySource.set(source, { prepared, weight, hash });
    if (hash !== undefined) kept.byHash.set(hash, source);
    kept.weight += weight;
    this.#weight += weight;
    prepared.keepCompiled(() => this.#keep(key, prepared));
    while (kept.weight > maxWeightOfOwner) this.#forgetOldest(kept);
    while (this.#weight > maxWeight) {
      for (const [oldest, documents] of this.#kept) {
        this.#forgetOldest(documents);
        if (documents.bySource.size === 0) this.#kept.delete(oldest);
        break;
      }
    }
  }

  #forgetOldest(kept: Kept): void {
    for (const [oldest, { prepared }] of kept.bySource) {
      this.#remove(kept, oldest);
      prepared.forgetCompiled();
      break;
    }
  }

  #remove(kept: Kept, source: string): void {
    const { weight = 0, hash } = kept.bySource.get(source) ?? {};
    kept.bySource.delete(source);
    if (hash !== undefined) kept.byHash.delete(hash);
    kept.weight -= weight;
    this.#weight -= weight;
  }
}
