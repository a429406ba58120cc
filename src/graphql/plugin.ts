import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ExecutionArgs, type ExecutionResult, subscribe } from 'graphql';
import { type GraphQLParams, type Plugin, processRegularResult } from 'graphql-yoga';
import type { Logger } from 'pino';
import type { Door } from '../access/admit.ts';
import type { Sessions } from '../access/sessions.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError, type ErrorCode } from '../domain/errors.ts';
import type { Telemetry, World } from '../domain/ports.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Responder } from '../http/respond.ts';
import type { ConnectionTimings } from '../http/timings.ts';
import { AnswerBudget } from './answer-budget.ts';
import type { GraphQLContext } from './builder.ts';
import { type ContextOptions, isUncounted, OperationContext } from './context.ts';
import type { Documents } from './documents.ts';
import { presentError } from './errors.ts';
import { paramsOfQuery } from './get-params.ts';
import { maxBatch } from './limits.ts';
import { Loaders } from './loaders.ts';
import { PresentedResults } from './presented-results.ts';
import { asGraphQLError, dropExtraParams, executeWithinBudget, refusalsOf } from './requests.ts';

const allow = ['GET', 'HEAD', 'POST', 'OPTIONS'];

/** Passed to Yoga with each request, and by Yoga to its hooks. */
export interface ServerContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly exchange: Exchange;
}

/** Yoga's context of one request, with its caller once it has been admitted. */
interface RequestContext extends ServerContext {
  readonly params: GraphQLParams;
  caller?: Caller;
  isBatch?: boolean;
  budget?: AnswerBudget;
}

/** The parts of a result from which its errors are presented. */
interface Result {
  readonly data?: unknown;
  readonly errors?: readonly unknown[];
}

export interface GraphQLOptions {
  readonly documents: Documents;
  readonly door: Door;
  readonly responder: Responder;
  readonly sessions: Sessions;
  readonly timings: ConnectionTimings;
  readonly log: Logger;
  readonly telemetry: Telemetry;
}

