import {
  createSourceEventStream,
  type ExecutionArgs,
  type ExecutionResult,
  type GraphQLError,
  validateSubscriptionArgs,
} from 'graphql';
import { type GraphQLParams, type Plugin, processRegularResult } from 'graphql-yoga';
import type { Admission } from '../access/admission.ts';
import type { Sessions } from '../access/sessions.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports, Telemetry } from '../domain/ports.ts';
import { pageReply } from '../http/page.ts';
import { answered, type ServerContext } from '../http/plugin.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { RequestLog } from '../http/request-log.ts';
import type { Reply, Responder } from '../http/respond.ts';
import type { ConnectionTimings } from '../http/timings.ts';
import { wantsPage, withoutWeights } from './accept.ts';
import { AnswerBudget, maxEventBytes } from './answer-budget.ts';
import type { GraphQLContext } from './builder.ts';
import { type ContextOptions, OperationContext } from './context.ts';
import { withCost } from './cost.ts';
import { type Documents, PreparedDocument } from './documents.ts';
import { resultReply } from './errors.ts';
import { paramsOfQuery } from './get-params.ts';
import { graphiQLPage } from './graphiql.ts';
import { maxAnsweredBatch, maxBatch } from './limits.ts';
import { Loaders } from './loaders.ts';
import { presentResult } from './present.ts';
import { asGraphQLError, dropExtraParams, enterRoom, judge, run, type Verdict } from './requests.ts';
import { answerSingleOperations } from './single-operation.ts';
import { PresentedResults } from './subscriptions.ts';

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
  /** To be called when the answer has been written. */
  leaveRoom?: () => void;
  /** By the parameters of each. */
  operations?: ReadonlyMap<unknown, JudgedOperation>;
}

/** An operation of a request. */
interface JudgedOperation {
  /** Its document, or what is wrong with it. */
  readonly prepared: unknown;
  readonly verdict: Verdict;
}

export interface GraphQLOptions {
  readonly documents: Documents;
  readonly admission: Admission;
  readonly responder: Responder;
  readonly sessions: Sessions;
  readonly timings: ConnectionTimings;
  readonly requestLog: RequestLog;
  readonly telemetry: Telemetry;
}

/**
 * GraphQL over HTTP at `/graphql`, with the same admission as REST. The most common requests are answered in `onRequest`;
 * the other hooks are for batches, GET, subscriptions and whatever else Yoga has to look at.
 */
