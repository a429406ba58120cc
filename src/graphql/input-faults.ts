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
import { DomainError, type Fault, maxFaults, pointer } from '../domain/errors.ts';
import { nullsOutOfPlace, variableUsages } from './nulls.ts';

// What graphql-js finds wrong with values, told as the operations tell it: each fault by its own
// pointer into the operation's input, as on REST. The messages of graphql-js quote the value each time.

type Path = readonly PropertyKey[];

/** An operation's input is the argument `input`, or else the arguments; a page's size is `limit` there. */
function pathOfArgument(name: string): Path {
  if (name === 'input') return [];
  return isSize(name) ? ['limit'] : [name];
}

function isSize(argument: string): boolean {
  return argument === 'first' || argument === 'last';
}

/** Where the values in a document lie in the input of their operations. */
interface Places {
  /** By the offset at which the value, or what holds it, starts: graphql-js tells of copies of its nodes. */
  readonly byStart: ReadonlyMap<number, Path>;
  /** Which argument it is, of a value that is a page's size, by where it starts. */
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

/** All that is wrong with the variables of an operation, up to a bound. */
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
    for (const name of given.keys()) yield fault([...path, name], 'is not known here');
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

/** What validation says of a document, each error with a pointer where it is about a value in it. */
export function pointingErrors(document: DocumentNode, errors: readonly GraphQLError[]): GraphQLError[] {
  const pointing: GraphQLError[] = [];
  if (errors.length === 0) return pointing;
  const places = placesIn(document);
  // No `errors.map`: V8 keeps the receivers of a new error's call stack, so each would hold all the old ones.
  for (const error of errors) pointing.push(pointingError(error, places));
  return pointing;
}

function pointingError({ message: full, nodes }: GraphQLError, { byStart }: Places): GraphQLError {
  if (full === 'Validation aborted.') {
    const tooMuch = 'The query repeats its fields too often to be checked.';
    return new GraphQLError(tooMuch, { originalError: new DomainError('QUERY_TOO_COMPLEX', tooMuch) });
  }
  const message = shorten(full);
  const place = nodes?.map(({ loc }) => loc && byStart.get(loc.start)).find((path) => path !== undefined);
  const missing = /required field "(\w+)"/.exec(full)?.[1];
  const detail = missing === undefined ? message.replace(/\.$/, '') : 'is required';
  const faults = place && [fault(missing === undefined ? place : [...place, missing], detail)];
  return new GraphQLError(message, {
    ...(nodes && { nodes }),
    originalError: new DomainError('VALIDATION_FAILED', message, faults && { faults }),
  });
}

const maxMessageLength = 500;

/** What graphql-js says quotes the document, which may be a megabyte, once for each error. */
function shorten(message: string): string {
  if (message.length <= maxMessageLength) return message;
  // Copied, since a slice would keep the whole message in memory for as long as the document is cached.
  return `${Buffer.from(message.slice(0, maxMessageLength)).toString()}…`;
}
