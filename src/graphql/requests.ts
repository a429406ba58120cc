import {
  type DocumentNode,
  type ExecutionArgs,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  parse,
  type ValidationRule,
  validate,
} from 'graphql';
import { DomainError, validationFailed } from '../domain/errors.ts';
import { pointingErrors, variableFaults } from './input-faults.ts';
import { complexityCheck, maxTokens } from './limits.ts';
import { nullsOutOfPlace } from './nulls.ts';

// What is done with every operation before it runs, whether it came by HTTP or on a socket.

/** graphql-js quotes the document in each, so that they must be fewer than its default of 100. */
const maxValidationErrors = 50;

export function validateDocument(
  schema: GraphQLSchema,
  document: DocumentNode,
  rules?: readonly ValidationRule[],
): readonly GraphQLError[] {
  return pointingErrors(document, validate(schema, document, rules, { maxErrors: maxValidationErrors }));
}

export function asGraphQLError(error: unknown): GraphQLError {
  if (error instanceof GraphQLError) return error;
  return new GraphQLError('', { originalError: error instanceof Error ? error : new Error(String(error)) });
}

export function parseWithinLimits(source: string, options?: object): DocumentNode {
  try {
    return parse(source, { ...options, maxTokens });
  } catch (error) {
    if (error instanceof GraphQLError && error.message.includes('Document contains more than')) {
      throw new GraphQLError(error.message, {
        originalError: new DomainError('QUERY_TOO_COMPLEX', `A document may have at most ${maxTokens} tokens.`),
      });
    }
    throw error;
  }
}

/** What is wrong with an operation before it runs: its variables, then its size. */
export function refusalsOf({
  schema,
  document,
  operationName,
  variableValues,
}: ExecutionArgs & { schema: GraphQLSchema }): GraphQLError[] {
  const operation = getOperationAST(document, operationName);
  if (operation == null) return []; // graphql-js says what is wrong
  const values = variableValues ?? {};
  // Each error of graphql-js quotes the whole value: one is enough to know that there are some.
  const { variableValues: coerced, errors } = getVariableValues(schema, operation.variableDefinitions ?? [], values, {
    maxErrors: 1,
  });
  const nulls = nullsOutOfPlace(schema, document, operation, values);
  try {
    if (errors !== undefined || nulls.length > 0)
      throw validationFailed(variableFaults(schema, document, operation, values));
    complexityCheck(schema, document, operation)(coerced.coerced);
    return [];
  } catch (error) {
    const nodes = errors?.[0]?.nodes ?? nulls.slice(0, 1);
    return [new GraphQLError('', { nodes, originalError: error as Error })];
  }
}
