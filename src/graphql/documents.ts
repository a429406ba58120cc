import {
  type DocumentNode,
  type GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  type OperationDefinitionNode,
} from 'graphql';
import type { Awaitable } from '../domain/awaitable.ts';
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

/** Memory of the cached documents in bytes: of one account, and of all. */
const maxWeightOfAccount = 8 * 1024 * 1024;
const maxWeight = 8 * maxWeightOfAccount;

/** The documents of an account. */
interface Kept {
  /** The least recently used first, each with its weight when it was last used. */
  readonly bySource: Map<string, { readonly prepared: PreparedDocument; readonly weight: number }>;
  weight: number;
}

/** Prepares documents, and caches the valid ones that were used most recently. */
export class Documents {
  /** Those of open subscriptions. */
  readonly held = new HeldDocuments();
  readonly #schema: GraphQLSchema;
  /** By account, the least recently active first. */
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
   * The prepared form of a document of an account. Unless it is cached, the account has to wait for its turn.
   * @param request may ask again
   * @throws GraphQLError for a syntax error, or for what is too long or repeats too much to be validated
   */
  prepare(accountId: string, source: string, request?: object): Awaitable<PreparedDocument> {
    const before = request && this.#byRequest.get(request);
    if (before?.source === source) return before;
    return this.#get(accountId, source) ?? this.#prepare(accountId, source, request);
  }

  async #prepare(accountId: string, source: string, request?: object): Promise<PreparedDocument> {
    await scheduler.step(accountId);
    const meanwhile = this.#get(accountId, source);
    if (meanwhile !== undefined) return meanwhile;
    const prepared = new PreparedDocument(this.#schema, source);
    this.#prepared.set(prepared.document, prepared);
    if (request !== undefined) this.#byRequest.set(request, prepared);
    if (prepared.errors.length === 0) this.#keep(accountId, prepared);
    return prepared;
  }

  /** A cached document, which becomes the most recently used one. */
  #get(accountId: string, source: string): PreparedDocument | undefined {
    const kept = this.#kept.get(accountId)?.bySource.get(source);
    const prepared = kept?.prepared ?? this.held.find(accountId, source);
    if (prepared !== undefined) this.#keep(accountId, prepared);
    return prepared;
  }

  #keep(accountId: string, prepared: PreparedDocument): void {
    const { source, weight } = prepared;
    const kept = this.#kept.get(accountId) ?? { bySource: new Map(), weight: 0 };
    this.#kept.delete(accountId);
    this.#kept.set(accountId, kept);
    this.#forget(kept, source);
    if (weight <= maxWeightOfAccount / 2) {
      kept.bySource.set(source, { prepared, weight });
      kept.weight += weight;
      this.#weight += weight;
    }
    while (kept.weight > maxWeightOfAccount) this.#forgetOldest(kept);
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
    const { weight = 0 } = kept.bySource.get(source) ?? {};
    kept.bySource.delete(source);
    kept.weight -= weight;
    this.#weight -= weight;
  }
}
