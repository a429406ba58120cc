import {
  type DocumentNode,
  type ExecutionResult,
  type FieldNode,
  type GraphQLAbstractType,
  GraphQLError,
  type GraphQLField,
  type GraphQLNamedOutputType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getArgumentValues,
  getNamedType,
  getNullableType,
  isAbstractType,
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
import { DomainError } from '../domain/errors.ts';
import { scheduler } from '../runtime/scheduler.ts';
import type { answeredFirst } from './builder.ts';
import { Execution, type ExecutionInput, nullLength, type Path, type Position } from './execution.ts';
import { Selections } from './selections.ts';

// graphql-js consults the document and the schema again for every object of a response. Here both are consulted once,
// which leaves one function for each field. The response is the same, errors included; of errors that come about at the
// same time in several places, the order may differ.

/** An operation that has been compiled for the conditions of its `@skip` and `@include`. */
export interface CompiledOperation {
  /** Runs it: a query, a mutation, or a subscription for one event. It never throws or rejects. */
  readonly run: (input: ExecutionInput) => Awaitable<ExecutionResult>;
  /** About how much memory it takes, in bytes. */
  readonly weight: number;
}

/** Completes a value that is not null: turns it, or a promise of it, into its part of the response. */
type Completion = (value: unknown, run: Execution, at: Path) => unknown;

/** Reads a field's value, or a promise of it. */
type Read = (source: unknown, run: Execution) => unknown;

interface CompiledField {
  /** Its name in the schema. */
  readonly name: string;
  /** Its name in the response. */
  readonly key: string;
  /** Whether a query answers it before it begins with others: it, or something in it, is marked so. */
  readonly isFirst: boolean;
  /** Computes its part of the response, or a promise of it. */
  readonly answer: (source: unknown, run: Execution, at: Path | undefined) => unknown;
}

/** The fields of an object. */
type Fields = (source: unknown, run: Execution, at: Path | undefined) => unknown;

/** What resolvers are told. */
export interface FieldInfo extends GraphQLResolveInfo {
  /** Told by no other executor: the fields that are selected of the object that the field answers with. */
  readonly selected?: readonly string[] | undefined;
}

/** More than any useful document selects, counted for each combination of type and selection once. */
const maxFields = 10_000;
/** Of memory, measured and rounded up. A field of an abstract type is one for each of its types. */
const bytesPerField = 1_100;
/**
 * @param document valid against the schema
 * @param conditions the values of the variables that `conditionsIn` names
 * @throws QUERY_TOO_COMPLEX for too many fields
 */
export function compileOperation(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  conditions: Readonly<Record<string, boolean>>,
): CompiledOperation {
  const isMutation = operation.operation === 'mutation';
  const root = schema.getRootType(operation.operation);
  if (root == null) throw new Error(`The schema has no ${operation.operation}`);
  const compiler = new Compiler(schema, new Selections(schema, document, conditions), isMutation);
  const fields = compiler.root(root, operation.selectionSet);

  function run(input: ExecutionInput): Awaitable<ExecutionResult> {
    const execution = new Execution(input, isMutation);
    try {
      const data = fields(input.rootValue, execution, undefined);
      if (!(data instanceof Promise)) return execution.result(data as Record<string, unknown>);
      return data.then(
        (settled) => execution.result(settled),
        (error: unknown) => execution.failure(error),
      );
    } catch (error) {
      return execution.failure(error);
    }
  }

  return { run, weight: bytesPerField * compiler.fieldCount };
}

/** The variables that `@skip` and `@include` depend on. */
export function conditionsIn(document: DocumentNode): readonly string[] {
  const names = new Set<string>();
  visit(document, {
    Directive({ name, arguments: given }) {
      const value = given?.[0]?.value;
      if ((name.value === 'skip' || name.value === 'include') && value?.kind === Kind.VARIABLE) {
        names.add(value.name.value);
      }
    },
  });
  return [...names];
}

class Compiler {
  /** The fields that it has compiled. */
  fieldCount = 0;
  readonly #schema: GraphQLSchema;
  readonly #selections: Selections;
  readonly #isMutation: boolean;
  /** Each selection is compiled once for each type, however often fragments repeat it. */
  readonly #objects = new Map<string, Fields>();
  readonly #selected = new Map<Fields, readonly string[]>();
  /** Those with a field that is answered first. */
  readonly #first = new Set<Fields>();
  readonly #numbers = new Map<SelectionSetNode, number>();

  constructor(schema: GraphQLSchema, selections: Selections, isMutation: boolean) {
    this.#schema = schema;
    this.#selections = selections;
    this.#isMutation = isMutation;
  }

  root(type: GraphQLObjectType, selections: SelectionSetNode): Fields {
    const fields = this.#fieldsOf(type, [selections], !this.#isMutation);
    return this.#isMutation ? oneByOne(fields) : inOrder(fields);
  }

  /**
   * @param isOptional whether it may be left out of the response to a mutation when that becomes too long: what a payload
   * shows of what was done must not
   */
  #object(type: GraphQLObjectType, selections: readonly SelectionSetNode[], isOptional: boolean): Fields {
    const key = [type.name, isOptional, ...selections.map((each) => this.#numberOf(each))].join(' ');
    const known = this.#objects.get(key);
    if (known !== undefined) return known;
    const all = this.#fieldsOf(type, selections, isOptional);
    const fields = together(all, isOptional);
    this.#objects.set(key, fields);
    this.#selected.set(
      fields,
      all.map(({ name }) => name),
    );
    if (all.some(({ isFirst }) => isFirst)) this.#first.add(fields);
    return fields;
  }

  /** The fields of each object that a field of this type can answer with. */
  #objectsOf(type: GraphQLNamedOutputType, selections: readonly SelectionSetNode[], isOptional: boolean): Fields[] {
    if (isObjectType(type)) return [this.#object(type, selections, isOptional)];
    if (!isAbstractType(type)) return [];
    return this.#schema.getPossibleTypes(type).map((each) => this.#object(each, selections, isOptional));
  }

  #numberOf(selections: SelectionSetNode): number {
    const number = this.#numbers.get(selections) ?? this.#numbers.size;
    this.#numbers.set(selections, number);
    return number;
  }

  #fieldsOf(type: GraphQLObjectType, selections: readonly SelectionSetNode[], isOptional: boolean): CompiledField[] {
    if (type.isTypeOf != null) throw new Error(`${type.name} tests its values, which is not supported`);
    const fields = this.#selections.fieldsOf(type, selections);
    return [...fields].map(([key, nodes]) => this.#field(type, key, nodes, isOptional));
  }

  #field(parent: GraphQLObjectType, key: string, nodes: readonly FieldNode[], isInOptional: boolean): CompiledField {
    if (++this.fieldCount > maxFields) {
      throw new DomainError('QUERY_TOO_COMPLEX', `The document selects more than ${maxFields} fields.`);
    }
    const [node] = nodes as [FieldNode];
    const name = node.name.value;
    const field = this.#schema.getField(parent, name);
    if (field === undefined) throw new Error(`The document was not validated: there is no ${parent.name}.${name}`);
    if (name === '__typename') return { name, key, isFirst: false, answer: (_, run) => word(parent.name, run) };
    const position: Position = { nodes, mayBeNull: !isNonNullType(field.type) };
    const isOptional = isInOptional || (position.mayBeNull && parent !== this.#schema.getMutationType());
    const selections = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
    const complete = this.#completion(field, parent, field.type, { nodes, selections, isOptional });
    const type = getNullableType(field.type);
    const selected = isObjectType(type) ? this.#selected.get(this.#object(type, selections, isOptional)) : undefined;
    const read = reader(field, node, { schema: this.#schema, parentType: parent, selected });
    const { isAnsweredFirst = false } = field.extensions as Partial<typeof answeredFirst>;
    if (isLeafType(type))
      return { name, key, isFirst: isAnsweredFirst, answer: leafAnswer(key, read, complete, position) };
    const below = this.#objectsOf(getNamedType(type), selections, isOptional);
    return {
      name,
      key,
      isFirst: isAnsweredFirst || below.some((fields) => this.#first.has(fields)),
      answer(source, run, before) {
        const at: Path = { before, key };
        try {
          const value = read(source, run);
          if (value instanceof Promise) run.waits();
          const part =
            value instanceof Promise ? value.then((settled) => complete(settled, run, at)) : complete(value, run, at);
          return part instanceof Promise ? part.catch((error: unknown) => run.fail(error, position, at)) : part;
        } catch (error) {
          return run.fail(error, position, at);
        }
      },
    };
  }

  #completion(
    field: GraphQLField<unknown, unknown>,
    parent: GraphQLObjectType,
    type: GraphQLOutputType,
    below: Below,
  ): Completion {
    const isNonNull = isNonNullType(type);
    const complete = this.#completionOf(field, parent, isNonNull ? type.ofType : type, below);
    return (value, run, at) => {
      if (value instanceof Error) throw value;
      if (value != null) return complete(value, run, at);
      if (isNonNull) throw new Error(`Cannot return null for non-nullable field ${parent.name}.${field.name}.`);
      run.budget.bytes += nullLength;
      return null;
    };
  }

  #completionOf(
    field: GraphQLField<unknown, unknown>,
    parent: GraphQLObjectType,
    type: GraphQLOutputType,
    below: Below,
  ): Completion {
    if (isLeafType(type)) {
      return (value, run) => {
        const answer: unknown = type.coerceOutputValue(value);
        if (answer == null) throw new Error(`${type.name} has no form for the value of ${parent.name}.${field.name}`);
        run.budget.bytes += lengthOf(answer);
        return answer;
      };
    }
    if (isObjectType(type)) return this.#object(type, below.selections, below.isOptional);
    if (isListType(type)) {
      const position: Position = { nodes: below.nodes, mayBeNull: !isNonNullType(type.ofType) };
      return list(this.#completion(field, parent, type.ofType, below), position, `${parent.name}.${field.name}`);
    }
    if (isAbstractType(type)) return this.#abstract(type, below);
    throw new Error(`${String(type)} is no output type`);
  }

  #abstract(type: GraphQLAbstractType, { selections, isOptional }: Below): Completion {
    const { resolveType } = type;
    if (resolveType == null) throw new Error(`${type.name} does not resolve its type`);
    const fields = new Map(
      this.#schema.getPossibleTypes(type).map((each) => [each.name, this.#object(each, selections, isOptional)]),
    );
    const info = { schema: this.#schema } as GraphQLResolveInfo;
    return (value, run, at) => {
      const name = resolveType(value, run.context, info, type);
      const complete = typeof name === 'string' ? fields.get(name) : undefined;
      if (complete === undefined) throw new Error(`A ${type.name} of an unknown type`);
      return complete(value, run, at);
    };
  }
}

/** What a field's value is completed with. */
interface Below {
  readonly nodes: readonly FieldNode[];
  readonly selections: readonly SelectionSetNode[];
  readonly isOptional: boolean;
}

/** Reads a field's value, or a promise of it. Of `info`, resolvers get no more than what introspection and lists need. */
function reader(
  field: GraphQLField<unknown, unknown>,
  node: FieldNode,
  known: Pick<FieldInfo, 'schema' | 'parentType' | 'selected'>,
): Read {
  const { name, resolve } = field;
  if (resolve === undefined) return (source) => (source as Record<string, unknown>)[name];
  const args = argumentsOf(field, node);
  const info = known as GraphQLResolveInfo;
  return (source, run) => resolve(source, args(run), run.context, info);
}

/** The arguments of a field, coerced only once if they use no variables. */
function argumentsOf(
  field: GraphQLField<unknown, unknown>,
  node: FieldNode,
): (run: Execution) => Record<string, unknown> {
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

/** Answers a leaf. Most fields are leaves, and most of them at hand: their positions are made only for an error. */
function leafAnswer(key: string, read: Read, complete: Completion, position: Position): CompiledField['answer'] {
  const nowhere: Path = { before: undefined, key };
  return (source, run, before) => {
    try {
      const value = read(source, run);
      if (!(value instanceof Promise)) return complete(value, run, nowhere);
      run.waits();
      return value
        .then((settled) => complete(settled, run, nowhere))
        .catch((error: unknown) => run.fail(error, position, { before, key }));
    } catch (error) {
      return run.fail(error, position, { before, key });
    }
  };
}

/** Answers the fields of an object at the same time, in another turn of the account if this one was long enough. */
function together(fields: readonly CompiledField[], isOptional: boolean): Fields {
  const create = creator(fields);
  const length = lengthOfKeys(fields);
  const answerAll: Fields = (source, run, at) => {
    run.refuseMore();
    run.budget.bytes += length;
    if (run.budget.isSpent && isOptional) run.refuseLong();
    const answer = create();
    const pending: Promise<void>[] = [];
    settling(pending, () => {
      for (const { key, answer: answerField } of fields) {
        const value = answerField(source, run, at);
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
  const { length: values } = fields;
  return (source, run, at) =>
    run.begins(values) ? answerAll(source, run, at) : run.later(values, () => answerAll(source, run, at));
}

/** Answers the fields of a query: those that are answered first, then the others. */
function inOrder(fields: readonly CompiledField[]): Fields {
  const [first, others] = [fields.filter(({ isFirst }) => isFirst), fields.filter(({ isFirst }) => !isFirst)];
  if (first.length === 0 || others.length === 0) return together(fields, true);
  const [answerFirst, answerOthers] = [together(first, true), together(others, true)];
  const create = creator(fields);
  return async (source, run, at) => {
    const ofFirst = (await answerFirst(source, run, at)) as Record<string, unknown>;
    const ofOthers = (await answerOthers(source, run, at)) as Record<string, unknown>;
    const answer = create();
    for (const { key, isFirst } of fields) answer[key] = (isFirst ? ofFirst : ofOthers)[key];
    return answer;
  };
}

/** Answers the fields of a mutation, each after the one before it has ended. */
function oneByOne(fields: readonly CompiledField[]): Fields {
  const create = creator(fields);
  const length = lengthOfKeys(fields);
  return async (source, run, at) => {
    run.budget.bytes += length;
    const answer = create();
    for (const [index, { key, answer: answerField }] of fields.entries()) {
      // What is refused has no turn in the storage: a hundred large inputs would be looked at in one.
      if (index > 0) await scheduler.step(run.context.caller.account.id);
      answer[key] = await answerField(source, run, at);
    }
    return answer;
  };
}

/** An object without a prototype if one of its keys would otherwise set that. */
function creator(fields: readonly CompiledField[]): () => Record<string, unknown> {
  return fields.some(({ key }) => key === '__proto__') ? () => Object.create(null) : () => ({});
}

/** The length in JSON of an object's keys, quotes and punctuation. */
function lengthOfKeys(fields: readonly CompiledField[]): number {
  return fields.reduce((sum, { key }) => sum + key.length + 4, 2);
}

/** Texts up to this length are counted by characters: to count their bytes would take longer than what it finds. */
const shortLength = 32;

/** The length of a leaf in JSON; of texts in bytes, without what escapes add. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return 2 + (value.length > shortLength ? Buffer.byteLength(value) : value.length);
  return typeof value === 'object' ? Buffer.byteLength(JSON.stringify(value)) : String(value).length;
}

function word(text: string, run: Execution): string {
  run.budget.bytes += text.length + 2;
  return text;
}

function list(complete: Completion, position: Position, name: string): Completion {
  return (value, run, before) => {
    if (!Array.isArray(value)) throw new GraphQLError(`Expected Iterable, but did not find one for field "${name}".`);
    run.budget.bytes += value.length + 2;
    const pending: Promise<void>[] = [];
    const answer: unknown[] = new Array(value.length);
    const completeItem = (item: unknown, at: Path): unknown => {
      try {
        const part =
          item instanceof Promise ? item.then((settled) => complete(settled, run, at)) : complete(item, run, at);
        return part instanceof Promise ? part.catch((error: unknown) => run.fail(error, position, at)) : part;
      } catch (error) {
        return run.fail(error, position, at);
      }
    };
    settling(pending, () => {
      for (let index = 0; index < value.length; index++) {
        const part = completeItem(value[index], { before, key: index });
        answer[index] = part;
        if (part instanceof Promise) {
          pending.push(
            part.then((settled: unknown) => {
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
