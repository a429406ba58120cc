import type { IncomingMessage } from 'node:http';
import { type ExecutionArgs, execute, type GraphQLSchema, subscribe } from 'graphql';
import { type GraphQLParams, type Plugin, processRegularResult } from 'graphql-yoga';
import type { Logger } from 'pino';
import type { Door } from '../access/admit.ts';
import { endsConnection, linger, readJson } from '../access/body.ts';
import type { Exchange, ServerContext } from '../access/exchange.ts';
import { type Sessions, tooManySessions } from '../access/sessions.ts';
import type { StreamTimings } from '../access/timings.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { createContext } from './context.ts';
import { presentError } from './errors.ts';
import { maxBatch } from './limits.ts';
import { createLoaders } from './loaders.ts';
import { asGraphQLError, parseWithinLimits, refusalsOf, validateDocument } from './requests.ts';

const path = '/graphql';
const allow = ['GET', 'POST', 'OPTIONS'];

/** Yoga's context of one request, with who sent it once the door has let it in. */
interface RequestContext extends ServerContext {
  caller?: Caller;
}

/** GraphQL over HTTP at `/graphql`, behind the same door as REST. */
export function useGraphQL(
  world: World,
  { door, sessions, timings, log }: { door: Door; sessions: Sessions; timings: StreamTimings; log: Logger },
): Plugin<GraphQLContext, RequestContext> {
  async function parseRequest(exchange: Exchange, caller: Caller): Promise<GraphQLParams | GraphQLParams[]> {
    const params = exchange.method === 'GET' ? paramsOfQuery(exchange.query) : await readJson(exchange.req);
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
    // The door took one unit; the others are charged together, now that it is known how many they are.
    if (params.length > 1) await exchange.chargeMore(door, caller, params.length - 1);
    return params as GraphQLParams[];
  }

  return {
    onParse({ setParseFn }) {
      setParseFn((source, options) => parseWithinLimits(source as string, options));
    },

    onValidate({ setValidationFn }) {
      setValidationFn(validateDocument);
    },

    onRequest({ serverContext, endResponse, fetchAPI }) {
      const { exchange } = serverContext;
      if (exchange === undefined || !isPreflight(exchange)) return;
      endResponse(new fetchAPI.Response(null, { status: 204, headers: { Vary: 'Origin' } }));
    },

    onResponse({ response, serverContext }) {
      const { exchange } = serverContext;
      if (exchange?.path !== path) return; // REST answers for itself
      if (!endsConnection(response.status, exchange.req)) return;
      response.headers.set('Connection', 'close');
      linger(exchange.req);
    },

    async onRequestParse({ serverContext, setRequestParser, endResponse, fetchAPI }) {
      const { exchange } = serverContext;
      if (exchange === undefined) return;
      const caller = await exchange.admit(door);
      serverContext.caller = caller;
      if (exchange.method === 'OPTIONS') {
        endResponse(new fetchAPI.Response(null, { status: 204, headers: { Allow: allow.join(', ') } }));
        return;
      }
      if (exchange.method !== 'GET' && exchange.method !== 'POST') {
        throw new DomainError('METHOD_NOT_ALLOWED', 'GraphQL knows GET and POST.', { allow });
      }
      setRequestParser(() => parseRequest(exchange, caller));
    },

    onContextBuilding({ context, extendContext }) {
      const { caller, exchange, res } = context as unknown as RequestContext;
      if (caller === undefined) throw new Error('A GraphQL operation came in by no door');
      const onSlowReader = (): void => void res.destroy();
      extendContext(createContext(world, caller, { exchange, timings, onSlowReader, isSubscription: false }));
    },

    onExecute({ args, setExecuteFn, setResultAndStopExecution }) {
      const errors = refusalsOf(args as ExecutionArgs & { schema: GraphQLSchema });
      if (errors.length > 0) setResultAndStopExecution({ errors });
      else setExecuteFn(execute);
    },

    onSubscribe({ args, setSubscribeFn, setResultAndStopExecution, extendContext }) {
      const { caller, req, res } = args.contextValue as unknown as RequestContext & { caller: Caller };
      const errors = acceptsStream(req)
        ? refusalsOf(args as ExecutionArgs & { schema: GraphQLSchema })
        : [asGraphQLError(notAsStream())];
      const closed = new AbortController();
      const release = errors.length > 0 ? undefined : sessions.open(caller, () => closed.abort());
      if (release === undefined) {
        setResultAndStopExecution({ errors: errors.length > 0 ? errors : [asGraphQLError(tooManySessions())] });
        return;
      }
      res.once('close', () => {
        release();
        closed.abort();
      });
      const loaders = createLoaders(world, caller, { cache: false });
      extendContext({ loaders, closed: closed.signal } as Partial<GraphQLContext> as GraphQLContext);
      setSubscribeFn(subscribe);
    },

    onResultProcess({ result, setResult, resultProcessor, setResultProcessor, serverContext }) {
      // What has been done is told, in JSON, also to those who say that they would rather have something else.
      if (resultProcessor === undefined) setResultProcessor(processRegularResult, 'application/json');
      const { exchange } = serverContext;
      const requestId = exchange?.requestId ?? '';
      const onUnexpected = (cause: unknown): void => log.error({ requestId, err: cause }, 'request failed');
      const present = <R extends { errors?: readonly unknown[]; data?: unknown }>(one: R): R =>
        one.errors === undefined
          ? one
          : {
              ...one,
              errors: one.errors.map((error) =>
                presentError(asGraphQLError(error), {
                  requestId,
                  requestFailed: !('data' in one) && !isSubscribing(one.errors),
                  onUnexpected,
                }),
              ),
            };
      if (Array.isArray(result)) setResult(result.map(present));
      else if (!(Symbol.asyncIterator in result)) setResult(present(result));
    },
  };
}

function acceptsStream({ headers: { accept = '*/*' } }: IncomingMessage): boolean {
  return accept.includes('text/event-stream');
}

function notAsStream(): DomainError {
  return new DomainError(
    'BAD_REQUEST',
    'A subscription is a stream: ask for it with `Accept: text/event-stream`, or over a WebSocket.',
  );
}

/** Whether errors are of the source of a subscription, which has begun to run: a field's errors, not the request's. */
function isSubscribing(errors: readonly unknown[] = []): boolean {
  return errors.some((error) => asGraphQLError(error).path !== undefined);
}

function isPreflight({ method, req: { headers } }: Exchange): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** The parameters of a GET request. */
function paramsOfQuery(query: string): GraphQLParams {
  const params = new Map<string, unknown>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (!['query', 'operationName', 'variables', 'extensions'].includes(name)) {
      throw new DomainError('BAD_REQUEST', `Unexpected parameter \`${name}\`.`);
    }
    if (params.has(name)) throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is given more than once.`);
    const isJson = name === 'variables' || name === 'extensions';
    params.set(name, value === '' ? undefined : isJson ? parseParameter(name, value) : value);
  }
  return Object.fromEntries(params);
}

function parseParameter(name: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is not JSON.`);
  }
}
