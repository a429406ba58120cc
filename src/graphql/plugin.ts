import type { ExecutionArgs, ExecutionResult, GraphQLError } from 'graphql';
import { type GraphQLParams, type Plugin, processRegularResult } from 'graphql-yoga';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import { pageReply } from '../http/page.ts';
import { answered, type ServerContext } from '../http/plugin.ts';
import { PullWatch } from '../http/pull-watch.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Reply } from '../http/respond.ts';
import { acceptsStream, wantsPage, withoutWeights } from './accept.ts';
import { AnswerBudget } from './answer-budget.ts';
import { BatchTurns } from './batch-turns.ts';
import { OperationContext } from './context.ts';
import { withCost } from './cost.ts';
import type { PreparedDocument } from './documents.ts';
import { type Envelope, envelopeOf } from './envelope.ts';
import { resultReply } from './errors.ts';
import { explorerPage, hasExplorer } from './explorer-page.ts';
import { paramsOfQuery } from './get-params.ts';
import { maxAnsweredBatch, maxBatch } from './limits.ts';
import type { GraphQLParts } from './parts.ts';
import { presentResult } from './present.ts';
import { asGraphQLError, dropExtraParams, enterRoom, judge, ready, run, type Verdict } from './requests.ts';
import { answerSingleOperations } from './single-operation.ts';
import { EventIterator, eventsOf, PresentedResults } from './subscriptions.ts';

const allow = ['GET', 'HEAD', 'POST', 'OPTIONS'];

/** How graphql-sse opens and ends the one stream that it would use for all subscriptions. */
const asksForOneStream = ['PUT', 'DELETE'];
const instead =
  'Each subscription is a request of its own here: give `singleConnection: false` to the client graphql-sse.';

/** Yoga's context of one request. */
interface YogaContext extends ServerContext {
  readonly params: GraphQLParams;
  isBatch?: boolean;
  budget?: AnswerBudget;
  /** Of a batch, while its operations run. */
  turns?: BatchTurns;
  /** To be called when the answer has been written. */
  leaveRoom?: () => void;
  /** By the parameters of each. */
  operations?: ReadonlyMap<unknown, JudgedOperation>;
}

/** An operation of a request. */
interface JudgedOperation {
  /** Its document; undefined if something is wrong with it or with its envelope. */
  readonly prepared?: PreparedDocument;
  /** What is wrong. */
  readonly fault?: unknown;
  readonly verdict: Verdict;
}

/**
 * GraphQL over HTTP at `/graphql`, with the same admission as REST. The most common requests are answered in `onRequest`;
 * the other hooks are for batches, GET, subscriptions and whatever else Yoga has to look at.
 */
