import {
  type ExecutionArgs,
  execute,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  isInputType,
  type OperationDefinitionNode,
  parse,
  typeFromAST,
  validateInputValue,
} from 'graphql';
import type { GraphQLParams, Plugin } from 'graphql-yoga';
import type { Logger } from 'pino';
import type { Door } from '../access/admit.ts';
import { readJson } from '../access/body.ts';
import type { Exchange, ServerContext } from '../access/exchange.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError, type Fault, pointer } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { presentError } from './errors.ts';
import { maxBatch, maxTokens, refuseTooComplex } from './limits.ts';
import { createLoaders } from './loaders.ts';

const allow = ['GET', 'POST', 'OPTIONS'];

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

    async onRequest({ serverContext, endResponse, fetchAPI }) {
      const { exchange } = serverContext;
      if (exchange?.method !== 'OPTIONS') return;
      const preflight = exchange.req.headers['access-control-request-method'] !== undefined;
      endResponse(
        new fetchAPI.Response(null, {
          status: 204,
          headers: preflight ? { Vary: 'Origin' } : { Allow: allow.join(', ') },
        }),
      );
    },

    async onRequestParse({ serverContext, setRequestParser }) {
      const { exchange } = serverContext;
      if (exchange === undefined) return;
      const caller = await exchange.admit(door);
      serverContext.caller = caller;
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

    onResultProcess({ result, setResult, serverContext }) {
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

/** The parameters of a GET request. */
function paramsOfQuery(query: string): GraphQLParams {
  const parameters = new URLSearchParams(query);
  const params: Record<string, unknown> = {};
  for (const name of ['query', 'operationName', 'variables', 'extensions']) {
    const value = parameters.get(name);
    if (value === null || value === '') continue;
    params[name] = name === 'variables' || name === 'extensions' ? parseParameter(name, value) : value;
  }
  return params as GraphQLParams;
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
  const coerced = getVariableValues(schema, operation.variableDefinitions ?? [], variableValues ?? {});
  if (coerced.errors !== undefined) return [variablesError(schema, operation, variableValues ?? {}, coerced.errors)];
  try {
    refuseTooComplex(schema, document, operation, coerced.variableValues.coerced);
    return [];
  } catch (error) {
    return [new GraphQLError('', { originalError: error as Error })];
  }
}

/**
 * One VALIDATION_FAILED for all the faults of the variables, each pointing into the operation's input
 * as it does on REST: the name of the variable itself is the client's own and left out.
 */
function variablesError(
  schema: GraphQLSchema,
  operation: OperationDefinitionNode,
  values: Readonly<Record<string, unknown>>,
  errors: readonly GraphQLError[],
): GraphQLError {
  const faults: Fault[] = [];
  for (const definition of operation.variableDefinitions ?? []) {
    const name = definition.variable.name.value;
    const type = typeFromAST(schema, definition.type);
    if (!isInputType(type) || (!Object.hasOwn(values, name) && definition.defaultValue !== undefined)) continue;
    validateInputValue(values[name], type, (error, path) => {
      faults.push({ pointer: pointer(path.length === 0 ? [name] : path), detail: inSentence(error.message) });
    });
  }
  const message = errors.map((error) => error.message).join(' ');
  const [first] = errors;
  return new GraphQLError(message, {
    ...(first?.nodes === undefined ? {} : { nodes: first.nodes }),
    originalError: new DomainError('VALIDATION_FAILED', message, { faults }),
  });
}

function inSentence(message: string): string {
  return message.replace(/\.$/, '');
}
