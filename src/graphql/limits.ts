import type { DocumentNode, GraphQLSchema, OperationDefinitionNode } from 'graphql';
import { DomainError } from '../domain/errors.ts';
import { type AnswerBudget, inThousands, mebibyte, refuseLargeEvent } from './answer-budget.ts';
import { type Cost, type Measured, measure } from './measure.ts';

const maxDepth = 12;
const maxSlowFields = 5;
const maxMutations = 100;
/** Of what a mutation shows of what was done: enough for a hundred messages with all of their fields. */
const maxPayloadBytes = 10 * mebibyte;
export const maxTokens = 2_000;
export const maxLines = 2_000;
/** Of a document, in UTF-16 code units: parsing a text of many escapes takes 10 ms for this length. */
export const maxLength = 128 * 1024;
export const maxBatch = 10;
/** Of the text and the variables of a subscription, which are retained for as long as it lasts. */
const maxSubscriptionBytes = 16 * 1024;

/**
 * Refuses an operation with these coerced variables, or spends what it could return from a budget.
 * @throws QUERY_TOO_COMPLEX
 */
export type ComplexityCheck = (variables: Readonly<Record<string, unknown>>, budget: AnswerBudget) => Measured;

/**
 * Makes the check that refuses an operation that is nested too deeply or could, by its page sizes, return too much.
 * After the first time it takes no time, unless the result depends on variables.
 */
export function complexityCheck(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): ComplexityCheck {
  let fixed: Measured | undefined;
  return (variables, budget) => {
    const measured = fixed ?? measure(schema, document, operation, variables);
    if (measured.isFixed) fixed = measured;
    const { cost, rootFields } = measured;
    if (operation.operation === 'mutation' && rootFields > maxMutations) {
      throw tooComplex(`The operation has ${inThousands(rootFields)} mutations; at most ${maxMutations} are allowed.`);
    }
    refuse(cost);
    refuseLongPayloads(cost);
    if (operation.operation === 'subscription') refuseLargeEvent(cost);
    else budget.spendCost(cost);
    return measured;
  };
}

/**
 * Refuses a subscription whose text and variables are too long.
 * @throws QUERY_TOO_COMPLEX
 */
export function refuseLongSubscription(source: string, variables: Readonly<Record<string, unknown>>): void {
  if (Buffer.byteLength(source) + Buffer.byteLength(JSON.stringify(variables)) <= maxSubscriptionBytes) return;
  throw tooComplex('The text and the variables of a subscription may have at most 16 KiB together.');
}

/** A mutation cannot be refused once it has run, so what its payloads show has to fit. */
function refuseLongPayloads({ payloadBytes }: Cost): void {
  if (payloadBytes <= maxPayloadBytes) return;
  const limit = `at most ${maxPayloadBytes / mebibyte} MiB are allowed`;
  throw tooComplex(
    `The payloads could hold ${Math.ceil(payloadBytes / mebibyte)} MiB of JSON; ${limit}. Ask for fewer fields.`,
  );
}

function refuse({ depth, slowFields }: Cost): void {
  if (depth > maxDepth) throw tooComplex(`The query is ${depth} levels deep; at most ${maxDepth} are allowed.`);
  if (slowFields > maxSlowFields) {
    throw tooComplex(
      `The query asks for ${inThousands(slowFields)} reports, searches, lists of documents and totals of filtered lists; at most ${maxSlowFields} are allowed.`,
    );
  }
}

function tooComplex(message: string): DomainError {
  return new DomainError('QUERY_TOO_COMPLEX', message);
}
