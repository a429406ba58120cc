import { type ExecutionResult, OperationTypeNode } from 'graphql';
import {
  type AnswerBudget,
  maxBytes,
  maxEventBytes,
  maxObjects,
  maxObjectsOfEvent,
  maxValues,
  maxValuesOfEvent,
} from './answer-budget.ts';
import { maxDepth, maxMutations, maxPayloadBytes, maxSlowFields, maxTokens } from './limits.ts';
import type { Verdict } from './requests.ts';

const limits = {
  tokens: maxTokens,
  depth: maxDepth,
  objects: maxObjects,
  values: maxValues,
  slowFields: maxSlowFields,
  bytes: maxBytes,
};
const limitsOf = {
  [OperationTypeNode.QUERY]: limits,
  [OperationTypeNode.MUTATION]: { ...limits, mutations: maxMutations, payloadBytes: maxPayloadBytes },
  [OperationTypeNode.SUBSCRIPTION]: {
    ...limits,
    objects: maxObjectsOfEvent,
    values: maxValuesOfEvent,
    bytes: maxEventBytes,
  },
};

/**
 * A result that says what its operation was counted to cost, and what the limits are. One that was refused before
 * anything was counted, for a syntax error say, stays as it is.
 */
export function withCost<R extends ExecutionResult>(
  result: R,
  { measured, units }: Pick<Verdict, 'measured' | 'units'>,
  { bytes }: AnswerBudget,
): R {
  if (measured === undefined) return result;
  const { kind, tokens, rootFields: mutations } = measured;
  const { depth, objects, values, slowFields, payloadBytes } = measured.cost;
  const cost = {
    units,
    tokens,
    depth,
    objects,
    values,
    slowFields,
    bytes,
    ...(kind === OperationTypeNode.MUTATION && { mutations, payloadBytes }),
    limits: limitsOf[kind],
  };
  return { ...result, extensions: { ...result.extensions, cost } };
}
