import { isDeepStrictEqual } from 'node:util';
import { type GraphQLSchema, getVariableValues } from 'graphql';
import type { Door } from '../access/admit.ts';
import { DomainError } from '../domain/errors.ts';
import type { Telemetry, World } from '../domain/ports.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Reply } from '../http/respond.ts';
import type { ConnectionTimings } from '../http/timings.ts';
import { AnswerBudget } from './answer-budget.ts';
import { type ContextOptions, OperationContext } from './context.ts';
import type { Documents, PreparedDocument } from './documents.ts';
import { failureReply, type MediaType, refusalReply } from './errors.ts';
import { KeptAnswers } from './kept-answers.ts';

/**
 * The fast path for the most common request: a single query by POST that succeeds. It uses the same admission and the
 * same resolvers as all others, without Yoga's pipeline and the executor of graphql-js.
 *
 * Everything else is left to Yoga, which processes it from the start, with the request already admitted and its body
 * read. So errors are reported in one place.
 *
 * @returns a handler whose result is undefined for a request that is left to Yoga
 */
export function answerQueries(
  world: World,
  options: {
    schema: GraphQLSchema;
    documents: Documents;
    door: Door;
    timings: ConnectionTimings;
    telemetry: Telemetry;
  },
): (exchange: Exchange) => Promise<Reply | undefined> {
  const { schema, documents, door, timings, telemetry } = options;
  const answers = new KeptAnswers();
  return async (exchange) => {
    if (exchange.method !== 'POST') return undefined;
    const mediaType = mediaTypeFor(exchange.req.headers.accept);
    if (mediaType === undefined) return undefined;
    const budget = new AnswerBudget();
    const calls: Parameters<ContextOptions['onCall']>[] = [];
    const reportCalls = (): void => {
      for (const call of calls) exchange.called(telemetry, ...call);
    };
    try {
      const caller = await exchange.admit(door);
      const asked = readParams(await exchange.readJson());
      if (asked === undefined) return undefined;
      const prepared = documents.prepare(asked.query);
      const operation = validOperation(prepared, asked.operationName);
      const question = operation?.compiled && questionOf(asked);
      if (operation?.compiled === undefined || question === undefined) return undefined;
      const headers = { 'Content-Type': `${mediaType}; charset=utf-8`, 'Cache-Control': 'no-store' };
      const state = await world.storage.state(); // now: the body may arrive long after the credential was checked
      const kept = answers.get(caller, question, state);
      if (kept !== undefined) {
        for (const name of kept.calls) exchange.called(telemetry, name, 'OK', 0);
        return { status: 200, headers, body: kept.body };
      }
      const { node, compiled, checkComplexity } = operation;
      const definitions = node.variableDefinitions ?? [];
      const { variableValues } = getVariableValues(schema, definitions, asked.variables, { maxErrors: 1 });
      if (variableValues === undefined) return undefined;
      checkComplexity(variableValues.coerced, budget);
      const context = new OperationContext(world, caller, {
        timings,
        onCall: (...call) => void calls.push(call),
        budget,
        isSubscription: false,
      });
      const data = await compiled(context, variableValues);
      reportCalls(); // the calls of a request that is left to Yoga are reported there
      const body = JSON.stringify({ data });
      answers.keep(caller, question, state, { body, calls: calls.map(([name]) => name) });
      return { status: 200, headers, body };
    } catch (error) {
      if (budget.overspent.aborted) {
        reportCalls();
        return failureReply(budget.overspent.reason as DomainError, exchange, mediaType);
      }
      // Yoga runs into the same error and reports it; except under overload, when nothing should run a second time.
      if (!(error instanceof DomainError) || error.facts.isLoggedInAggregate !== true) return undefined;
      exchange.isLoggedInAggregate = true;
      return refusalReply(error, exchange, mediaType);
    }
  };
}

function validOperation(prepared: PreparedDocument, name: string | null) {
  return prepared.errors.length === 0 ? prepared.operation(name) : undefined;
}

interface RequestParams {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly operationName: string | null;
}

/** The parameters of a single request; undefined if the body has anything else or they are invalid. */
function readParams(body: unknown): RequestParams | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined;
  const { query, variables = null, operationName = null, ...others } = body as Record<string, unknown>;
  if (typeof query !== 'string' || query === '' || Object.keys(others).length > 0) return undefined;
  if (typeof variables !== 'object' || Array.isArray(variables)) return undefined;
  if (operationName !== null && (typeof operationName !== 'string' || operationName === '')) return undefined;
  return { query, variables: (variables ?? {}) as Record<string, unknown>, operationName };
}

/**
 * The request as one text, to cache its response by. Undefined for a variable that is too large a number: JSON would
 * make it null, which is a different request.
 */
function questionOf({ query, variables, operationName }: RequestParams): string | undefined {
  const given = JSON.stringify(variables);
  if (given.includes('null') && !isDeepStrictEqual(JSON.parse(given), variables)) return undefined;
  return `${operationName ?? ''} ${given} ${query}`;
}

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
