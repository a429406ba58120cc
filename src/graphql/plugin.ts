import {
  type DocumentNode,
  type ExecutionArgs,
  execute,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  parse,
  type ValidationRule,
  validate,
} from 'graphql';
import { type GraphQLParams, type Plugin, processRegularResult } from 'graphql-yoga';
import type { Logger } from 'pino';
import type { Door } from '../access/admit.ts';
import { endsConnection, linger, readJson } from '../access/body.ts';
import type { Exchange, ServerContext } from '../access/exchange.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError, validationFailed } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { presentError } from './errors.ts';
import { pointingErrors, variableFaults } from './input-faults.ts';
import { maxBatch, maxTokens, refuseTooComplex } from './limits.ts';
import { createLoaders } from './loaders.ts';

const path = '/graphql';
const allow = ['GET', 'POST', 'OPTIONS'];
/** graphql-js quotes the document in each, so that they must be fewer than its default of 100. */
const maxValidationErrors = 50;

/** Yoga's context of one request, with who sent it once the door has let it in. */
interface RequestContext extends ServerContext {
  caller?: Caller;
}

/** GraphQL over HTTP at `/graphql`, behind the same door as REST. */
export function useGraphQL(
  world: World,
  { door, log }: { door: Door; log: Logger },
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
      setValidationFn((schema: GraphQLSchema, document: DocumentNode, rules?: readonly ValidationRule[]) =>
        pointingErrors(document, validate(schema, document, rules, { maxErrors: maxValidationErrors })),
      );
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
      const { caller, exchange } = context as unknown as RequestContext;
      if (caller === undefined) throw new Error('A GraphQL operation came in by no door');
      extendContext({
        caller,
        exchange,
        loaders: createLoaders(world, caller),
        call(operation, input) {
          if (exchange !== undefined) exchange.operation = operation.name;
          return operation.execute(world, caller, input);
        },
      });
    },

    onExecute({ args, setExecuteFn, setResultAndStopExecution }) {
      const errors = refusalsOf(args as ExecutionArgs & { schema: GraphQLSchema });
      if (errors.length > 0) setResultAndStopExecution({ errors });
      else setExecuteFn(execute);
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
                presentError(asGraphQLError(error), { requestId, requestFailed: !('data' in one), onUnexpected }),
              ),
            };
      if (Array.isArray(result)) setResult(result.map(present));
      else if (!(Symbol.asyncIterator in result)) setResult(present(result));
    },
  };
}

function asGraphQLError(error: unknown): GraphQLError {
  if (error instanceof GraphQLError) return error;
  return new GraphQLError('', { originalError: error instanceof Error ? error : new Error(String(error)) });
}

function parseWithinLimits(source: string, options: object | undefined) {
  try {
    return parse(source, { ...options, maxTokens });
  } catch (error) {
    if (error instanceof GraphQLError && error.message.includes('Document contains more than')) {
      throw new GraphQLError(error.message, {
        originalError: new DomainError('QUERY_TOO_COMPLEX', `A document may have at most ${maxTokens} tokens.`),
      });
    }
    throw error;
  }
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

/** What is wrong with an operation before it runs: its variables, then its size. */
function refusalsOf({
  schema,
  document,
  operationName,
  variableValues,
}: ExecutionArgs & { schema: GraphQLSchema }): GraphQLError[] {
  const operation = getOperationAST(document, operationName);
  if (operation == null) return []; // graphql-js says what is wrong
  const values = variableValues ?? {};
  // Each error of graphql-js quotes the whole value: one is enough to know that there are some.
  const { variableValues: coerced, errors } = getVariableValues(schema, operation.variableDefinitions ?? [], values, {
    maxErrors: 1,
  });
  try {
    if (errors !== undefined) throw validationFailed(variableFaults(schema, document, operation, values));
    refuseTooComplex(schema, document, operation, coerced.coerced);
    return [];
  } catch (error) {
    const nodes = errors?.[0]?.nodes;
    return [new GraphQLError('', { ...(nodes && { nodes }), originalError: error as Error })];
  }
}