export function useGraphQL(ports: Ports, parts: GraphQLParts): Plugin<object, YogaContext> {
  const { documents, named, admission, responder, sessions, timings, requestLog, telemetry } = parts;
  const answerSingle = answerSingleOperations(ports, parts);

  /** The parameters of a request as they were sent, or a list of them. */
  async function parseRequest(http: RequestContext): Promise<unknown> {
    const body = await http.readJson(admission);
    if (http.isRead && body !== undefined) {
      throw new DomainError('BAD_REQUEST', 'A GET request takes its parameters from the URL and must not have a body.');
    }
    if (http.isRead) return paramsOfQuery(http.query, http.memory);
    if (!Array.isArray(body)) return body;
    if (body.length === 0) throw new DomainError('BAD_REQUEST', 'A batch must hold at least one operation.');
    if (body.length > maxAnsweredBatch) throw tooLargeBatch();
    // Only their number still counts: clients that batch want an answer for each, and take the first for all otherwise.
    return body.length > maxBatch ? body.map(() => ({ query: '' })) : body;
  }

  /**
   * Prepares and judges the operations of a request one after the other. They are charged for all together: one unit was
   * charged on admission. So what is refused here has neither run nor cost anything.
   * @returns the operations by their parameters in the form that Yoga expects
   */
  async function judgeOperations(
    asked: readonly unknown[],
    http: RequestContext,
    budget: AnswerBudget,
  ): Promise<{ operations: Map<GraphQLParams, JudgedOperation>; units: number }> {
    const operations = new Map<GraphQLParams, JudgedOperation>();
    if (asked.length > maxBatch) {
      const refused = { fault: tooLargeBatch(), verdict: { errors: [], units: 1 } };
      for (const params of asked) operations.set(params as GraphQLParams, refused);
      return { operations, units: 1 };
    }
    let units = 0;
    const turns = new BatchTurns(callerOf(http).account.id);
    for (const params of asked) {
      await turns.next();
      const [clean, operation] = await judgeOperation(params, http, budget);
      operations.set(clean, operation);
      units += operation.verdict.units;
    }
    return { operations, units };
  }

  async function judgeOperation(
    params: unknown,
    http: RequestContext,
    budget: AnswerBudget,
  ): Promise<[GraphQLParams, JudgedOperation]> {
    try {
      const envelope = envelopeOf(params);
      const prepared = await named.prepare(callerOf(http), envelope, http);
      const verdict = judge(prepared, envelope, budget);
      const units = http.isRead ? 1 : verdict.units; // no mutation runs by GET
      return [cleaned(params as object, prepared, envelope), { prepared, verdict: { ...verdict, units } }];
    } catch (fault) {
      return [{ query: '' }, { fault, verdict: { errors: [], units: 1 } }];
    }
  }

  const present = <R extends ExecutionResult>(result: R, http: RequestContext): R =>
    presentResult(result, http, { requestLog, telemetry });

  /**
   * The results of a batch, written one by one: each may have a hundred errors, which takes milliseconds. Yoga would write
   * them all at once.
   */
  async function written(results: readonly ExecutionResult[], http: RequestContext) {
    const all: { stringify: () => string }[] = [];
    const turns = new BatchTurns(callerOf(http).account.id);
    for (const result of results) {
      await turns.next();
      const text = String(resultReply(present(result, http), 'application/json').body);
      all.push({ stringify: () => text });
    }
    return all;
  }

  /** @param closed aborts when the connection of a subscription closes */
  function contextOf({ http, budget }: YogaContext, closed?: AbortSignal): OperationContext {
    return new OperationContext(ports, callerOf(http), {
      onCall: (...call) => http.called(telemetry, ...call),
      closed,
      budget,
    });
  }

  /** Undefined for what the other hooks have to answer. */
  async function replyTo(http: RequestContext): Promise<Reply | undefined> {
    const { headers } = http.req;
    if (http.fault === undefined && wantsPage(http.req) && hasExplorer()) return pageOrError(http);
    if (headers.accept !== undefined) headers.accept = withoutWeights(headers.accept);
    return await answerSingle(http);
  }

  function pageOrError(http: RequestContext): Reply {
    try {
      return pageReply(explorerPage(), http);
    } catch (error) {
      return resultReply(present({ errors: [asGraphQLError(error)] }, http), 'application/graphql-response+json');
    }
  }

  return {
    onParams({ params, context }) {
      const fault = context.operations?.get(params)?.fault;
      if (fault !== undefined) throw fault;
    },

    onParse({ context, setParseFn }) {
      setParseFn(() => preparedOf(context as unknown as YogaContext).document);
    },

    onValidate({ context, setResult }) {
      setResult([...preparedOf(context as unknown as YogaContext).errors]);
    },

    onRequest({ serverContext: { http }, endResponse }) {
      return replyTo(http).then(async (reply) => {
        if (reply === undefined) return;
        await responder.send(http, reply);
        endResponse(answered);
      });
    },

    async onRequestParse({ serverContext, setRequestParser, endResponse, fetchAPI }) {
      const { http } = serverContext;
      if (http.fault !== undefined) throw http.fault;
      if (http.charged === undefined) await admission.admit(http);
      if (http.method === 'OPTIONS') {
        endResponse(new fetchAPI.Response(null, { status: 204, headers: { Allow: allow.join(', ') } }));
        return;
      }
      if (!http.isRead && http.method !== 'POST') {
        const detail = `GraphQL accepts GET, HEAD and POST.${asksForOneStream.includes(http.method) ? ` ${instead}` : ''}`;
        throw new DomainError('METHOD_NOT_ALLOWED', detail, { allow });
      }
      const budget = new AnswerBudget();
      serverContext.budget = budget;
      setRequestParser(async () => {
        const asked = await parseRequest(http);
        const isBatch = Array.isArray(asked);
        const { operations, units } = await judgeOperations(isBatch ? asked : [asked], http, budget);
        serverContext.operations = operations;
        serverContext.isBatch = isBatch;
        serverContext.leaveRoom = await enterRoom(callerOf(http), budget);
        http.res.once('close', serverContext.leaveRoom);
        await admission.chargeFor(units, http);
        if (isBatch) serverContext.turns = new BatchTurns(callerOf(http).account.id);
        const params = [...operations.keys()];
        return isBatch ? params : (params[0] as GraphQLParams);
      });
    },

    onExecute({ args, setExecuteFn, setResultAndStopExecution }) {
      const request = args.contextValue as unknown as YogaContext;
      const errors = refusalsOf(request);
      if (errors.length > 0) setResultAndStopExecution(withCostIfAsked({ errors }, request));
      else {
        setExecuteFn(async (args: ExecutionArgs) => {
          // All of a batch begin at once, and each may be compiled first.
          const turn = request.turns?.next();
          if (turn !== undefined) {
            try {
              await turn;
              await admission.refuseLate(request.http);
            } catch (error) {
              return { errors: [asGraphQLError(error)] };
            }
          }
          const result = await run(preparedOf(request), { ...args, contextValue: contextOf(request) });
          return withCostIfAsked(result, request);
        });
      }
    },

    onSubscribe({ args, setSubscribeFn, setResultAndStopExecution }) {
      const request = args.contextValue as unknown as YogaContext;
      const { http, res } = request;
      const caller = callerOf(http);
      try {
        const errors = refusalsOf(request);
        if (errors.length > 0) {
          setResultAndStopExecution(withCostIfAsked({ errors }, request));
          return;
        }
        refuseUnstreamed(request);
        const prepared = preparedOf(request);
        const { compiled, run: answer } = ready(prepared, args);
        const closed = sessions.openDuring(res, caller);
        if (!closed.aborted) {
          const hold = documents.hold(caller, { prepared, compiled, variables: args.variableValues ?? {} });
          closed.addEventListener('abort', () => hold.release());
        }
        // Ends without a `complete` message, after which clients would not reconnect.
        closed.addEventListener('abort', () => res.destroy());
        const contextValue = contextOf(request, closed);
        setSubscribeFn(async (args: ExecutionArgs) => {
          const events = await eventsOf({ ...args, contextValue });
          if (!(events instanceof EventIterator)) return events;
          return new PresentedResults(events, {
            watch: new PullWatch(timings.slowReaderMs, () => void res.destroy()),
            answer: (event) => answer(contextValue.forEvent(), event),
            present: (result) => {
              responder.noteSoon(http);
              return present(result, http);
            },
          });
        });
      } catch (error) {
        setResultAndStopExecution({ errors: [asGraphQLError(error)] });
      }
    },

    async onResultProcess({ result, setResult, resultProcessor, setResultProcessor, serverContext }) {
      // The operation has run already, so its result is sent as JSON even if the client does not accept that.
      if (resultProcessor === undefined) setResultProcessor(processRegularResult, 'application/json');
      const { http } = serverContext;
      if (Array.isArray(result)) setResult(await written(result, http));
      else if (!(Symbol.asyncIterator in result)) setResult(present(result, http));
    },

    onResponse({ response, serverContext: { http, leaveRoom } }) {
      if (response === answered) return;
      leaveRoom?.();
      response.headers.set('Cache-Control', 'no-store');
      if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
        response.headers.delete('Content-Encoding'); // Yoga sets `none`, which is not a content coding
        response.headers.set('X-Accel-Buffering', 'no'); // proxies must not buffer events
      }
      responder.complete(http, response.status, (name, value) => response.headers.append(name, value));
      responder.noteSoon(http);
    },
  };
}

