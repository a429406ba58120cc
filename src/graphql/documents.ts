import {
  type DocumentNode,
  type GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  type OperationDefinitionNode,
} from 'graphql';
import { type AdmissionContext, refuseGone } from '../access/admission.ts';
import type { Account } from '../domain/accounts.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { type Caller, isBound } from '../domain/caller.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { type CompiledOperation, compileOperation } from './compile.ts';
import { HeldDocuments } from './held-documents.ts';
import { type Complexity, complexityOf, maxTokens } from './limits.ts';
import { refuseRepeats } from './repeats.ts';
import { parseWithinLimits, validateDocument } from './requests.ts';

/** An operation of a document. */
export interface PreparedOperation {
  readonly node: OperationDefinitionNode;
  /** Runs it; compiled when it is first needed. */
  readonly run: CompiledOperation;
  readonly complexity: Complexity;
}

/** A document that has been parsed and validated. */
export class PreparedDocument {
  readonly source: string;
  readonly document: DocumentNode;
  readonly schema: GraphQLSchema;
  /** Its validation errors. */
  readonly errors: readonly GraphQLError[];
  #weight: number;
  readonly #operations = new Map<string | null, PreparedOperation | undefined>();

  /** @throws GraphQLError for a syntax error, or for what is too long or repeats too much to be validated */
  constructor(schema: GraphQLSchema, source: string) {
    this.schema = schema;
    this.source = source;
    this.document = parseWithinLimits(source);
    refuseRepeats(schema, this.document);
    this.errors = validateDocument(schema, this.document);
    this.#weight = 2 * source.length + bytesPerToken * (this.document.tokenCount ?? maxTokens);
  }

  /** About how much memory it takes, in bytes. It grows with each operation that is prepared. */
  get weight(): number {
    return this.#weight;
  }

  /** The operation with this name, or the only one; undefined if there is none. */
  operation(name: string | null): PreparedOperation | undefined {
    if (this.#operations.has(name)) return this.#operations.get(name);
    const node = getOperationAST(this.document, name);
    if (node == null) return undefined;
    const prepared = {
      node,
      run: compileOperation(this.schema, this.document, node, (fields) => {
        this.#weight += bytesPerField * fields;
      }),
      complexity: complexityOf(this.schema, this.document, node),
    };
    this.#operations.set(name, prepared);
    this.#weight += bytesPerOperation;
    return prepared;
  }
}

// Measured, and rounded up.
const bytesPerToken = 400;
const bytesPerField = 1_000;
const bytesPerOperation = 2_000;

/** Memory of the cached documents in bytes: of one owner, and of all. */
const maxWeightOfOwner = 8 * 1024 * 1024;
const maxWeight = 8 * maxWeightOfOwner;

/**
 * Whose documents they are: an account's, or those of its bound tokens. These are kept apart, so that no page of a visitor
 * pushes out what the agents use.
 */
export interface DocumentOwner extends Pick<Caller, 'conversationId' | 'visitor'> {
  readonly account: Pick<Account, 'id'>;
}

/** A request that asks for a document. */
export type Asking = Pick<AdmissionContext, 'isGone'>;

function keyOf(owner: DocumentOwner): string {
  return isBound(owner) ? `${owner.account.id} bound` : owner.account.id;
}

/** A cached document. */
interface KeptDocument {
  readonly prepared: PreparedDocument;
  /** When it was last used. */
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
  readonly #prepared = new WeakMap<DocumentNode, PreparedDocument>();
  /** Of requests that were left to Yoga after their document had been prepared, which need not be in the cache. */
  readonly #byRequest = new WeakMap<object, PreparedDocument>();
  #weight = 0;

  constructor(schema: GraphQLSchema) {
    this.#schema = schema;
  }

  /** The prepared form of a document, for code that is passed only the document. */
  of(document: DocumentNode): PreparedDocument {
    const prepared = this.#prepared.get(document);
    if (prepared === undefined) throw new Error('The document was not prepared');
    return prepared;
  }

  /**
   * The prepared form of a document of an owner. Unless it is cached, the account has to wait for its turn.
   * @param request may ask again
   * @throws GraphQLError for a syntax error, or for what is too long or repeats too much to be validated
   * @throws BAD_REQUEST for a client that has gone meanwhile
   */
  prepare(owner: DocumentOwner, source: string, request?: Asking): Awaitable<PreparedDocument> {
    const before = request && this.#byRequest.get(request);
    if (before?.source === source) return before;
    return this.#get(keyOf(owner), source) ?? this.#prepare(owner, source, request);
  }

  /** The text that an owner has persisted under its hash, for as long as it is in the cache. */
  persisted(owner: DocumentOwner, hash: string): string | undefined {
    return this.#kept.get(keyOf(owner))?.byHash.get(hash);
  }

  /**
   * Prepares a document, as `prepare` does, and persists it if it is valid.
   * @param hash of its text
   */
  async persist(owner: DocumentOwner, hash: string, source: string, request?: Asking): Promise<PreparedDocument> {
    const prepared = await this.prepare(owner, source, request);
    if (prepared.errors.length === 0) this.#keep(keyOf(owner), prepared, hash);
    return prepared;
  }

  /**
   * Holds the document of a subscription for as long as it is open, and counts its variables.
   * @returns releases it
   * @throws QUOTA_EXCEEDED when what the owner holds takes too much memory
   */
  hold(owner: DocumentOwner, prepared: PreparedDocument, variables: object): () => void {
    return this.#held.hold(keyOf(owner), prepared, variables);
  }

  async #prepare(owner: DocumentOwner, source: string, request?: Asking): Promise<PreparedDocument> {
    await scheduler.step(owner.account.id);
    if (request !== undefined) refuseGone(request);
    const key = keyOf(owner);
    const meanwhile = this.#get(key, source);
    if (meanwhile !== undefined) return meanwhile;
    const prepared = new PreparedDocument(this.#schema, source);
    this.#prepared.set(prepared.document, prepared);
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
    const hash = persistedAs ?? kept.bySource.get(source)?.hash;
    this.#forget(kept, source);
    if (weight <= maxWeightOfOwner / 2) {
      kept.bySource.set(source, { prepared, weight, hash });
      if (hash !== undefined) kept.byHash.set(hash, source);
      kept.weight += weight;
      this.#weight += weight;
    }
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
    const [oldest] = kept.bySource.keys();
    if (oldest !== undefined) this.#forget(kept, oldest);
  }

  #forget(kept: Kept, source: string): void {
    const { weight = 0, hash } = kept.bySource.get(source) ?? {};
    kept.bySource.delete(source);
    if (hash !== undefined) kept.byHash.delete(hash);
    kept.weight -= weight;
    this.#weight -= weight;
  }
}
