import {
  type FieldNode,
  type GraphQLCompositeType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  Kind,
  type SelectionSetNode,
} from 'graphql';
import { maxObjects, maxValues } from './answer-budget.ts';
import type { Fragments } from './selections.ts';

interface Size {
  readonly objects: number;
  readonly values: number;
}

/**
 * Measures introspection by the schema itself, deprecated elements included. An estimate by its longest lists would be
 * far too high for the standard query, or too low for others.
 *
 * Each selection is measured once for each element of the schema, and measuring stops at the limit. So it takes bounded
 * time, however much the fragments of the document multiply.
 */
export class IntrospectionMeasure {
  readonly #schema: GraphQLSchema;
  readonly #fragments: Fragments;
  readonly #measured = new Map<SelectionSetNode, Map<unknown, Size>>();
  /** What the fields of the root come to so far. */
  #objects = 0;
  #values = 0;

  /** @param fragments those of the document, by name */
  constructor(schema: GraphQLSchema, fragments: Fragments) {
    this.#schema = schema;
    this.#fragments = fragments;
  }

  /** What a field of the root returns; the exact numbers do not matter once all of them are above the limits. */
  of(field: FieldNode, parent: GraphQLCompositeType, args: object): Size {
    if (isTooLarge(this.#objects, this.#values)) return { objects: 0, values: 1 };
    const size = this.#field(field, parent, args);
    this.#objects += size.objects;
    this.#values += size.values;
    return size;
  }

  #field(field: FieldNode, parent: GraphQLCompositeType, args: object, source?: unknown): Size {
    const definition = this.#schema.getField(parent, field.name.value);
    const type = definition && getNamedType(definition.type);
    if (field.selectionSet === undefined || !isCompositeType(type)) return { objects: 0, values: 1 };
    const info = { schema: this.#schema, parentType: parent } as unknown as GraphQLResolveInfo;
    const value: unknown = definition?.resolve?.(source, args, undefined, info);
    let objects = 0;
    let values = 1;
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item == null) continue;
      const size = this.#selections(field.selectionSet, type, item);
      objects += 1 + size.objects;
      values += size.values;
      if (isTooLarge(objects, values)) break;
    }
    return { objects, values };
  }

  #selections(selections: SelectionSetNode, type: GraphQLCompositeType, source: unknown): Size {
    let bySource = this.#measured.get(selections);
    if (bySource === undefined) {
      bySource = new Map();
      this.#measured.set(selections, bySource);
    }
    const known = bySource.get(source);
    if (known !== undefined) return known;
    let objects = 0;
    let values = 0;
    for (const selection of selections.selections) {
      const { selectionSet } =
        selection.kind === Kind.FRAGMENT_SPREAD ? (this.#fragments.get(selection.name.value) ?? {}) : selection;
      const size =
        selection.kind === Kind.FIELD
          ? this.#field(selection, type, { includeDeprecated: true }, source)
          : selectionSet && this.#selections(selectionSet, type, source);
      objects += size?.objects ?? 0;
      values += size?.values ?? 0;
      if (isTooLarge(objects, values)) break;
    }
    const size = { objects, values };
    bySource.set(source, size);
    return size;
  }
}

function isTooLarge(objects: number, values: number): boolean {
  return objects > maxObjects || values > maxValues;
}
