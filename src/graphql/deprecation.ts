import {
  type GraphQLArgument,
  type GraphQLInputField,
  type GraphQLInterfaceType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
} from 'graphql';
import { deprecatedFields, deprecationReason, type ObjectShape, objectsIn } from '../domain/deprecation.ts';
import type { Operation } from '../domain/operation.ts';

/** Inputs that have other names in GraphQL. */
const otherNames: Readonly<Record<string, readonly string[]>> = { limit: ['first', 'last'] };

/** The parts of an operation that matter here. */
export type Deprecable = Pick<Operation, 'name' | 'input' | 'deprecated'>;

/** The shapes of the domain that types expose, by type name. */
export type Shapes = Readonly<Record<string, ObjectShape>>;

/**
 * Marks as deprecated: the fields that call a deprecated operation, the arguments and input fields for its deprecated
 * inputs, and the fields that are deprecated in the shape of their type.
 */
export function withDeprecations(
  schema: GraphQLSchema,
  operations: readonly Deprecable[],
  shapes: Shapes,
): GraphQLSchema {
  const fields = Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .flatMap((type) => Object.values(type.getFields()));
  for (const { name, input, deprecated } of operations) {
    const inputs = new Map(
      [...deprecatedFields(input)].flatMap(([key, deprecation]) =>
        (otherNames[key] ?? [key]).map((name) => [name, deprecation]),
      ),
    );
    for (const field of fields.filter(({ extensions }) => extensions['operation'] === name)) {
      if (deprecated !== undefined) field.deprecationReason = deprecationReason(deprecated);
      for (const given of field.args.flatMap((argument) => [argument, ...fieldsOf(argument)])) {
        const deprecation = inputs.get(given.name);
        if (deprecation !== undefined) given.deprecationReason = deprecationReason(deprecation);
      }
    }
  }
  for (const [type, shape] of shownShapes(schema, shapes)) {
    for (const [name, deprecation] of deprecatedFields(shape)) {
      const field = type.getFields()[name];
      if (field !== undefined) field.deprecationReason = deprecationReason(deprecation);
    }
  }
  return schema;
}

/** The fields of the single `input` of a mutation. */
function fieldsOf(argument: GraphQLArgument): GraphQLInputField[] {
  const type = getNamedType(argument.type);
  return argument.name === 'input' && isInputObjectType(type) ? Object.values(type.getFields()) : [];
}

type Shown = readonly [type: GraphQLObjectType | GraphQLInterfaceType, shape: ObjectShape];

/**
 * The types that expose a shape of the domain: the named ones, and those of the objects nested in them.
 * @throws Error if there is no type of one of the names
 */
export function shownShapes(schema: GraphQLSchema, shapes: Shapes): Shown[] {
  return Object.entries(shapes).flatMap(([name, shape]) => {
    const type = schema.getType(name);
    if (!isObjectType(type) && !isInterfaceType(type)) throw new Error(`There is no type ${name}`);
    return [[type, shape], ...shownWithin([type, shape])];
  });
}

function shownWithin([type, { shape }]: Shown): Shown[] {
  const fields = type.getFields();
  return Object.entries(shape).flatMap(([name, part]) => {
    const inner = fields[name] && itemOf(getNamedType(fields[name].type));
    if (!isObjectType(inner)) return [];
    return objectsIn(part).flatMap((object): Shown[] => [[inner, object], ...shownWithin([inner, object])]);
  });
}

/** The item type of a connection, which stands for a list embedded in a shape; any other type as it is. */
function itemOf(type: GraphQLNamedType): GraphQLNamedType {
  const nodes = isObjectType(type) ? type.getFields()['nodes'] : undefined;
  return nodes === undefined ? type : getNamedType(nodes.type);
}
