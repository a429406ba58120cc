import {
  type DocumentNode,
  type FieldNode,
  type GraphQLCompositeType,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isAbstractType,
  isCompositeType,
  isListType,
  isNonNullType,
  type OperationDefinitionNode,
  type OperationTypeNode,
  type SelectionSetNode,
} from 'graphql';
import { maxPoints } from '../domain/analytics.ts';
import { defaultPageSize, maxPageSize } from '../domain/paging.ts';
import { IntrospectionMeasure } from './introspection.ts';
import { isSearchedThrough } from './searched-lists.ts';
import { responseKey, Selections } from './selections.ts';

/** What an operation could answer at most, by the sizes of its pages; of a subscription, what each event could. */
export interface Cost {
  readonly depth: number;
  /** Its objects; an edge and its node count as one, and so does metadata. */
  readonly objects: number;
  /** The fields of its objects. */
  readonly values: number;
  /** Its fields that take long, however little they answer; a list that is searched through is a quarter of one. */
  readonly slowFields: number;
  /** About how many bytes of memory it can take: what is read for it, and its JSON. */
  readonly bytes: number;
  /** Of a mutation, the bytes of what its payloads show of what was done: it cannot be left out once that is done. */
  readonly payloadBytes: number;
}

/** What an operation costs, and how many fields of its root run with these variables. */
export interface Measured {
  readonly kind: OperationTypeNode;
  /** The tokens of its document. */
  readonly tokens: number;
  readonly cost: Cost;
  readonly rootFields: number;
  /** Whether it is the same with other variables. */
  readonly isFixed: boolean;
}

/** What is known of a page from the field that selects it. */
interface Page {
  readonly size: number;
  /** What its total adds to the slow fields: it has to be counted if a filter other than a status applies. */
  readonly slowTotal: number;
}

/** Where an object is selected. */
interface Place {
  readonly page?: Page | undefined;
  /** Whether it is part of what a mutation shows of what was done. */
  readonly isPayload: boolean;
}

/** Marks a field with a list of plain objects, which count as values only, as does metadata; or with what is found in one. */
export const listOfAtMost = (maxItems: number) => ({ maxItems }) as const;

/** Marks a field whose text can have more bytes than others. */
export const longText = { maxBytes: 65_536 } as const;

/** The most bytes of leaves by their type, of texts for all fields but those that say otherwise. */
const maxBytesOf: Readonly<Record<string, number>> = { Metadata: 8_192, String: 1_024 };
const maxBytesOfWord = 64;

/** The most bytes that are read for an object of these types; for others it is little. */
const maxBytesRead: Readonly<Record<string, number>> = {
  Conversation: 12_288,
  Lead: 12_288,
  Message: 73_728,
  Event: 98_304,
  Attempt: 16_384,
  Webhook: 4_096,
  TrustedDocument: 512,
};
const otherBytesRead = 256;

/** Fields of the root that take long, however little they answer: to list documents is mostly to read their texts. */
const slowQueries: readonly string[] = ['analytics', 'search', 'documents'];

/** A page that skips more takes long. No conversation has so many messages, whose offsets cost nothing. */
const maxQuickOffset = 10_000;

/** Fields of the root that are searched through under filters that no index has. A board may show many beside each other. */
const filteredQueries: readonly string[] = ['conversations', 'leads'];
const searchedThrough = 0.25;

/** The arguments of a list that are no filter, and the filters whose totals are kept. */
const plainArguments: readonly string[] = ['first', 'last', 'after', 'before', 'offset', 'sort'];
const keptFilters: readonly string[] = ['status', 'statuses'];

/** Measures an operation of a valid document. It takes time proportional to its fields, with its fragments in place. */
export function measure(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Readonly<Record<string, unknown>>,
): Measured {
  const root = schema.getRootType(operation.operation);
  if (root == null) throw new Error(`The schema has no ${operation.operation}`);
  const selections = new Selections(schema, document, variables);
  const { operation: kind } = operation;
  const isMutation = kind === 'mutation';
  const cost = new Measure(schema, selections).object(root, [operation.selectionSet], { isPayload: isMutation });
  const rootFields = selections.fieldsOf(root, [operation.selectionSet]).size;
  return { kind, tokens: document.tokenCount ?? 0, cost, rootFields, isFixed: !selections.usesVariables };
}

class Measure {
  readonly #schema: GraphQLSchema;
  readonly #selections: Selections;
  #introspection: IntrospectionMeasure | undefined;

  constructor(schema: GraphQLSchema, selections: Selections) {
    this.#schema = schema;
    this.#selections = selections;
  }

  /** The cost of the fields of an object. */
  object(type: GraphQLObjectType, sets: readonly SelectionSetNode[], place: Place): Cost {
    let depth = 0;
    let objects = 0;
    let values = 0;
    let slowFields = 0;
    let bytes = 0;
    let payloadBytes = 0;
    for (const nodes of this.#selections.fieldsOf(type, sets).values()) {
      const cost = this.#field(type, nodes as [FieldNode], place);
      depth = Math.max(depth, cost.depth);
      objects += cost.objects;
      values += cost.values;
      slowFields += cost.slowFields;
      bytes += cost.bytes;
      payloadBytes += cost.payloadBytes;
    }
    return { depth, objects, values, slowFields, bytes, payloadBytes };
  }

