import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  isAbstractType,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql';
import { DomainError } from '../domain/errors.ts';
import { inThousands } from './answer-budget.ts';

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

/** The fragments of a document, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Fragments {
  return new Map(
    definitions.flatMap((node) => (node.kind === Kind.FRAGMENT_DEFINITION ? [[node.name.value, node]] : [])),
  );
}

/** The name of a field in the response. */
export function responseKey({ alias, name }: FieldNode): string {
  return (alias ?? name).value;
}

/**
 * What may be collected of one operation. With its fragments in place a document has less, as `refuseRepeats` sees to; but
 * what it selects of an interface is collected for each of its types.
 */
const maxCollected = 12_000;

/** What a valid document selects with these variables, as an executor collects it. */
export class Selections {
  readonly fragments: Fragments;
  /** Whether anything asked for so far depends on a variable. */
  usesVariables = false;
  readonly #schema: GraphQLSchema;
  readonly #variables: Readonly<Record<string, unknown>>;
  #collected = 0;

  constructor(schema: GraphQLSchema, document: DocumentNode, variables: Readonly<Record<string, unknown>>) {
    this.#schema = schema;
    this.fragments = fragmentsOf(document);
    this.#variables = variables;
  }

  /**
   * The fields of an object, by their names in the response, without those that a directive leaves out.
   * @throws QUERY_TOO_COMPLEX when too much has been collected
   */
  fieldsOf(type: GraphQLObjectType, sets: readonly SelectionSetNode[]): ReadonlyMap<string, FieldNode[]> {
    const byKey = new Map<string, FieldNode[]>();
    const spread = new Set<string>();
    for (const set of sets) this.#collect(type, set, byKey, spread);
    return byKey;
  }

  /** An argument of a field or a directive: a number, a text, a boolean or a list, whose items do not matter. */
  argument({ arguments: given }: Pick<FieldNode, 'arguments'>, name: string): unknown {
    const argument = given?.find((argument) => argument.name.value === name);
    return argument && this.#valueOf(argument.value);
  }

  #collect(
    type: GraphQLObjectType,
    { selections }: SelectionSetNode,
    byKey: Map<string, FieldNode[]>,
    spread: Set<string>,
  ): void {
    this.#collected += selections.length;
    if (this.#collected > maxCollected) {
      throw new DomainError(
        'QUERY_TOO_COMPLEX',
        `With its fragments in place, for each type of an interface, the operation has more than ${inThousands(maxCollected)} fields. Ask for fewer of each event.`,
      );
    }
    for (const selection of selections) {
      if (this.#isLeftOut(selection)) continue;
      if (selection.kind === Kind.FIELD) {
        const key = responseKey(selection);
        const nodes = byKey.get(key);
        if (nodes === undefined) byKey.set(key, [selection]);
        else nodes.push(selection);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        if (this.#applies(selection.typeCondition?.name.value, type)) {
          this.#collect(type, selection.selectionSet, byKey, spread);
        }
      } else if (!spread.has(selection.name.value)) {
        spread.add(selection.name.value);
        const fragment = this.fragments.get(selection.name.value);
        if (fragment !== undefined && this.#applies(fragment.typeCondition.name.value, type)) {
          this.#collect(type, fragment.selectionSet, byKey, spread);
        }
      }
    }
  }

  #isLeftOut({ directives = [] }: SelectionNode): boolean {
    return directives.some((directive) => {
      const { value: name } = directive.name;
      if (name !== 'skip' && name !== 'include') return false;
      return this.argument(directive, 'if') === (name === 'skip');
    });
  }

  #applies(condition: string | undefined, type: GraphQLObjectType): boolean {
    if (condition === undefined || condition === type.name) return true;
    const conditionType = this.#schema.getType(condition);
    return isAbstractType(conditionType) && this.#schema.isSubType(conditionType, type);
  }

  #valueOf(value: ValueNode): unknown {
    switch (value.kind) {
      case Kind.VARIABLE:
        this.usesVariables = true;
        return this.#variables[value.name.value];
      case Kind.INT:
        return Number(value.value);
      case Kind.LIST:
        return value.values;
      case Kind.NULL:
      case Kind.OBJECT:
        return null;
      default:
        return value.value;
    }
  }
}
