import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getArgumentValues,
  type getVariableValues,
  isLeafType,
  isListType,
  isNonNullType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  visit,
} from 'graphql';
import type { Awaitable } from '../domain/awaitable.ts';
import type { GraphQLContext } from './builder.ts';

// graphql-js consults the document and the schema again for every object of a response. Here both are consulted once,
// which leaves one function for each field. Only success is compiled: after an error, or a null in a non-null position,
// graphql-js runs the query again and reports it.

export type VariableValues = NonNullable<ReturnType<typeof getVariableValues>['variableValues']>;

/** @returns the `data` of the response; throws or rejects if the response has anything but data */
export type CompiledQuery = (context: GraphQLContext, variables: VariableValues) => Awaitable<object>;

interface Run {
  readonly context: GraphQLContext;
  readonly variables: VariableValues;
}

/** Turns the value of a field into its part of the response. */
type Completion = (value: unknown, run: Run) => unknown;

interface CompiledField {
  /** Its name in the response. */
  readonly key: string;
  /** Computes its part of the response, or a promise of it. */
  readonly answer: Completion;
}

/** Nested fragments let a short document select a great many fields. */
const maxFields = 250;

/** Thrown for what is left to graphql-js: directives, introspection, abstract types, too many fields. */
class Uncompilable extends Error {}

/**
 * @param document valid against the schema
 * @returns undefined for anything that only graphql-js can run
 */
export function compileQuery(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): CompiledQuery | undefined {
  const root = schema.getQueryType();
  if (root == null || operation.operation !== 'query' || operation.directives?.length) return undefined;
  try {
    const answer = new Compiler(schema, document).object(root, [operation.selectionSet]);
    return (context, variables) => answer(undefined, { context, variables }) as Awaitable<object>;
  } catch (error) {
    if (error instanceof Uncompilable) return undefined;
    throw error;
  }
}

class Compiler {
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  #fieldCount = 0;

  constructor(schema: GraphQLSchema, document: DocumentNode) {
    this.#schema = schema;
    this.#fragments = new Map(
      document.definitions.flatMap((node) => (node.kind === Kind.FRAGMENT_DEFINITION ? [[node.name.value, node]] : [])),
    );
  }

  object(type: GraphQLObjectType, selections: readonly SelectionSetNode[]): Completion {
    if (type.isTypeOf != null) throw new Uncompilable();
    const byKey = new Map<string, FieldNode[]>();
    const seen = new Set<string>();
    for (const selection of selections) this.#collect(type, selection, byKey, seen);
    const fields = [...byKey].map(([key, nodes]) => this.#field(type, key, nodes));
    return (source, run) => {
      const answer: Record<string, unknown> = {};
      const pending: Promise<void>[] = [];
      settling(pending, () => {
        for (const { key, answer: answerField } of fields) {
          const value = answerField(source, run);
          answer[key] = value; // a promise too: it fixes the order of the keys
          if (value instanceof Promise) {
            pending.push(
              value.then((settled) => {
                answer[key] = settled;
              }),
            );
          }
        }
      });
      return pending.length === 0 ? answer : Promise.all(pending).then(() => answer);
    };
  }

  /**
   * Collects the fields of a selection by their names in the response, in its order.
   * @param seen the fragments collected already; following each spread again could take exponential time
   */
  #collect(
    type: GraphQLObjectType,
    { selections }: SelectionSetNode,
    byKey: Map<string, FieldNode[]>,
    seen: Set<string>,
  ): void {
    for (const selection of selections) {
      if (selection.directives?.length) throw new Uncompilable();
      if (selection.kind === Kind.FIELD) {
        const key = (selection.alias ?? selection.name).value;
        if (key === '__proto__') throw new Uncompilable();
        const nodes = byKey.get(key);
        if (nodes === undefined) byKey.set(key, [selection]);
        else nodes.push(selection);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        if (this.#applies(selection.typeCondition?.name.value, type)) {
          this.#collect(type, selection.selectionSet, byKey, seen);
        }
      } else if (!seen.has(selection.name.value)) {
        seen.add(selection.name.value);
        const fragment = this.#fragments.get(selection.name.value);
        if (fragment === undefined || fragment.directives?.length) throw new Uncompilable();
        if (this.#applies(fragment.typeCondition.name.value, type)) {
          this.#collect(type, fragment.selectionSet, byKey, seen);
        }
      }
    }
  }

  #applies(condition: string | undefined, type: GraphQLObjectType): boolean {
    if (condition === undefined || condition === type.name) return true;
    const conditionType = this.#schema.getType(condition);
    if (conditionType === undefined || isObjectType(conditionType)) return false;
    return this.#schema.isSubType(conditionType as never, type);
  }

  #field(parent: GraphQLObjectType, key: string, nodes: readonly FieldNode[]): CompiledField {
    if (++this.#fieldCount > maxFields) throw new Uncompilable();
    const [node] = nodes as [FieldNode];
    const name = node.name.value;
    if (name === '__typename') return { key, answer: () => parent.name };
    const field = parent.getFields()[name];
    if (field === undefined) throw new Uncompilable(); // introspection
    const selections = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
    const complete = this.#completion(field.type, selections);
    const read = reader(field, node);
    return {
      key,
      answer(source, run) {
        const value = read(source, run);
        return value instanceof Promise ? value.then((settled) => complete(settled, run)) : complete(value, run);
      },
    };
  }

  #completion(type: GraphQLOutputType, selections: readonly SelectionSetNode[]): Completion {
    if (!isNonNullType(type)) {
      const complete = this.#nonNull(type, selections);
      return (value, run) => (value == null ? null : complete(value, run));
    }
    const complete = this.#nonNull(type.ofType, selections);
    return (value, run) => {
      if (value == null) throw new Error('A null where the schema allows none');
      return complete(value, run);
    };
  }

  #nonNull(type: GraphQLOutputType, selections: readonly SelectionSetNode[]): Completion {
    if (isObjectType(type)) return this.object(type, selections);
    if (isListType(type)) return listCompletion(this.#completion(type.ofType, selections));
    if (!isLeafType(type)) throw new Uncompilable();
    return (value) => {
      const answer = type.coerceOutputValue(value);
      if (answer == null) throw new Error(`${type.name} has no form for a value`);
      return answer;
    };
  }
}

