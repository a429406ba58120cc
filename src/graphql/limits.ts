import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { maxPoints } from '../domain/analytics.ts';
import { DomainError } from '../domain/errors.ts';
import { defaultPageSize, maxPageSize } from '../domain/paging.ts';

export const maxDepth = 12;
export const maxNodes = 100_000;
export const maxTokens = 2_000;
export const maxBatch = 10;

/** Characters of messages and metadata in one answer. */
const maxAnswerText = 16 * 1024 * 1024;

/**
 * What the answer to one request may still hold of the texts that can be long. Aliases ask for the same
 * text again and again, so the number of objects does not bound it.
 */
export class AnswerBudget {
  #left = maxAnswerText;

  /** @throws QUERY_TOO_COMPLEX */
  spend(characters: number): void {
    this.#left -= characters;
    if (this.#left >= 0) return;
    throw new DomainError(
      'QUERY_TOO_COMPLEX',
      'The answer would hold more than 16 MiB of text; ask for smaller pages.',
    );
  }

  /** Hands on metadata, for its length as JSON. */
  spendOn<M extends object>(metadata: M): M {
    if (Object.keys(metadata).length > 0) this.spend(JSON.stringify(metadata).length);
    return metadata;
  }

  /** A subscription has one answer after another. */
  renew(): void {
    this.#left = maxAnswerText;
  }
}

/** What one selection costs for each object that it is made on. */
interface Cost {
  readonly depth: number;
  readonly nodes: number;
}

const nothing: Cost = { depth: 0, nodes: 0 };

/** @throws QUERY_TOO_COMPLEX */
type ComplexityCheck = (variables: Readonly<Record<string, unknown>>) => void;

/**
 * Makes what refuses an operation that is nested too deeply, or could return too many objects by the page sizes
 * that it asks for. It costs time in proportion to the document, whatever its fragments multiply to; and after the
 * first time nothing, unless a page size is a variable. It is given the coerced ones.
 */
export function complexityCheck(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): ComplexityCheck {
  const root = schema.getRootType(operation.operation);
  if (root == null) return () => {};
  let fixed: Cost | undefined;
  return (variables) => {
    if (fixed !== undefined) return refuse(fixed);
    const measure = new Measure(schema, document, variables);
    const cost = measure.of(operation.selectionSet, root);
    if (!measure.usesVariables) fixed = cost;
    refuse(cost);
  };
}

function refuse({ depth, nodes }: Cost): void {
  if (depth > maxDepth) {
    throw new DomainError('QUERY_TOO_COMPLEX', `The query is ${depth} levels deep; at most ${maxDepth} are allowed.`);
  }
  if (nodes > maxNodes) {
    throw new DomainError(
      'QUERY_TOO_COMPLEX',
      `The query could return ${nodes} objects; at most ${maxNodes} are allowed. Ask for smaller pages.`,
    );
  }
}

class Measure {
  /** Whether what was measured hangs on a variable. */
  usesVariables = false;
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #measured = new Map<string, Cost>();

  constructor(schema: GraphQLSchema, document: DocumentNode, variables: Readonly<Record<string, unknown>>) {
    this.#schema = schema;
    this.#variables = variables;
    this.#fragments = new Map(
      document.definitions.flatMap((node) => (node.kind === Kind.FRAGMENT_DEFINITION ? [[node.name.value, node]] : [])),
    );
  }

  of(selections: SelectionSetNode, parent: GraphQLCompositeType): Cost {
    let depth = 0;
    let nodes = 0;
    for (const selection of selections.selections) {
      const cost =
        selection.kind === Kind.FIELD
          ? this.#field(selection, parent)
          : selection.kind === Kind.FRAGMENT_SPREAD
            ? this.#fragment(selection.name.value)
            : this.of(selection.selectionSet, this.#typeNamed(selection.typeCondition?.name.value) ?? parent);
      depth = Math.max(depth, cost.depth);
      nodes += cost.nodes;
    }
    return { depth, nodes };
  }

  #field(field: FieldNode, parent: GraphQLCompositeType): Cost {
    const name = field.name.value;
    if (name.startsWith('__')) return nothing; // introspection has its own bounds: the schema's
    if (field.selectionSet === undefined) return { depth: 1, nodes: 0 };
    const definition = isObjectType(parent) || isInterfaceType(parent) ? parent.getFields()[name] : undefined;
    const type = definition && getNamedType(definition.type);
    if (!isCompositeType(type)) return nothing;
    const inner = this.of(field.selectionSet, type);
    return { depth: inner.depth + 1, nodes: this.#count(field, parent, type) * (1 + inner.nodes) };
  }

  /** How many objects a field can give. The insides of a connection are counted with it. */
  #count(field: FieldNode, parent: GraphQLCompositeType, type: GraphQLCompositeType): number {
    if (type.name.endsWith('Connection')) {
      return Math.max(
        1,
        Math.min(maxPageSize, this.#integer(field, 'first') ?? this.#integer(field, 'last') ?? defaultPageSize),
      );
    }
    // Its series is as long as the interval makes it, and has to be counted up even where it is not shown.
    if (field.name.value === 'analytics' && parent === this.#schema.getQueryType()) return maxPoints;
    if (field.name.value === 'nodes' && parent === this.#schema.getQueryType()) return this.#listLength(field, 'ids');
    return 1;
  }

  #argument(field: FieldNode, name: string): unknown {
    const value = field.arguments?.find((argument) => argument.name.value === name)?.value;
    if (value === undefined) return undefined;
    if (value.kind === Kind.VARIABLE) {
      this.usesVariables = true;
      return this.#variables[value.name.value];
    }
    if (value.kind === Kind.INT) return Number(value.value);
    return value.kind === Kind.LIST ? value.values : undefined;
  }

  #integer(field: FieldNode, name: string): number | undefined {
    const value = this.#argument(field, name);
    return typeof value === 'number' ? value : undefined;
  }

  #listLength(field: FieldNode, name: string): number {
    const value = this.#argument(field, name);
    return Array.isArray(value) ? Math.max(1, value.length) : 1;
  }

  #fragment(name: string): Cost {
    const measured = this.#measured.get(name);
    if (measured !== undefined) return measured;
    const fragment = this.#fragments.get(name);
    const type = this.#typeNamed(fragment?.typeCondition.name.value);
    const cost = fragment === undefined || type === undefined ? nothing : this.of(fragment.selectionSet, type);
    this.#measured.set(name, cost);
    return cost;
  }

  #typeNamed(name: string | undefined): GraphQLCompositeType | undefined {
    const type = name === undefined ? undefined : this.#schema.getType(name);
    return isCompositeType(type) ? (type as GraphQLObjectType) : undefined;
  }
}
