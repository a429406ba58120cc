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

/** Inputs that GraphQL has under other names. */
const otherNames: Readonly<Record<string, readonly string[]>> = { limit: ['first', 'last'] };

/** What is looked at of an operation. */
export type Deprecable = Pick<Operation, 'name' | 'input' | 'deprecated'>;

/** What types are shown of, by their names. */
export type Shapes = Readonly<Record<string, ObjectShape>>;

/**
 * Marks what is deprecated in the operations: the fields that call one, and the arguments and input fields
 * that are one's deprecated input. And the fields of types whose shape has them deprecated.
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
        (otherNames[key] ?? [key]).map((here) => [here, deprecation]),
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

/** The fields of the one `input` that a mutation takes. */
function fieldsOf(argument: GraphQLArgument): GraphQLInputField[] {
  const type = getNamedType(argument.type);
  return argument.name === 'input' && isInputObjectType(type) ? Object.values(type.getFields()) : [];
}

type Shown = readonly [type: GraphQLObjectType | GraphQLInterfaceType, shape: ObjectShape];

/**
 * The types that show a shape of the domain: those that are named, and those of the objects within these.
 * @throws Error for a name that no type has
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

/** A list that the domain has whole is a connection here. */
function itemOf(type: GraphQLNamedType): GraphQLNamedType {
  const nodes = isObjectType(type) ? type.getFields()['nodes'] : undefined;
  return nodes === undefined ? type : getNamedType(nodes.type);
}
