import { OperationTypeNode } from 'graphql';
import { DomainError } from '../domain/errors.ts';
import { type AnswerBudget, inThousands, mebibyte, refuseLargeEvent } from './answer-budget.ts';
import type { Cost, Measured } from './measure.ts';

export const maxDepth = 12;
export const maxSlowFields = 5;
export const maxMutations = 100;
/** Of what a mutation shows of what was done: enough for a hundred messages with all of their fields. */
export const maxPayloadBytes = 10 * mebibyte;
export const maxTokens = 2_000;
export const maxLines = 2_000;
/** Of a document, in UTF-16 code units: parsing a text of many escapes takes 10 ms for this length. */
export const maxLength = 128 * 1024;
export const maxBatch = 10;
/** Up to this length, a batch that is too large is answered with an error for each operation, and else with one. */
export const maxAnsweredBatch = 100;
/** Of the text and the variables of a subscription, which are retained for as long as it lasts. */
const maxSubscriptionBytes = 16 * 1024;

/**
 * Refuses what is nested too deeply or could, by its page sizes, return too much; or spends what it could return from
 * a budget.
 * @throws QUERY_TOO_COMPLEX
 */
export function refuseTooComplex({ kind, cost, rootFields }: Measured, budget: AnswerBudget): void {
  if (kind === OperationTypeNode.MUTATION && rootFields > maxMutations) {
    throw tooComplex(`The operation has ${inThousands(rootFields)} mutations; at most ${maxMutations} are allowed.`);
  }
  refuseDeepOrSlow(cost);
  refuseLongPayloads(cost);
  if (kind === OperationTypeNode.SUBSCRIPTION) refuseLargeEvent(cost);
  else budget.spendCost(cost);
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

function refuseDeepOrSlow({ depth, slowFields }: Cost): void {
  if (depth > maxDepth) throw tooComplex(`The query is ${depth} levels deep; at most ${maxDepth} are allowed.`);
  if (slowFields > maxSlowFields) {
    throw tooComplex(
      `The query asks for ${inThousands(slowFields)} reports, searches, lists of documents, totals of filtered lists, pages at offsets over 10,000 and lists that are searched through, four of which count as one; at most ${maxSlowFields} are allowed.`,
    );
  }
}

function tooComplex(message: string): DomainError {
  return new DomainError('QUERY_TOO_COMPLEX', message);
}
