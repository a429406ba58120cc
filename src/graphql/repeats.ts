import {
  type DocumentNode,
  type FieldNode,
  GraphQLError,
  type GraphQLSchema,
  Kind,
  NoFragmentCyclesRule,
  type SelectionSetNode,
  validate,
} from 'graphql';
import { DomainError } from '../domain/errors.ts';
import { inThousands } from './answer-budget.ts';
import { type Fragments, fragmentsOf, responseKey } from './selections.ts';

/** How often a name in the response may be selected in one selection set. */
const maxRepeats = 20;
/** The fields of a document with its fragments in place, which a few tokens can multiply. */
const maxFields = 10_000;
/** Above any that is allowed to run: only fragments that contain themselves are as deep. */
const maxLevels = 100;

/**
 * Refuses a document before it is validated if it selects the same name again and again: validation compares each
 * place with each other one. Counted as the fields are merged in the response, because validation compares them so:
 * those of fragments count where they are spread, and those of fields of the same name together.
 *
 * @throws GraphQLError
 */
export function refuseRepeats(schema: GraphQLSchema, document: DocumentNode): void {
  const counter = new FieldCounter(schema, document);
  for (const definition of document.definitions) {
    if (definition.kind === Kind.OPERATION_DEFINITION) counter.add(definition.selectionSet);
  }
  // Validation looks at fragments that are not used, too.
  for (const [name, { selectionSet }] of fragmentsOf(document)) if (!counter.isUsed(name)) counter.add(selectionSet);
}

class FieldCounter {
  #count = 0;
  readonly #schema: GraphQLSchema;
  readonly #document: DocumentNode;
  readonly #fragments: Fragments;
  readonly #used = new Set<string>();

  constructor(schema: GraphQLSchema, document: DocumentNode) {
    this.#schema = schema;
    this.#document = document;
    this.#fragments = fragmentsOf(document);
  }

  isUsed(fragment: string): boolean {
    return this.#used.has(fragment);
  }

  add(selections: SelectionSetNode): void {
    this.#merge([selections], 1);
  }

  /** Counts the fields that these selection sets have together. */
  #merge(sets: readonly SelectionSetNode[], level: number): void {
    if (level > maxLevels) throw this.#tooDeep();
    const byKey = new Map<string, FieldNode[]>();
    const spread = new Set<string>();
    for (const set of sets) this.#collect(set, byKey, spread);
    for (const [key, [first, ...others]] of byKey as Map<string, [FieldNode, ...FieldNode[]]>) {
      const count = 1 + others.length;
      if (count > maxRepeats) {
        throw tooComplex(
          `\`${shortened(key)}\` is selected ${count} times in one selection set; at most ${maxRepeats} are allowed.`,
          first,
        );
      }
      const inner = [first, ...others].flatMap(({ selectionSet }) => selectionSet ?? []);
      if (inner.length > 0) this.#merge(inner, level + 1);
    }
  }

  #collect({ selections }: SelectionSetNode, byKey: Map<string, FieldNode[]>, spread: Set<string>): void {
    this.#count += selections.length;
    if (this.#count > maxFields) {
      throw tooComplex(`With its fragments in place, the document has more than ${inThousands(maxFields)} fields.`);
    }
    for (const selection of selections) {
      if (selection.kind === Kind.FIELD) {
        const key = responseKey(selection);
        const nodes = byKey.get(key);
        if (nodes === undefined) byKey.set(key, [selection]);
        else nodes.push(selection);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        this.#collect(selection.selectionSet, byKey, spread);
      } else if (!spread.has(selection.name.value)) {
        spread.add(selection.name.value);
        this.#used.add(selection.name.value);
        const fragment = this.#fragments.get(selection.name.value);
        if (fragment !== undefined) this.#collect(fragment.selectionSet, byKey, spread);
      }
    }
  }

  #tooDeep(): GraphQLError {
    const [cycle] = validate(this.#schema, this.#document, [NoFragmentCyclesRule], { maxErrors: 1 });
    if (cycle === undefined) return tooComplex(`The query is more than ${maxLevels} levels deep.`);
    const { message, nodes } = cycle;
    return new GraphQLError(message, { nodes, originalError: new DomainError('VALIDATION_FAILED', message) });
  }
}

function shortened(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name;
}

function tooComplex(message: string, node?: FieldNode): GraphQLError {
  return new GraphQLError(message, {
    ...(node && { nodes: node }),
    originalError: new DomainError('QUERY_TOO_COMPLEX', message),
  });
}
