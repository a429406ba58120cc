import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  execute,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  parse,
  validate,
} from 'graphql';
import { DomainError, validationFailed } from '../domain/errors.ts';
import type { AnswerBudget } from './answer-budget.ts';
import type { GraphQLContext } from './builder.ts';
import type { PreparedDocument } from './documents.ts';
import { pointingErrors, variableFaults } from './input-faults.ts';
import { maxTokens, refuseLongSubscription } from './limits.ts';
import { nullsOutOfPlace } from './nulls.ts';

// What is done with every operation before it runs, whether it came by HTTP or on a socket.

/** graphql-js quotes the document in each, so that they must be fewer than its default of 100. */
const maxValidationErrors = 50;

export function validateDocument(schema: GraphQLSchema, document: DocumentNode): readonly GraphQLError[] {
  return pointingErrors(document, validate(schema, document, undefined, { maxErrors: maxValidationErrors }));
}

export function asGraphQLError(error: unknown): GraphQLError {
  if (error instanceof GraphQLError) return error;
  return new GraphQLError('', { originalError: error instanceof Error ? error : new Error(String(error)) });
}

export function parseWithinLimits(source: string): DocumentNode {
  try {
    return parse(source, { maxTokens });
  } catch (error) {
    if (error instanceof GraphQLError && error.message.includes('Document contains more than')) {
      throw new GraphQLError(error.message, {
        originalError: new DomainError('QUERY_TOO_COMPLEX', `A document may have at most ${maxTokens} tokens.`),
      });
    }
    throw error;
  }
}

/**
 * What is wrong with an operation before it runs: what it says, if that is kept, its variables, then its size, which is
 * spent of a budget.
 */
export function refusalsOf(
  prepared: PreparedDocument,
  { operationName = null, variableValues }: Pick<ExecutionArgs, 'operationName' | 'variableValues'>,
  budget: AnswerBudget,
): GraphQLError[] {
  const { schema, document, source } = prepared;
  const operation = prepared.operation(operationName);
  if (operation === undefined) return []; // graphql-js says what is wrong
  const { node, checkComplexity } = operation;
  const values = variableValues ?? {};
  // Each error of graphql-js quotes the whole value: one is enough to know that there are some.
  const { variableValues: coerced, errors } = getVariableValues(schema, node.variableDefinitions ?? [], values, {
    maxErrors: 1,
  });
  const nulls = nullsOutOfPlace(schema, document, node, values);
  try {
    if (node.operation === 'subscription') refuseLongSubscription(source, values);
    if (errors !== undefined || nulls.length > 0)
      throw validationFailed(variableFaults(schema, document, node, values));
    checkComplexity(coerced.coerced, budget);
    return [];
  } catch (error) {
    const nodes = errors?.[0]?.nodes ?? nulls.slice(0, 1);
    return [new GraphQLError('', { nodes, originalError: error as Error })];
  }
}

/** Takes out of what a subscription was asked with all that is of no use any more. */
export function forgetTheRest(asked: object): void {
  for (const name of Object.keys(asked)) {
    if (!['query', 'variables', 'operationName'].includes(name)) Reflect.deleteProperty(asked, name);
  }
}

/**
 * Runs a query or a mutation with a context of ours. An answer to a query that becomes too large is none: each of its
 * texts would else be an error, and there may be more of those than anybody can read. What a mutation has done is told.
 */
export async function executeWithin(args: ExecutionArgs): Promise<ExecutionResult> {
  if (getOperationAST(args.document, args.operationName)?.operation !== 'query') return await execute(args);
  const { overspent } = (args.contextValue as GraphQLContext).budget;
  try {
    return await execute({ ...args, abortSignal: overspent });
  } catch (error) {
    if (!overspent.aborted) throw error;
    return { errors: [asGraphQLError(overspent.reason)], data: null };
  }
}
