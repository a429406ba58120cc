import { GraphQLError, Kind, valueFromASTUntyped, visit } from 'graphql';
import { type MetadataPatch, numbersAreDoubles } from '../domain/metadata.ts';
import { builder } from './builder.ts';

// Scalars check only the type of a value. Its further rules are those of the operation, as in REST.

builder.scalarType('DateTime', {
  description: 'An RFC 3339 time. It is returned in UTC with milliseconds, such as `2026-11-21T06:12:00.000Z`.',
  serialize: (value) => value,
  parseValue: (value) => {
    if (typeof value !== 'string') throw new GraphQLError('must be a string');
    return value;
  },
  parseLiteral: (ast) => {
    // Not a GraphQLError: graphql-js adds the type and the value to the message of any other error.
    if (ast.kind !== Kind.STRING) throw new TypeError('must be a string');
    return ast.value;
  },
});

builder.scalarType('Metadata', {
  description: `Arbitrary client data: a flat object of strings, numbers and booleans, with at most 50 keys and 8 KiB. ${numbersAreDoubles}`,
  serialize: (value) => value,
  parseValue: (value) => value as MetadataPatch,
  parseLiteral: (ast, variables) => {
    // An unquoted word such as `TRUE` is neither a string nor a boolean, but would become a string.
    visit(ast, {
      EnumValue: (node) => {
        throw new GraphQLError('must be a string in quotes, a number or a boolean', { nodes: node });
      },
    });
    return valueFromASTUntyped(ast, variables) as MetadataPatch;
  },
});