  /** @param nodes the places of the document that select the field */
  #field(parent: GraphQLObjectType, nodes: readonly [FieldNode, ...FieldNode[]], { page, isPayload }: Place): Cost {
    const [node] = nodes;
    const name = node.name.value;
    const definition = this.#schema.getField(parent, name);
    if (definition === undefined) throw new Error(`${parent.name} has no field ${name}`);
    const type = getNamedType(definition.type);
    const slowness = this.#slownessOf(node, parent, page);
    const slowFields = this.#skipsMany(node) ? 1 : slowness;
    const { maxItems } = definition.extensions as Partial<ReturnType<typeof listOfAtMost>>;
    if (!isCompositeType(type)) {
      // A rule of graphql-js limits the depth of introspection: the standard query is deeper than others may be.
      const depth = name.startsWith('__') ? 0 : 1;
      const bytes = responseKey(node).length + bytesOf(definition);
      const payloadBytes = isPayload ? bytes : 0;
      const objects = type.name === 'Metadata' ? 1 : 0;
      return { depth, objects, values: maxItems ?? 1, slowFields, bytes, payloadBytes };
    }
    if (name.startsWith('__')) {
      const { objects, values } = this.#introspect(node, parent);
      return { depth: 0, objects, values, slowFields, bytes: values * maxBytesOfWord, payloadBytes: 0 };
    }
    const sets = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
    // What may be null can be refused when an answer is too long, but for the payloads themselves.
    const isShown = isPayload && (isNonNullType(definition.type) || parent === this.#schema.getMutationType());
    const inner = this.#composite(type, sets, { page: this.#pageOf(node, type, slowness), isPayload: isShown });
    if (maxItems !== undefined) {
      const [values, bytes] = [1 + maxItems * inner.values, maxItems * inner.bytes];
      const payloadBytes = maxItems * inner.payloadBytes;
      return { depth: inner.depth + 1, objects: 1, values, bytes, slowFields, payloadBytes };
    }
    const length = isListType(getNullableType(definition.type)) ? this.#lengthOf(node, page) : 1;
    const objectsOfItem = type.name.endsWith('Edge') ? Math.max(1, inner.objects) : 1 + inner.objects;
    return {
      depth: inner.depth + 1,
      objects: length * objectsOfItem,
      values: 1 + length * inner.values,
      slowFields: slowFields + length * inner.slowFields,
      bytes: length * (inner.bytes + (maxBytesRead[type.name] ?? otherBytesRead)),
      payloadBytes: length * inner.payloadBytes,
    };
  }

  /** The cost of an object whose type may not be known: the largest of each kind. */
  #composite(type: GraphQLCompositeType, sets: readonly SelectionSetNode[], place: Place): Cost {
    if (!isAbstractType(type)) return this.object(type, sets, place);
    const costs = this.#schema.getPossibleTypes(type).map((possible) => this.object(possible, sets, place));
    const largest = (of: keyof Cost): number => Math.max(0, ...costs.map((cost) => cost[of]));
    return {
      depth: largest('depth'),
      objects: largest('objects'),
      values: largest('values'),
      slowFields: largest('slowFields'),
      bytes: largest('bytes'),
      payloadBytes: largest('payloadBytes'),
    };
  }

  /** How many of the slow fields it counts as. */
  #slownessOf(node: FieldNode, parent: GraphQLObjectType, page: Page | undefined): number {
    const name = node.name.value;
    if (parent !== this.#schema.getQueryType()) return name === 'totalCount' ? (page?.slowTotal ?? 0) : 0;
    if (!filteredQueries.includes(name)) return slowQueries.includes(name) ? 1 : 0;
    return isSearchedThrough(this.#filtersOf(node), this.#selections.argument(node, 'sort')) ? searchedThrough : 0;
  }

  /** The names of the filters of a list. */
  #filtersOf(node: FieldNode): string[] {
    const names = (node.arguments ?? []).map(({ name }) => name.value);
    return names.filter((name) => !plainArguments.includes(name) && this.#selections.argument(node, name) != null);
  }

  #skipsMany(node: FieldNode): boolean {
    const offset = this.#selections.argument(node, 'offset');
    return isNumber(offset) && offset > maxQuickOffset;
  }

  #introspect(node: FieldNode, parent: GraphQLObjectType): { objects: number; values: number } {
    const name = node.name.value === '__type' ? this.#selections.argument(node, 'name') : undefined;
    this.#introspection ??= new IntrospectionMeasure(this.#schema, this.#selections.fragments);
    return this.#introspection.of(node, parent, { name });
  }

  /** @param slowness what the field counts as already: with its total it is one slow field */
  #pageOf(node: FieldNode, { name }: GraphQLCompositeType, slowness: number): Page | undefined {
    if (name === 'Analytics') return { size: maxPoints, slowTotal: 0 };
    if (!name.endsWith('Connection')) return undefined;
    const asked = ['first', 'last'].map((size) => this.#selections.argument(node, size)).find(isNumber);
    return {
      size: Math.max(1, Math.min(maxPageSize, asked ?? defaultPageSize)),
      slowTotal: this.#filtersOf(node).some((name) => !keptFilters.includes(name)) ? 1 - slowness : 0,
    };
  }

  /** The most items of a list of objects, which is part of a page unless the field names them. */
  #lengthOf(node: FieldNode, page: Page | undefined): number {
    if (page !== undefined) return page.size;
    const ids = this.#selections.argument(node, 'ids');
    return Array.isArray(ids) ? ids.length : 1;
  }
}

function bytesOf({ type, extensions }: GraphQLField<unknown, unknown>): number {
  const { maxBytes } = extensions as { maxBytes?: number };
  return maxBytes ?? maxBytesOf[getNamedType(type).name] ?? maxBytesOfWord;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}