/** GraphQL over HTTP at `/graphql`, with the same admission as REST. */
export function useGraphQL(
  world: World,
  { documents, door, responder, sessions, timings, log, telemetry }: GraphQLOptions,
): Plugin<GraphQLContext, RequestContext> {
  async function parseRequest(exchange: Exchange, caller: Caller): Promise<GraphQLParams | GraphQLParams[]> {
    const body = await exchange.readJson();
    if (isRead(exchange) && body !== undefined) {
      throw new DomainError('BAD_REQUEST', 'A GET request takes its parameters from the URL and must not have a body.');
    }
    const params = isRead(exchange) ? paramsOfQuery(exchange.query) : body;
    if (params === undefined) {
      throw new DomainError('BAD_REQUEST', 'Send a JSON body with a `query`.');
    }
    if (typeof params !== 'object' || params === null)
      throw new DomainError('BAD_REQUEST', 'The body must be a JSON object.');
    if (!Array.isArray(params)) return params as GraphQLParams;
    if (params.length === 0) throw new DomainError('BAD_REQUEST', 'A batch must hold at least one operation.');
    if (params.length > maxBatch) {
      throw new DomainError('QUERY_TOO_COMPLEX', `A batch may hold at most ${maxBatch} operations.`);
    }
    // Admission charged one request; the others are charged together, now that their number is known.
    if (params.length > 1) await exchange.chargeMore(door, caller, params.length - 1);
    return params as GraphQLParams[];
  }

  /** The errors that an operation is refused with before it runs. */
  function refusals(args: Pick<ExecutionArgs, 'document' | 'operationName' | 'variableValues' | 'contextValue'>) {
    return refusalsOf(documents.of(args.document), args, (args.contextValue as GraphQLContext).budget);
  }

  /** A result with its errors in the form that clients may see. */
  function present<R extends Result>(result: R, exchange: Exchange): R {
    const { errors } = result;
    if (errors === undefined) return result;
    const { requestId, traceId } = exchange;
    const onTrouble = (error: DomainError): void => {
      log.error({ requestId, traceId, err: error.cause ?? error }, 'request failed');
      // A request that has called no operation is counted as a whole, when it is complete.
      if (exchange.operation !== undefined && isUncounted(error)) telemetry.called('graphql', undefined, error.code, 0);
    };
    const requestFailed = !('data' in result) && !areOfSubscription(errors);
    const presented = errors.map((error) =>
      presentError(asGraphQLError(error), { requestId, requestFailed, onTrouble }),
    );
    exchange.code ??= presented[0]?.extensions['code'] as ErrorCode;
    return { ...result, errors: presented };
  }

  return {
    onParams({ params }) {
      // Yoga checks the types of the others, but would report this one as an operation missing from the document.
      const name: unknown = (params as GraphQLParams | null)?.operationName ?? '';
      if (typeof name !== 'string') throw new DomainError('BAD_REQUEST', '`operationName` must be a string.');
    },

    onParse({ setParseFn }) {
      setParseFn((source) => documents.prepare(source as string).document);
    },

    onValidate({ params: { documentAST }, setResult }) {
      setResult([...documents.of(documentAST).errors]);
    },

    onRequest({ request, setRequest, serverContext, fetchAPI }) {
      // Yoga does not know HEAD, and refuses mutations by GET only.
      if (serverContext.exchange.method === 'HEAD')
        setRequest(new fetchAPI.Request(request.url, { headers: request.headers }));
    },

    async onRequestParse({ serverContext, setRequestParser, endResponse, fetchAPI }) {
      const { exchange } = serverContext;
      const caller = await exchange.admit(door);
      serverContext.caller = caller;
      serverContext.budget = new AnswerBudget();
      if (exchange.method === 'OPTIONS') {
        endResponse(new fetchAPI.Response(null, { status: 204, headers: { Allow: allow.join(', ') } }));
        return;
      }
      if (!isRead(exchange) && exchange.method !== 'POST') {
        throw new DomainError('METHOD_NOT_ALLOWED', 'GraphQL accepts GET, HEAD and POST.', { allow });
      }
      setRequestParser(async () => {
        const params = await parseRequest(exchange, caller);
        serverContext.isBatch = Array.isArray(params);
        return params;
      });
    },

    onContextBuilding({ context, extendContext }) {
      const { caller, exchange, budget, res } = context as unknown as RequestContext;
      if (caller === undefined) throw new Error('A GraphQL operation has not been admitted');
      const onSlowReader = (): void => void res.destroy();
      const onCall: ContextOptions['onCall'] = (...call) => exchange.called(telemetry, ...call);
      const options = { timings, onCall, onSlowReader, budget, isSubscription: false };
      extendContext(new OperationContext(world, caller, options).asProperties());
    },

    onExecute({ args, setExecuteFn, setResultAndStopExecution }) {
      const errors = refusals(args);
      if (errors.length > 0) setResultAndStopExecution({ errors });
      else setExecuteFn(executeWithinBudget);
    },

    onSubscribe({ args, setSubscribeFn, setResultAndStopExecution, extendContext }) {
      const request = args.contextValue as unknown as RequestContext & { caller: Caller };
      const { caller, exchange, res } = request;
      try {
        const errors = refusals(args);
        if (errors.length > 0) {
          setResultAndStopExecution({ errors });
          return;
        }
        refuseUnstreamed(request);
        dropExtraParams(request.params); // Yoga retains the parameters for as long as the stream lasts
        const closed = sessions.openDuring(res, caller);
        // Ends without a `complete` message, after which clients would not reconnect.
        closed.addEventListener('abort', () => res.destroy());
        const loaders = new Loaders(world, caller, { cache: false });
        extendContext({ loaders, closed } as Partial<GraphQLContext> as GraphQLContext);
        setSubscribeFn(async (args: ExecutionArgs) => {
          const source = await subscribe(args);
          if (!(Symbol.asyncIterator in source)) return source;
          return new PresentedResults(source, (result) => {
            responder.noteSoon(exchange);
            return present(result, exchange) as ExecutionResult;
          });
        });
      } catch (error) {
        setResultAndStopExecution({ errors: [asGraphQLError(error)] });
      }
    },

    onResultProcess({ result, setResult, resultProcessor, setResultProcessor, serverContext }) {
      // The operation has run already, so its result is sent as JSON even if the client does not accept that.
      if (resultProcessor === undefined) setResultProcessor(processRegularResult, 'application/json');
      const { exchange } = serverContext;
      if (Array.isArray(result)) setResult(result.map((one) => present(one, exchange)));
      else if (!(Symbol.asyncIterator in result)) setResult(present(result, exchange));
    },

    onResponse({ response, serverContext: { exchange } }) {
      response.headers.set('Cache-Control', 'no-store');
      if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
        response.headers.delete('Content-Encoding'); // Yoga sets `none`, which is not a content coding
        response.headers.set('X-Accel-Buffering', 'no'); // proxies must not buffer events
      }
      responder.complete(exchange, response.status, (name, value) => response.headers.append(name, value));
      responder.noteSoon(exchange);
    },
  };
}

/** @throws METHOD_NOT_ALLOWED or BAD_REQUEST for a subscription whose response could not be a stream */
function refuseUnstreamed({ req, exchange, isBatch }: RequestContext): void {
  if (exchange.method === 'HEAD') {
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

/** Whether errors are those of a subscription's field, which had begun to run, rather than of the whole request. */
function areOfSubscription(errors: readonly unknown[] = []): boolean {
  return errors.some((error) => asGraphQLError(error).path !== undefined);
}

/** Whether a request is a GET, or a HEAD, which is a GET whose response Node sends without its body. */
function isRead({ method }: Exchange): boolean {
  return method === 'GET' || method === 'HEAD';
}
