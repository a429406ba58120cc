import {
  type ArgumentNode,
  type ASTNode,
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
import { DomainError, type Fault, maxFaults, quoting, type Text, unknownField } from '../domain/errors.ts';
import { nullsOutOfPlace, variableUsages } from './nulls.ts';

// Reports what graphql-js finds wrong with values as operations do: each fault with its own place in the arguments of a
// field. The messages of graphql-js quote the whole value in each error.

type Path = readonly PropertyKey[];

/**
 * Where the values of a document are in the arguments of their fields, by the source offset of the value or of what
 * contains it: errors of graphql-js refer to copies of its nodes.
 */
type Places = ReadonlyMap<number, Path>;

function placesIn(document: DocumentNode): Places {
  const places = new Map<number, Path>();
  const note = (node: ArgumentNode | ValueNode | ObjectFieldNode, path: Path): void => {
    if (node.loc !== undefined) places.set(node.loc.start, path);
    if (node.kind === Kind.LIST) for (const [index, item] of node.values.entries()) note(item, [...path, index]);
    if (node.kind === Kind.OBJECT) for (const field of node.fields) note(field, [...path, field.name.value]);
    if (node.kind === Kind.OBJECT_FIELD || node.kind === Kind.ARGUMENT) note(node.value, path);
  };
  visit(document, {
    Argument(node) {
      note(node, [node.name.value]);
    },
  });
  return places;
}

/** All faults of the variables of an operation, up to a limit. */
export function variableFaults(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  values: Readonly<Record<string, unknown>>,
): Fault[] {
  const places = placesIn(document);
  // The name of a variable belongs to its operation: another one of the document may use it elsewhere.
  const usages = variableUsages(schema, document, operation);
  const nulls = new Map(nullsOutOfPlace(schema, document, operation, values).map((node) => [node.name.value, node]));
  const faults = (operation.variableDefinitions ?? []).values().flatMap(function* (definition) {
    const name = definition.variable.name.value;
    const type = typeFromAST(schema, definition.type);
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    const misplaced = nulls.get(name);
    if (misplaced !== undefined) {
      yield { path: placeOf(misplaced, places) ?? [name], detail: 'must not be null' };
      return;
    }
    if (!isInputType(type) || (value === undefined && definition.defaultValue !== undefined)) return;
    const usage = usages.find(({ node }) => node.name.value === name);
    yield* faultsOf(value, type, (usage && placeOf(usage.node, places)) ?? [name]);
  });
  return faults.take(maxFaults).toArray();
}

function placeOf({ loc }: ASTNode, places: Places): Path | undefined {
  return loc && places.get(loc.start);
}

function* faultsOf(value: unknown, type: GraphQLInputType, path: Path): Generator<Fault> {
  if (isNonNullType(type)) {
    if (value == null) yield { path, detail: value === undefined ? 'is required' : 'must not be null' };
    else yield* faultsOf(value, type.ofType, path);
  } else if (value == null) {
    return;
  } else if (isListType(type)) {
    if (!Array.isArray(value)) yield* faultsOf(value, type.ofType, path);
    else for (const [index, item] of value.entries()) yield* faultsOf(item, type.ofType, [...path, index]);
  } else if (isInputObjectType(type)) {
    if (typeof value !== 'object' || Array.isArray(value)) {
      yield { path, detail: 'must be an object' };
      return;
    }
    const given = new Map(Object.entries(value));
    for (const field of Object.values(type.getFields())) {
      const inner = given.get(field.name);
      given.delete(field.name);
      if (inner !== undefined || isRequiredInputField(field)) yield* faultsOf(inner, field.type, [...path, field.name]);
    }
    for (const name of given.keys()) yield { path: [...path, name], detail: unknownField };
  } else {
    const detail = leafFault(value, type);
    if (detail !== undefined) yield { path, detail };
  }
}

const ofScalar: Readonly<Record<string, string>> = {
  String: 'must be a string',
  ID: 'must be a string',
  Int: 'must be an integer of at most 32 bits',
  Float: 'must be a number',
  Boolean: 'must be a boolean',
};

function leafFault(value: unknown, type: GraphQLLeafType): Text | undefined {
  try {
    if (type.coerceInputValue(value) !== undefined) return undefined;
  } catch (error) {
    if (error instanceof GraphQLError && !isEnumType(type)) return ofScalar[type.name] ?? error.message;
  }
  if (!isEnumType(type)) return `must be a ${type.name}`;
  return quoting`must be one of ${type.getValues().map(({ name }) => name)}`;
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

function pointingError({ message: full, nodes }: GraphQLError, places: Places): GraphQLError {
  // graphql-js gives neither a code for this nor, below, the name of the missing field: only their sentences.
  if (full === 'Validation aborted.') {
    const tooMuch = 'The query repeats its fields too often to be checked.';
    return new GraphQLError(tooMuch, { originalError: new DomainError('QUERY_TOO_COMPLEX', tooMuch) });
  }
  const message = shorten(full);
  const place = nodes?.map((node) => placeOf(node, places)).find((path) => path !== undefined);
  const missing = /required field "(\w+)"/.exec(full)?.[1];
  const faults: readonly Fault[] | undefined =
    place &&
    (missing === undefined
      ? [{ path: place, detail: message.replace(/\.$/, '') }]
      : [{ path: [...place, missing], detail: 'is required' }]);
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
