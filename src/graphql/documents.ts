import {
  type DocumentNode,
  type GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  type OperationDefinitionNode,
} from 'graphql';
import { type CompiledQuery, compileQuery } from './compile.ts';
import { type ComplexityCheck, complexityCheck } from './limits.ts';
import { parseWithinLimits, validateDocument } from './requests.ts';

/** An operation of a document. */
export interface PreparedOperation {
  readonly node: OperationDefinitionNode;
  /** Runs it; undefined unless it is a query that can be compiled. */
  readonly compiled: CompiledQuery | undefined;
  readonly checkComplexity: ComplexityCheck;
}

/** A document that has been parsed and validated. */
export class PreparedDocument {
  readonly source: string;
  readonly document: DocumentNode;
  readonly schema: GraphQLSchema;
  /** Its validation errors. */
  readonly errors: readonly GraphQLError[];
  readonly #operations = new Map<string | null, PreparedOperation | undefined>();

  /** @throws GraphQLError for a syntax error, or for too many tokens */
  constructor(schema: GraphQLSchema, source: string) {
    this.schema = schema;
    this.source = source;
    this.document = parseWithinLimits(source);
    this.errors = validateDocument(schema, this.document);
  }

  /** The operation with this name, or the only one; undefined if there is none. */
  operation(name: string | null): PreparedOperation | undefined {
    if (this.#operations.has(name)) return this.#operations.get(name);
    const node = getOperationAST(this.document, name);
    if (node == null) return undefined;
    const prepared = {
      node,
      compiled: compileQuery(this.schema, this.document, node),
      checkComplexity: complexityCheck(this.schema, this.document, node),
    };
    this.#operations.set(name, prepared);
    return prepared;
  }
}

/** Characters of all cached documents. What is prepared from them takes about a hundred times as much memory. */
const maxKeptLength = 256 * 1024;
/** Characters of a cached document, so that one long document cannot evict many short ones. */
const maxLength = 8 * 1024;

/** Prepares documents, and caches the short ones that were used most recently. */
export class Documents {
  readonly #schema: GraphQLSchema;
  readonly #kept = new Map<string, PreparedDocument>();
  readonly #prepared = new WeakMap<DocumentNode, PreparedDocument>();
  #keptLength = 0;

  constructor(schema: GraphQLSchema) {
    this.#schema = schema;
  }

  /** The prepared form of a document, for code that is passed only the document. */
  of(document: DocumentNode): PreparedDocument {
    const prepared = this.#prepared.get(document);
    if (prepared === undefined) throw new Error('The document was not prepared');
    return prepared;
  }

  /** @throws GraphQLError for a syntax error, or for too many tokens */
  prepare(source: string): PreparedDocument {
    const kept = this.#kept.get(source);
    if (kept !== undefined) {
      // Moved to the end, so that the first is the least recently used.
      this.#kept.delete(source);
      this.#kept.set(source, kept);
      return kept;
    }
    const prepared = new PreparedDocument(this.#schema, source);
    this.#prepared.set(prepared.document, prepared);
    if (source.length <= maxLength) this.#keep(source, prepared);
    return prepared;
  }

  #keep(source: string, prepared: PreparedDocument): void {
    this.#kept.set(source, prepared);
    this.#keptLength += source.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#keptLength <= maxKeptLength) return;
      this.#kept.delete(oldest);
      this.#keptLength -= oldest.length;
    }
  }
}
