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
 * Measures introspection by the schema itself, what is deprecated always counted in. A bound by the longest lists that it
 * has would be too high for the standard query by far, or too low for any other.
 *
 * Each selection is measured once for each part of the schema, and none any further when there are too many values. So
 * it takes a bounded time, whatever the document multiplies to.
 */
export class IntrospectionMeasure {
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #measured = new Map<SelectionSetNode, Map<unknown, number>>();

  /** @param fragments those of the document, by their names */
  constructor(schema: GraphQLSchema, fragments: ReadonlyMap<string, FragmentDefinitionNode>) {
    this.#schema = schema;
    this.#fragments = fragments;
  }

  /** How many values a field gives; more than are allowed is as good as endless. */
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