/** Reads a field's value, or a promise of it. Resolvers get no `info`: ours do not use it. */
function reader(field: GraphQLField<unknown, unknown>, node: FieldNode): Completion {
  const { name } = field;
  const resolve = field.resolve as ((source: unknown, args: object, context: GraphQLContext) => unknown) | undefined;
  if (resolve === undefined) return (source) => (source as Record<string, unknown>)[name];
  const args = argumentsOf(field, node);
  return (source, run) => resolve(source, args(run), run.context);
}

/** The arguments of a field, coerced only once if they use no variables. */
function argumentsOf(field: GraphQLField<unknown, unknown>, node: FieldNode): (run: Run) => object {
  let usesVariables = false;
  for (const argument of node.arguments ?? []) {
    visit(argument, {
      Variable() {
        usesVariables = true;
      },
    });
  }
  if (usesVariables) return ({ variables }) => getArgumentValues(field, node, variables);
  const values = Object.freeze(getArgumentValues(field, node));
  return () => values;
}

function listCompletion(complete: Completion): Completion {
  return (value, run) => {
    if (!Array.isArray(value)) throw new Error('No array where the schema has a list');
    const pending: Promise<void>[] = [];
    const answer: unknown[] = new Array(value.length);
    settling(pending, () => {
      for (let index = 0; index < value.length; index++) {
        const item: unknown = value[index];
        const done = item instanceof Promise ? item.then((settled) => complete(settled, run)) : complete(item, run);
        answer[index] = done;
        if (done instanceof Promise) {
          pending.push(
            done.then((settled: unknown) => {
              answer[index] = settled;
            }),
          );
        }
      }
    });
    return pending.length === 0 ? answer : Promise.all(pending).then(() => answer);
  };
}

/** Runs code that starts promises; if it throws, nobody awaits them, so their rejections are ignored. */
function settling(pending: readonly Promise<void>[], run: () => void): void {
  try {
    run();
  } catch (error) {
    for (const promise of pending) promise.catch(() => {});
    throw error;
  }
}
