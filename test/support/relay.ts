import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  buildSchema,
  type DocumentNode,
  type GraphQLCompositeType,
  getNamedType,
  getNullableType,
  isAbstractType,
  isCompositeType,
  isInterfaceType,
  isListType,
  isObjectType,
  print,
  type SelectionSetNode,
  typeFromAST,
  valueFromASTUntyped,
} from 'graphql';
import type { ConcreteRequest, NormalizationArgument, NormalizationSelection } from 'relay-runtime';

// What Relay's compiler makes of a document, for documents without named fragments and directives.

export const schema = buildSchema(
  readFileSync(fileURLToPath(new URL('../../schema.graphql', import.meta.url)), 'utf8'),
);

function selectionsOf({ selections }: SelectionSetNode, parent: GraphQLCompositeType): NormalizationSelection[] {
  return selections.map((selection): NormalizationSelection => {
    if (selection.kind === 'FragmentSpread') throw new Error('Named fragments are not supported.');
    if (selection.kind === 'InlineFragment') {
      const type = selection.typeCondition ? typeFromAST(schema, selection.typeCondition) : parent;
      if (!isObjectType(type)) throw new Error('Fragments of abstract types are not supported.');
      return { kind: 'InlineFragment', type: type.name, selections: selectionsOf(selection.selectionSet, type) };
    }
    const name = selection.name.value;
    const alias = selection.alias?.value ?? null;
    const args = (selection.arguments ?? []).map(
      ({ name: { value: argument }, value }): NormalizationArgument =>
        value.kind === 'Variable'
          ? { kind: 'Variable', name: argument, variableName: value.name.value }
          : { kind: 'Literal', name: argument, value: valueFromASTUntyped(value) },
    );
    const type = isObjectType(parent) || isInterfaceType(parent) ? parent.getFields()[name]?.type : undefined;
    const named = type && getNamedType(type);
    if (selection.selectionSet === undefined || !isCompositeType(named)) {
      return { kind: 'ScalarField', name, alias, args, storageKey: null };
    }
    return {
      kind: 'LinkedField',
      name,
      alias,
      args,
      storageKey: null,
      concreteType: isAbstractType(named) ? null : named.name,
      plural: isListType(getNullableType(type)),
      selections: selectionsOf(selection.selectionSet, named),
    };
  });
}

/** The document with `__typename` and, as Relay's compiler adds it, the `id` of everything that has one. */
export function withIds(document: DocumentNode): DocumentNode {
  const complete = (set: SelectionSetNode, parent: GraphQLCompositeType, isRoot: boolean): SelectionSetNode => {
    const names = new Set(set.selections.map((each) => (each.kind === 'Field' ? each.name.value : '')));
    const fields = isObjectType(parent) || isInterfaceType(parent) ? parent.getFields() : {};
    const added = ['__typename', 'id'].filter(
      (name) => !isRoot && !names.has(name) && (name === '__typename' || name in fields),
    );
    return {
      ...set,
      selections: [
        ...added.map((value) => ({ kind: 'Field', name: { kind: 'Name', value } }) as const),
        ...set.selections.map((each) => {
          if (each.kind === 'FragmentSpread' || each.selectionSet === undefined) return each;
          const type =
            each.kind === 'InlineFragment'
              ? each.typeCondition && typeFromAST(schema, each.typeCondition)
              : fields[each.name.value]?.type;
          const inner = type ? getNamedType(type) : parent;
          return isCompositeType(inner) ? { ...each, selectionSet: complete(each.selectionSet, inner, false) } : each;
        }),
      ] as SelectionSetNode['selections'],
    };
  };
  return {
    ...document,
    definitions: document.definitions.map((definition) => {
      if (definition.kind !== 'OperationDefinition') return definition;
      const root = schema.getRootType(definition.operation);
      return root ? { ...definition, selectionSet: complete(definition.selectionSet, root, true) } : definition;
    }),
  };
}

export function compileForRelay(document: DocumentNode): ConcreteRequest {
  const [operation] = document.definitions;
  if (operation?.kind !== 'OperationDefinition') throw new Error('A document needs to begin with its operation.');
  const root = schema.getRootType(operation.operation);
  if (root == null) throw new Error(`There is no ${operation.operation}.`);
  const name = operation.name?.value ?? 'Unnamed';
  const text = print(document);
  const selections = selectionsOf(operation.selectionSet, root);
  const argumentDefinitions = (operation.variableDefinitions ?? []).map(
    ({ variable }) => ({ kind: 'LocalArgument', name: variable.name.value, defaultValue: null }) as const,
  );
  return {
    kind: 'Request',
    fragment: {
      kind: 'Fragment',
      name,
      type: root.name,
      argumentDefinitions,
      // What is read is written alike.
      selections: selections as ConcreteRequest['fragment']['selections'],
    },
    operation: { kind: 'Operation', name, argumentDefinitions, selections },
    params: { id: null, cacheID: text, text, name, operationKind: operation.operation, metadata: {} },
  };
}
