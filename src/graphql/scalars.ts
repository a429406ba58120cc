import { GraphQLError, Kind, type ValueNode } from 'graphql';
import { type MetadataPatch, numbersAreDoubles } from '../domain/metadata.ts';
import { numberFrom } from '../domain/numbers.ts';
import { builder } from './builder.ts';

// Scalars check only the type of a value. Its further rules are those of the operation, as in REST.

/** The JSON standard. */
const rfc8259 = 'https://www.rfc-editor.org/rfc/rfc8259';

builder.scalarType('DateTime', {
  specifiedByURL: 'https://scalars.graphql.org/andimarek/date-time.html',
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
  specifiedByURL: rfc8259,
  description: `Arbitrary client data: a flat object of strings, numbers and booleans, with at most 50 keys and 8 KiB. ${numbersAreDoubles}`,
  serialize: (value) => value,
  parseValue: (value) => value as MetadataPatch,
  parseLiteral: (ast, variables) => untyped(ast, variables ?? {}) as MetadataPatch,
});

builder.scalarType('JSON', {
  specifiedByURL: rfc8259,
  description: 'Any JSON value. It is only returned.',
  serialize: (value) => value,
});

/** Like `valueFromASTUntyped` of graphql-js, for which an unquoted word is a string, and a number whatever fits. */
function untyped(node: ValueNode, variables: Readonly<Record<string, unknown>>): unknown {
  switch (node.kind) {
    case Kind.NULL:
      return null;
    case Kind.INT:
    case Kind.FLOAT:
      return numberFrom(node.value);
    case Kind.STRING:
    case Kind.BOOLEAN:
      return node.value;
    case Kind.ENUM:
      throw new GraphQLError('must be a string in quotes, a number or a boolean', { nodes: node });
    case Kind.LIST:
      return node.values.map((item) => untyped(item, variables));
    case Kind.OBJECT: {
      // Without a prototype: `__proto__` is a key like another, which the operation refuses.
      const object = Object.create(null) as Record<string, unknown>;
      for (const { name, value } of node.fields) {
        const part = untyped(value, variables);
        if (part !== undefined) object[name.value] = part; // a variable without a value leaves its field out
      }
      return object;
    }
    case Kind.VARIABLE:
      return variables[node.name.value];
  }
}
