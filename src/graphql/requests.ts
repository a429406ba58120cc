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

// The steps of every operation, over HTTP and on sockets: parsing, validation, checks and execution.

/** Below the default of graphql-js, which is 100, because it quotes the document in each error. */
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
 * The errors that an operation is refused with before it runs: for the length of a subscription, for its variables, or
 * for the size of its response, which is spent from a budget.
 */
export function refusalsOf(
  prepared: PreparedDocument,
  { operationName = null, variableValues }: Pick<ExecutionArgs, 'operationName' | 'variableValues'>,
  budget: AnswerBudget,
): GraphQLError[] {
  const { schema, document, source } = prepared;
  const operation = prepared.operation(operationName);
  if (operation === undefined) return []; // graphql-js reports that
  const { node, checkComplexity } = operation;
  const values = variableValues ?? {};
  // Each error of graphql-js quotes the whole value, so it stops at the first: `variableFaults` finds them all.
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

/** Deletes what is not needed from the parameters of a subscription, which are retained for as long as it lasts. */
export function dropExtraParams(asked: object): void {
  for (const name of Object.keys(asked)) {
    if (!['query', 'variables', 'operationName'].includes(name)) Reflect.deleteProperty(asked, name);
  }
}

/**
 * Runs a query or a mutation with a `GraphQLContext`. If the response to a query becomes too large, it is a single
 * error without data, because otherwise each further text would be an error, and there may be too many to read. The
 * response to a mutation always shows what was done.
 */
export async function executeWithinBudget(args: ExecutionArgs): Promise<ExecutionResult> {
  if (getOperationAST(args.document, args.operationName)?.operation !== 'query') return await execute(args);
  const { overspent } = (args.contextValue as GraphQLContext).budget;
  try {
    return await execute({ ...args, abortSignal: overspent });
  } catch (error) {
    if (!overspent.aborted) throw error;
    return { errors: [asGraphQLError(overspent.reason)], data: null };
  }
}
