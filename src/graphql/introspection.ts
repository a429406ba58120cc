import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  Kind,
  type SelectionSetNode,
} from 'graphql';
import { maxValues } from './answer-budget.ts';
import { valuesOf } from './values.ts';

/**
 * Measures introspection by the schema itself, deprecated elements included. An estimate by its longest lists would be
 * far too high for the standard query, or too low for others.
 *
 * Each selection is measured once for each element of the schema, and measuring stops at the limit. So it takes bounded
 * time, however much the fragments of the document multiply.
 */
export class IntrospectionMeasure {
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #measured = new Map<SelectionSetNode, Map<unknown, number>>();

  /** @param fragments those of the document, by name */
  constructor(schema: GraphQLSchema, fragments: ReadonlyMap<string, FragmentDefinitionNode>) {
    this.#schema = schema;
    this.#fragments = fragments;
  }

  /** How many values a field returns; the exact number does not matter above the limit. */
  of(field: FieldNode, parent: GraphQLCompositeType, args: object, source?: unknown): number {
    const definition = this.#schema.getField(parent, field.name.value);
    const info = { schema: this.#schema, parentType: parent } as unknown as GraphQLResolveInfo;
    const value: unknown = definition?.resolve?.(source, args, undefined, info);
    const type = definition && getNamedType(definition.type);
    if (field.selectionSet === undefined || !isCompositeType(type)) return valuesOf(field, String(value ?? '').length);
    let values = valuesOf(field, 0);
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item != null) values += this.#selections(field.selectionSet, type, item);
      if (values > maxValues) break;
    }
    return values;
  }

  #selections(selections: SelectionSetNode, type: GraphQLCompositeType, source: unknown): number {
    let bySource = this.#measured.get(selections);
    if (bySource === undefined) {
      bySource = new Map();
      this.#measured.set(selections, bySource);
    }
    const known = bySource.get(source);
    if (known !== undefined) return known;
    let values = 0;
    for (const selection of selections.selections) {
      if (selection.kind === Kind.FIELD) {
        values += this.of(selection, type, { includeDeprecated: true }, source);
      } else {
        const { selectionSet } =
          selection.kind === Kind.INLINE_FRAGMENT ? selection : (this.#fragments.get(selection.name.value) ?? {});
        if (selectionSet !== undefined) values += this.#selections(selectionSet, type, source);
      }
      if (values > maxValues) break;
    }
    bySource.set(source, values);
    return values;
  }
}
