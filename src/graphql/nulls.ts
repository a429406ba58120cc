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

// GraphQL allows a nullable variable in a non-null position if a default replaces it when it is left out. If it is
// explicitly null, graphql-js fails during execution, with an error that looks like one of a resolver: so this is
// checked beforehand.

/** The first use of each variable in a non-null position, by name. */
type Places = ReadonlyMap<string, VariableNode>;

const known = new WeakMap<OperationDefinitionNode, Places>();

/**
 * The variables of an operation that are null in a non-null position, also of a field that a directive leaves out.
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
