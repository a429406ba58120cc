import { type ExecutionResult, getOperationAST } from 'graphql';
import type { Ports } from '../domain/ports.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Reply } from '../http/respond.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { AnswerBudget } from './answer-budget.ts';
import { OperationContext } from './context.ts';
import { withCost } from './cost.ts';
import { envelopeOf } from './envelope.ts';
import { type MediaType, resultReply } from './errors.ts';
import type { GraphQLParts } from './parts.ts';
import { presentResult } from './present.ts';
import { asGraphQLError, dropExtraParams, inRoom, judge, run } from './requests.ts';

/**
 * Answers the most common request, one query or mutation by POST, with the functions that Yoga's hooks call for all
 * others: its own steps would take as long as everything else.
 *
 * @returns a handler whose result is undefined for a request that Yoga has to answer; it may have been admitted by then,
 *   which `RequestContext` knows
 */
export function answerSingleOperations(
  ports: Ports,
  { named, admission, telemetry, requestLog }: GraphQLParts,
): (http: RequestContext) => Promise<Reply | undefined> {
  /** Undefined for a batch, a subscription, and a document without the operation to run. */
  async function replyTo(
    http: RequestContext,
    replyWith: (result: ExecutionResult) => Reply,
  ): Promise<Reply | undefined> {
    if (http.fault !== undefined) throw http.fault;
    const caller = await admission.admit(http);
    const body = await http.readJson(admission);
    if (Array.isArray(body)) return undefined;
    const asked = envelopeOf(body);
    const prepared = await named.prepare(caller, asked, http);
    const operation = getOperationAST(prepared.document, asked.operationName);
    if (operation == null || operation.operation === 'subscription') return undefined;
    if (prepared.errors.length > 0) return replyWith({ errors: prepared.errors });
    const budget = new AnswerBudget();
    const verdict = judge(prepared, asked, budget);
    const { errors, units } = verdict;
    const told = <R extends ExecutionResult>(result: R): R =>
      http.wantsCost ? withCost(result, verdict, budget) : result;
    if (errors.length > 0) return replyWith(told({ errors }));
    dropExtraParams(body as object, prepared, asked);
    return await inRoom(caller, budget, async () => {
      await admission.chargeFor(units, http);
      const contextValue = new OperationContext(ports, caller, {
        onCall: (...call) => http.called(telemetry, ...call),
        budget,
      });
      const result = await run(prepared, { ...asked, contextValue });
      if (budget.bytes > largeBytes) await scheduler.step(caller.account.id); // writing it takes milliseconds
      return replyWith(told(result));
    });
  }

  return async (http) => {
    if (http.method !== 'POST') return undefined;
    const mediaType = mediaTypeFor(http.req.headers.accept);
    if (mediaType === undefined) return undefined;
    const replyWith = (result: ExecutionResult): Reply =>
      resultReply(presentResult(result, http, { requestLog, telemetry }), mediaType);
    try {
      return await replyTo(http, replyWith);
    } catch (error) {
      return replyWith({ errors: [asGraphQLError(error)] });
    }
  };
}

/** An answer longer than this takes so long to write that it waits for its account's turn. */
const largeBytes = 1024 * 1024;

/** The media type of the result: the first supported one listed. Undefined if the header needs a closer look. */
function mediaTypeFor(accept: string | undefined): MediaType | undefined {
  if (accept === undefined) return 'application/json';
  for (const entry of accept.split(',')) {
    const [type, ...parameters] = entry.split(';');
    if (parameters.some((parameter) => parameter.includes('charset'))) return undefined;
    switch (type?.trim().toLowerCase()) {
      case 'application/json':
      case 'application/*':
      case '*/*':
        return 'application/json';
      case 'application/graphql-response+json':
        return 'application/graphql-response+json';
    }
  }
  return undefined;
}
