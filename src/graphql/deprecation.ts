import {
  type GraphQLArgument,
  type GraphQLInputField,
  type GraphQLSchema,
  getNamedType,
  isInputObjectType,
  isObjectType,
} from 'graphql';
import { deprecatedFields, deprecationReason } from '../domain/deprecation.ts';
import type { Operation } from '../domain/operation.ts';

/**
 * Marks what is deprecated in the operations: the fields that call one, and the arguments and input fields
 * that have the name of one's deprecated input. And the fields of types whose shape has them deprecated.
 * @param shapes by the name of the type
 */
export function withDeprecations(
  schema: GraphQLSchema,
  operations: readonly Pick<Operation, 'name' | 'input' | 'deprecated'>[],
  shapes: Readonly<Record<string, Parameters<typeof deprecatedFields>[0]>> = {},
): GraphQLSchema {
  const fields = Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .flatMap((type) => Object.values(type.getFields()));
  for (const { name, input, deprecated } of operations) {
    const inputs = deprecatedFields(input);
    for (const field of fields.filter(({ extensions }) => extensions['operation'] === name)) {
      if (deprecated !== undefined) field.deprecationReason = deprecationReason(deprecated);
      for (const given of field.args.flatMap((argument) => [argument, ...fieldsOf(argument)])) {
        const deprecation = inputs.get(given.name);
        if (deprecation !== undefined) given.deprecationReason = deprecationReason(deprecation);
      }
    }
  }
  for (const [name, shape] of Object.entries(shapes)) {
    const type = schema.getType(name);
    if (!isObjectType(type)) throw new Error(`There is no type ${name}`);
    for (const [fieldName, deprecation] of deprecatedFields(shape)) {
      const field = type.getFields()[fieldName];
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
