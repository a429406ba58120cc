import {
  type DocumentNode,
  type GraphQLSchema,
  isNonNullType,
  Kind,
  type OperationDefinitionNode,
  TypeInfo,
  ValidationContext,
  type VariableDefinitionNode,
  type VariableNode,
} from 'graphql';

// GraphQL lets a variable that may be null stand where no null may be, if a default stands in for it when it is left
// out. When it is null all the same, graphql-js finds out on the way, by an error that cannot be told from one of ours:
// so it is found out before.

/** Where variables stand that no null may be in, by their names. */
type Places = ReadonlyMap<string, VariableNode>;

const known = new WeakMap<OperationDefinitionNode, Places>();

/**
 * The variables of an operation that are null where none may be. A field that is left out counts as well.
 * @param document valid against the schema
 */
export function nullsOutOfPlace(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  values: Readonly<Record<string, unknown>>,
): readonly VariableNode[] {
  const nulls = (operation.variableDefinitions ?? []).filter((definition) => isNull(definition, values));
  if (nulls.length === 0) return [];
  const places = known.get(operation) ?? placesWithoutNull(schema, document, operation);
  known.set(operation, places);
  return nulls.flatMap(({ variable }) => places.get(variable.name.value) ?? []);
}

function isNull(
  { variable, defaultValue }: VariableDefinitionNode,
  values: Readonly<Record<string, unknown>>,
): boolean {
  const name = variable.name.value;
  const value = Object.hasOwn(values, name) ? values[name] : undefined;
  return value === undefined ? defaultValue?.kind === Kind.NULL : value === null;
}

function placesWithoutNull(schema: GraphQLSchema, document: DocumentNode, operation: OperationDefinitionNode): Places {
  const places = new Map<string, VariableNode>();
  for (const { node, type } of variableUsages(schema, document, operation)) {
    if (isNonNullType(type) && !places.has(node.name.value)) places.set(node.name.value, node);
  }
  return places;
}

/** Where an operation uses variables, in its fragments as well. */
export function variableUsages(schema: GraphQLSchema, document: DocumentNode, operation: OperationDefinitionNode) {
  const context = new ValidationContext(schema, document, new TypeInfo(schema), () => {});
  return context.getRecursiveVariableUsages(operation);
}
