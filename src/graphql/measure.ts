import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  Kind,
  type SelectionSetNode,
} from 'graphql';
import { maxPoints } from '../domain/analytics.ts';
import { defaultPageSize, maxPageSize } from '../domain/paging.ts';
import { IntrospectionMeasure } from './introspection.ts';
import { lengthOf, valuesOf } from './values.ts';

/** The cost of a selection for each object that it applies to. */
export interface Cost {
  readonly depth: number;
  /** The objects that it could return, pages included; an edge and its node count as one. */
  readonly nodes: number;
  /** The values that it could return. */
  readonly values: number;
  /** Of a page: the objects of each item, which `nodes` does not include. */
  readonly nodesOfItem: number;
  /** Of a page: the values of each item, which `values` does not include. */
  readonly valuesOfItem: number;
}

const nothing: Cost = { depth: 0, nodes: 0, values: 0, nodesOfItem: 0, valuesOfItem: 0 };

/**
 * The values that a report counts as, besides those selected: all of it is computed even if little is selected, which
 * takes up to 50 ms.
 */
const valuesOfReport = 30_000;

/** The fields of a page that list its items. */
const itemFields: readonly string[] = ['nodes', 'edges', 'series'];

function isPage({ name }: GraphQLCompositeType): boolean {
  return name.endsWith('Connection') || name === 'Analytics';
}

/** Measures an operation of a valid document, and each of its fragments once. */
export class Measure {
  /** Whether the result depends on a variable. */
  usesVariables = false;
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #measured = new Map<string, Cost>();
  #introspection: IntrospectionMeasure | undefined;

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
    let values = 0;
    let nodesOfItem = 0;
    let valuesOfItem = 0;
    for (const selection of selections.selections) {
      const cost =
        selection.kind === Kind.FIELD
          ? this.#field(selection, parent)
          : selection.kind === Kind.FRAGMENT_SPREAD
            ? this.#fragment(selection.name.value)
            : this.of(selection.selectionSet, this.#typeNamed(selection.typeCondition?.name.value) ?? parent);
      depth = Math.max(depth, cost.depth);
      nodes += cost.nodes;
      values += cost.values;
      nodesOfItem += cost.nodesOfItem;
      valuesOfItem += cost.valuesOfItem;
    }
    return { depth, nodes, values, nodesOfItem, valuesOfItem };
  }

  #field(field: FieldNode, parent: GraphQLCompositeType): Cost {
    const name = field.name.value;
    const definition = this.#schema.getField(parent, name);
    if (definition === undefined) return nothing;
    // A rule of graphql-js limits its depth: the standard query is deeper than others may be.
    if (name.startsWith('__')) return { ...nothing, values: this.#introspect(field, parent) };
    const type = getNamedType(definition.type);
    if (field.selectionSet === undefined || !isCompositeType(type)) {
      return { ...nothing, depth: 1, values: valuesOf(field, lengthOf(definition)) };
    }
    const inner = this.of(field.selectionSet, type);
    const depth = inner.depth + 1;
    const count = this.#count(field, parent, type);
    const isReport = type.name === 'Analytics';
    const own = valuesOf(field, 0) + (isReport ? valuesOfReport : 0);
    if (isPage(parent) && itemFields.includes(name)) {
      const nodesOfItem = name === 'edges' ? Math.max(1, inner.nodes) : 1 + inner.nodes;
      return { depth, nodes: 0, values: own, nodesOfItem, valuesOfItem: inner.values };
    }
    if (isPage(type)) {
      const nodes = (isReport ? maxPoints : 1) + inner.nodes + inner.nodesOfItem * count;
      return { ...nothing, depth, nodes, values: own + inner.values + inner.valuesOfItem * count };
    }
    return { ...nothing, depth, nodes: count * (1 + inner.nodes), values: own + inner.values * count };
  }

  #introspect(field: FieldNode, parent: GraphQLCompositeType): number {
    const name = field.name.value === '__type' ? this.#argument(field, 'name') : undefined;
    this.#introspection ??= new IntrospectionMeasure(this.#schema, this.#fragments);
    return this.#introspection.of(field, parent, { name });
  }

  /** How many objects a field can return; of a connection, how many items. */
  #count(field: FieldNode, parent: GraphQLCompositeType, type: GraphQLCompositeType): number {
    if (type.name.endsWith('Connection')) {
      return Math.max(
        1,
        Math.min(maxPageSize, this.#integer(field, 'first') ?? this.#integer(field, 'last') ?? defaultPageSize),
      );
    }
    // The length of its series depends on the interval, and all of it is computed even if it is not selected.
    if (field.name.value === 'analytics' && parent === this.#schema.getQueryType()) return maxPoints;
    if (field.name.value === 'nodes' && parent === this.#schema.getQueryType()) return this.#listLength(field, 'ids');
    return 1;
  }

  #argument(field: FieldNode, name: string): unknown {
    const value = field.arguments?.find((argument) => argument.name.value === name)?.value;
    switch (value?.kind) {
      case Kind.VARIABLE:
        this.usesVariables = true;
        return this.#variables[value.name.value];
      case Kind.INT:
        return Number(value.value);
      case Kind.STRING:
        return value.value;
      case Kind.LIST:
        return value.values;
      default:
        return undefined;
    }
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