export function useGraphQL(
  ports: Ports,
  { documents, admission, responder, sessions, timings, requestLog, telemetry }: GraphQLOptions,
): Plugin<GraphQLContext, YogaContext> {
  const answerSingle = answerSingleOperations(ports, { documents, admission, timings, requestLog, telemetry });

  async function parseRequest(http: RequestContext): Promise<GraphQLParams | GraphQLParams[]> {
    const body = await http.readJson(admission);
    if (http.isRead && body !== undefined) {
      throw new DomainError('BAD_REQUEST', 'A GET request takes its parameters from the URL and must not have a body.');
    }
    const params = http.isRead ? paramsOfQuery(http.query) : body;
    if (params === undefined) {
      throw new DomainError('BAD_REQUEST', 'Send a JSON body with a `query`.');
    }
    if (typeof params !== 'object' || params === null)
      throw new DomainError('BAD_REQUEST', 'The body must be a JSON object.');
    if (!Array.isArray(params)) return params as GraphQLParams;
    if (params.length === 0) throw new DomainError('BAD_REQUEST', 'A batch must hold at least one operation.');
    if (params.length > maxAnsweredBatch) throw tooLargeBatch();
    // Only their number still counts: clients that batch want an answer for each, and take the first for all otherwise.
    return params.length > maxBatch ? params.map(() => ({ query: '' })) : (params as GraphQLParams[]);
  }

  /**
   * Prepares and judges the operations of a request one after the other. They are charged for all together: one unit was
   * charged on admission. So what is refused here has neither run nor cost anything.
   */
  async function judgeOperations(asked: GraphQLParams | GraphQLParams[], http: RequestContext, budget: AnswerBudget) {
    const operations = new Map<unknown, JudgedOperation>();
    if (Array.isArray(asked) && asked.length > maxBatch) {
      const refused = { prepared: tooLargeBatch(), verdict: { errors: [], units: 1 } };
      for (const params of asked) operations.set(params, refused);
      return { operations, units: 1 };
    }
    let units = 0;
    for (const params of Array.isArray(asked) ? asked : [asked]) {
      const operation = await judgeOperation(params, http, budget);
      if (operation !== undefined) operations.set(params, operation);
      units += operation?.verdict.units ?? 1;
    }
    return { operations, units };
  }

  /** Undefined for an operation that Yoga refuses. */
  async function judgeOperation(
    params: GraphQLParams | null,
    http: RequestContext,
    budget: AnswerBudget,
  ): Promise<JudgedOperation | undefined> {
    const { query, operationName, variables } = params ?? {};
    if (typeof query !== 'string' || typeof (operationName ?? '') !== 'string') return undefined;
    if (typeof (variables ?? {}) !== 'object' || Array.isArray(variables)) return undefined;
    try {
      const prepared = await documents.prepare(callerOf(http).account.id, query, http);
      const args = { operationName: operationName ?? null, variableValues: variables ?? null };
      const verdict = judge(prepared, args, budget);
      return { prepared, verdict: http.isRead ? { ...verdict, units: 1 } : verdict }; // no mutation runs by GET
    } catch (fault) {
      return { prepared: fault, verdict: { errors: [], units: 1 } };
    }
  }

  const present = <R extends ExecutionResult>(result: R, http: RequestContext): R =>
    presentResult(result, http, { requestLog, telemetry });

  /** Undefined for what the other hooks have to answer. */
  async function replyTo(http: RequestContext): Promise<Reply | undefined> {
    const { headers } = http.req;
    if (http.fault === undefined && wantsPage(http.req)) return await pageOrError(http);
    if (headers.accept !== undefined) headers.accept = withoutWeights(headers.accept);
    return await answerSingle(http);
  }

  async function pageOrError(http: RequestContext): Promise<Reply> {
    try {
      return pageReply(await graphiQLPage(http.req.headers['accept-encoding']), http);
    } catch (error) {
      return resultReply(present({ errors: [asGraphQLError(error)] }, http), 'application/graphql-response+json');
    }
  }

  return {
    onParams({ params }) {
      // Yoga checks the types of the others, but would report this one as an operation missing from the document.
      const name: unknown = (params as GraphQLParams | null)?.operationName ?? '';
      if (typeof name !== 'string') throw new DomainError('BAD_REQUEST', '`operationName` must be a string.');
    },

    onParse({ context, setParseFn }) {
      setParseFn(() => {
        const { operations, params } = context as unknown as YogaContext;
        const prepared = operations?.get(params)?.prepared;
        if (prepared instanceof PreparedDocument) return prepared.document;
        throw prepared;
      });
    },

    onValidate({ params: { documentAST }, setResult }) {
      setResult([...documents.of(documentAST).errors]);
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
        const params = await parseRequest(http);
        serverContext.isBatch = Array.isArray(params);
        const { operations, units } = await judgeOperations(params, http, budget);
        serverContext.operations = operations;
        serverContext.leaveRoom = await enterRoom(callerOf(http).account.id, budget);
        http.res.once('close', serverContext.leaveRoom);
        await admission.chargeFor(units, http);
        return params;
      });
    },

    onContextBuilding({ context, extendContext }) {
      const { http, budget, res } = context as unknown as YogaContext;
      const onSlowReader = (): void => void res.destroy();
      const onCall: ContextOptions['onCall'] = (...call) => http.called(telemetry, ...call);
      const options = { timings, onCall, onSlowReader, budget };
      extendContext(new OperationContext(ports, callerOf(http), options).asProperties());
    },

    onExecute({ args, setExecuteFn, setResultAndStopExecution }) {
      const request = args.contextValue as unknown as YogaContext;
      const errors = refusalsOf(request);
      if (errors.length > 0) setResultAndStopExecution(withCostIfAsked({ errors }, request));
      else {
        setExecuteFn(async (args: ExecutionArgs) =>
          withCostIfAsked(await run(documents.of(args.document), args), request),
        );
      }
    },

    onSubscribe({ args, setSubscribeFn, setResultAndStopExecution, extendContext }) {
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
        dropExtraParams(request.params); // Yoga retains the parameters for as long as the stream lasts
        const closed = sessions.openDuring(res, caller);
        if (!closed.aborted) {
          closed.addEventListener('abort', documents.held.hold(caller.account.id, documents.of(args.document)));
        }
        // Ends without a `complete` message, after which clients would not reconnect.
        closed.addEventListener('abort', () => res.destroy());
        extendContext({ closed } as Partial<GraphQLContext> as GraphQLContext);
        setSubscribeFn(async (args: ExecutionArgs) => {
          const validated = validateSubscriptionArgs(args);
          if (!('operation' in validated)) return { errors: validated };
          const events = await createSourceEventStream(validated);
          if (!(Symbol.asyncIterator in events)) return events;
          const prepared = documents.of(args.document);
          return new PresentedResults(
            events[Symbol.asyncIterator](),
            async (rootValue) => {
              const budget = new AnswerBudget(maxEventBytes);
              const loaders = new Loaders(ports, caller, budget);
              const contextValue = { ...(args.contextValue as GraphQLContext), budget, loaders };
              return await run(prepared, { ...args, contextValue, rootValue });
            },
            (result) => {
              responder.noteSoon(http);
              return present(result, http);
            },
          );
        });
      } catch (error) {
        setResultAndStopExecution({ errors: [asGraphQLError(error)] });
      }
    },

    onResultProcess({ result, setResult, resultProcessor, setResultProcessor, serverContext }) {
      // The operation has run already, so its result is sent as JSON even if the client does not accept that.
      if (resultProcessor === undefined) setResultProcessor(processRegularResult, 'application/json');
      const { http } = serverContext;
      if (Array.isArray(result)) setResult(result.map((one) => present(one, http)));
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

/** @throws METHOD_NOT_ALLOWED or BAD_REQUEST for a subscription whose response could not be a stream */
function refuseUnstreamed({ req, http, isBatch }: YogaContext): void {
  if (http.method === 'HEAD') {
    const allow = ['GET', 'POST', 'OPTIONS'];
    throw new DomainError('METHOD_NOT_ALLOWED', 'A subscription is a stream, which has no HEAD.', { allow });
  }
  if (isBatch) throw new DomainError('BAD_REQUEST', 'A subscription cannot be part of a batch.');
  if (req.headers.accept?.toLowerCase().includes('text/event-stream')) return;
  throw new DomainError(
    'BAD_REQUEST',
    'A subscription is a stream: ask for it with `Accept: text/event-stream`, or over a WebSocket.',
  );
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
