import {
  type ArgumentNode,
  type DocumentNode,
  GraphQLError,
  type GraphQLInputType,
  type GraphQLLeafType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInputType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  Kind,
  type ObjectFieldNode,
  type OperationDefinitionNode,
  typeFromAST,
  type ValueNode,
  visit,
} from 'graphql';
import { DomainError, type Fault, maxFaults, pointer, unknownField } from '../domain/errors.ts';
import { nullsOutOfPlace, variableUsages } from './nulls.ts';

// Reports what graphql-js finds wrong with values as operations do: each fault with its own pointer into the input of
// the operation, as in REST. The messages of graphql-js quote the whole value in each error.

type Path = readonly PropertyKey[];

/** An operation's input is the argument `input`, or else all arguments. The size of a page is its `limit`. */
function pathOfArgument(name: string): Path {
  if (name === 'input') return [];
  return isSize(name) ? ['limit'] : [name];
}

function isSize(argument: string): boolean {
  return argument === 'first' || argument === 'last';
}

/** Where the values of a document belong in the input of their operations. */
interface Places {
  /** By the source offset of the value, or of what contains it: errors of graphql-js refer to copies of its nodes. */
  readonly byStart: ReadonlyMap<number, Path>;
  /** The argument, `first` or `last`, of each value that is the size of a page, by its source offset. */
  readonly sizes: ReadonlyMap<number, string>;
}

function placesIn(document: DocumentNode): Places {
  const byStart = new Map<number, Path>();
  const sizes = new Map<number, string>();
  const note = (node: ArgumentNode | ValueNode | ObjectFieldNode, path: Path): void => {
    if (node.loc !== undefined) byStart.set(node.loc.start, path);
    if (node.kind === Kind.LIST) for (const [index, item] of node.values.entries()) note(item, [...path, index]);
    if (node.kind === Kind.OBJECT) for (const field of node.fields) note(field, [...path, field.name.value]);
    if (node.kind === Kind.OBJECT_FIELD || node.kind === Kind.ARGUMENT) note(node.value, path);
  };
  visit(document, {
    Argument(node) {
      const { name, value } = node;
      if (value.loc !== undefined && isSize(name.value)) sizes.set(value.loc.start, name.value);
      note(node, pathOfArgument(name.value));
    },
  });
  return { byStart, sizes };
}

/** All faults of the variables of an operation, up to a limit. */
export function variableFaults(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  values: Readonly<Record<string, unknown>>,
): Fault[] {
  const { byStart, sizes } = placesIn(document);
  // The name of a variable belongs to its operation: another one of the document may use it elsewhere.
  const usages = variableUsages(schema, document, operation);
  const nulls = new Map(nullsOutOfPlace(schema, document, operation, values).map((node) => [node.name.value, node]));
  const faults = (operation.variableDefinitions ?? []).values().flatMap(function* (definition) {
    const name = definition.variable.name.value;
    const type = typeFromAST(schema, definition.type);
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    const misplaced = nulls.get(name);
    if (misplaced !== undefined) {
      yield fault((misplaced.loc && byStart.get(misplaced.loc.start)) ?? [name], 'must not be null');
      return;
    }
    if (!isInputType(type) || (value === undefined && definition.defaultValue !== undefined)) return;
    const first = usages.find(({ node }) => node.name.value === name)?.node.loc;
    const size = first && sizes.get(first.start);
    for (const found of faultsOf(value, type, (first && byStart.get(first.start)) ?? [name])) {
      yield size === undefined ? found : { ...found, parameter: size };
    }
  });
  return faults.take(maxFaults).toArray();
}

function* faultsOf(value: unknown, type: GraphQLInputType, path: Path): Generator<Fault> {
  if (isNonNullType(type)) {
    if (value == null) yield fault(path, value === undefined ? 'is required' : 'must not be null');
    else yield* faultsOf(value, type.ofType, path);
  } else if (value == null) {
    return;
  } else if (isListType(type)) {
    if (!Array.isArray(value)) yield* faultsOf(value, type.ofType, path);
    else for (const [index, item] of value.entries()) yield* faultsOf(item, type.ofType, [...path, index]);
  } else if (isInputObjectType(type)) {
    if (typeof value !== 'object' || Array.isArray(value)) {
      yield fault(path, 'must be an object');
      return;
    }
    const given = new Map(Object.entries(value));
    for (const field of Object.values(type.getFields())) {
      const inner = given.get(field.name);
      given.delete(field.name);
      if (inner !== undefined || isRequiredInputField(field)) yield* faultsOf(inner, field.type, [...path, field.name]);
    }
    for (const name of given.keys()) yield fault([...path, name], unknownField);
  } else {
    const detail = leafFault(value, type);
    if (detail !== undefined) yield fault(path, detail);
  }
}

const ofScalar: Readonly<Record<string, string>> = {
  String: 'must be a string',
  ID: 'must be a string',
  Int: 'must be an integer of at most 32 bits',
  Float: 'must be a number',
  Boolean: 'must be a boolean',
};

function leafFault(value: unknown, type: GraphQLLeafType): string | undefined {
  try {
    if (type.coerceInputValue(value) !== undefined) return undefined;
  } catch (error) {
    if (error instanceof GraphQLError && !isEnumType(type)) return ofScalar[type.name] ?? error.message;
  }
  if (!isEnumType(type)) return `must be a ${type.name}`;
  return `must be one of ${type
    .getValues()
    .map(({ name }) => `\`${name}\``)
    .join(', ')}`;
}

function fault(path: Path, detail: string): Fault {
  return { pointer: pointer(path), detail };
}

/** The validation errors of a document, each with a pointer if it concerns a value. */
export function pointingErrors(document: DocumentNode, errors: readonly GraphQLError[]): GraphQLError[] {
  const pointing: GraphQLError[] = [];
  if (errors.length === 0) return pointing;
  const places = placesIn(document);
  // Not `errors.map`: V8 retains the receivers in the call stack of a new error, so each would retain all the old ones.
  for (const error of errors) pointing.push(pointingError(error, places));
  return pointing;
}

function pointingError({ message: full, nodes }: GraphQLError, { byStart }: Places): GraphQLError {
  if (full === 'Validation aborted.') {
    const tooMuch = 'The query repeats its fields too often to be checked.';
    return new GraphQLError(tooMuch, { originalError: new DomainError('QUERY_TOO_COMPLEX', tooMuch) });
  }
  const message = shorten(full);
  const unknown = /^Unknown argument "(\w+)"/.exec(full)?.[1];
  const places = nodes?.map(({ loc }) => loc && byStart.get(loc.start));
  const place = unknown === undefined ? places?.find((path) => path !== undefined) : [unknown];
  const missing = /required field "(\w+)"/.exec(full)?.[1];
  const detail = missing === undefined ? message.replace(/\.$/, '') : 'is required';
  const faults = place && [fault(missing === undefined ? place : [...place, missing], detail)];
  return new GraphQLError(message, {
    ...(nodes && { nodes }),
    originalError: new DomainError('VALIDATION_FAILED', message, faults && { faults }),
  });
}

const maxMessageLength = 500;

/** The messages of graphql-js quote the document, which may be a megabyte, in each error. */
function shorten(message: string): string {
  if (message.length <= maxMessageLength) return message;
  // Copied, since a slice would retain the whole message for as long as the document is cached.
  return `${Buffer.from(message.slice(0, maxMessageLength)).toString()}…`;
}