/** It is 400 for every client: what would be read of another status is a list of results. */
function tooLargeBatch(): DomainError {
  return new DomainError('QUERY_TOO_COMPLEX', `A batch may hold at most ${maxBatch} operations.`, { status: 400 });
}

/** The parameters of an operation as Yoga expects them: those that were sent, without what is not needed. */
function cleaned(params: object, prepared: PreparedDocument, envelope: Envelope): GraphQLParams {
  dropExtraParams(params, prepared, envelope);
  const { source: query } = prepared;
  const { operationName, variableValues: variables } = envelope;
  return Object.assign(params, { query, variables, operationName } as GraphQLParams);
}

/** @throws METHOD_NOT_ALLOWED or BAD_REQUEST for a subscription whose response could not be a stream */
function refuseUnstreamed({ req, http, isBatch }: YogaContext): void {
  if (http.method === 'HEAD') {
    const allow = ['GET', 'POST', 'OPTIONS'];
    throw new DomainError('METHOD_NOT_ALLOWED', 'A subscription is a stream, which has no HEAD.', { allow });
  }
  if (isBatch) throw new DomainError('BAD_REQUEST', 'A subscription cannot be part of a batch.');
  if (acceptsStream(req.headers.accept)) return;
  throw new DomainError(
    'BAD_REQUEST',
    'A subscription is a stream: ask for it with `Accept: text/event-stream`, or over a WebSocket.',
  );
}

/** The document of a context's operation, which `onParams` has let through. */
function preparedOf({ operations, params }: YogaContext): PreparedDocument {
  const prepared = operations?.get(params)?.prepared;
  if (prepared === undefined) throw new Error('The document was not prepared');
  return prepared;
}

/** The errors that the operation of a context is refused with. */
function refusalsOf({ operations, params }: YogaContext): GraphQLError[] {
  return [...(operations?.get(params)?.verdict.errors ?? [])];
}

/** The result of the operation of a context, with its cost for a client that wants to know it. */
function withCostIfAsked<R extends ExecutionResult>(result: R, { http, operations, params, budget }: YogaContext): R {
  const verdict = operations?.get(params)?.verdict;
  if (!http.wantsCost || verdict === undefined || budget === undefined) return result;
  return withCost(result, verdict, budget);
}

/** The caller of a request that has been admitted. */
function callerOf({ caller }: RequestContext): Caller {
  if (caller === undefined) throw new Error('A GraphQL operation has not been admitted');
  return caller;
}
