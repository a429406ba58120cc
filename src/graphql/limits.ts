import type { DocumentNode, GraphQLSchema, OperationDefinitionNode } from 'graphql';
import { DomainError } from '../domain/errors.ts';
import type { AnswerBudget } from './answer-budget.ts';
import { type Cost, Measure } from './measure.ts';

const maxDepth = 12;
const maxNodes = 100_000;
export const maxTokens = 2_000;
export const maxBatch = 10;
/** Of the text and the variables of a subscription, which are retained for as long as it lasts. */
const maxSubscriptionBytes = 16 * 1024;

/**
 * Refuses an operation with these coerced variables, or spends the values that it could return from a budget.
 * @throws QUERY_TOO_COMPLEX
 */
export type ComplexityCheck = (variables: Readonly<Record<string, unknown>>, budget: AnswerBudget) => void;

/**
 * Makes the check that refuses an operation that is nested too deeply or could, by its page sizes, return too many
 * objects or values. It takes time proportional to the document, however its fragments multiply, and after the first
 * time none, unless the result depends on variables.
 */
export function complexityCheck(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): ComplexityCheck {
  const root = schema.getRootType(operation.operation);
  if (root == null) return () => {};
  let fixed: Cost | undefined;
  return (variables, budget) => {
    if (fixed !== undefined) return refuse(fixed, budget);
    const measure = new Measure(schema, document, variables);
    const cost = measure.of(operation.selectionSet, root);
    if (!measure.usesVariables) fixed = cost;
    refuse(cost, budget);
  };
}

/**
 * Refuses a subscription whose text and variables are too long.
 * @throws QUERY_TOO_COMPLEX
 */
export function refuseLongSubscription(source: string, variables: Readonly<Record<string, unknown>>): void {
  if (Buffer.byteLength(source) + Buffer.byteLength(JSON.stringify(variables)) <= maxSubscriptionBytes) return;
  throw new DomainError(
    'QUERY_TOO_COMPLEX',
    'The text and the variables of a subscription may have at most 16 KiB together.',
  );
}

function refuse({ depth, nodes, values }: Cost, budget: AnswerBudget): void {
  if (depth > maxDepth) {
    throw new DomainError('QUERY_TOO_COMPLEX', `The query is ${depth} levels deep; at most ${maxDepth} are allowed.`);
  }
  if (nodes > maxNodes) {
    throw new DomainError(
      'QUERY_TOO_COMPLEX',
      `The query could return ${nodes} objects; at most ${maxNodes} are allowed. Ask for smaller pages.`,
    );
  }
  budget.spendValues(values);
}
