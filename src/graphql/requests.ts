import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  Lexer,
  parse,
  Source,
  TokenKind,
  validate,
} from 'graphql';
import type { Holder } from '../access/memory-owner.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { DomainError, validationFailed } from '../domain/errors.ts';
import { enterAnswerRoom } from '../http/answer-room.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { type AnswerBudget, inThousands } from './answer-budget.ts';
import type { CompiledOperation } from './compile.ts';
import type { OperationContext } from './context.ts';
import type { PreparedDocument } from './documents.ts';
import type { Envelope } from './envelope.ts';
import { pointingErrors, variableFaults } from './input-faults.ts';
import { maxLength, maxLines, maxTokens, refuseLongSubscription, refuseTooComplex } from './limits.ts';
import type { Measured } from './measure.ts';
import { nullsOutOfPlace } from './nulls.ts';

// The steps of every operation, over HTTP and on sockets: parsing, validation, checks and execution.

/** Below the default of graphql-js, which is 100, because it quotes the document in each error. */
const maxValidationErrors = 50;
/** Of all errors together, in tokens of the document. */
const maxSizeOfErrors = 20_000;

/**
 * Every error of graphql-js takes time proportional to the document: it can quote all of it, and counts the lines before
 * up to 40 places. So of a large document fewer are reported.
 */
export function validateDocument(schema: GraphQLSchema, document: DocumentNode): readonly GraphQLError[] {
  const { tokenCount = 0, loc } = document;
  const size = Math.max(tokenCount, 2 * (loc?.endToken.line ?? 0), (loc?.end ?? 0) / 25);
  const maxErrors = Math.max(1, Math.min(maxValidationErrors, Math.floor(maxSizeOfErrors / size)));
  return pointingErrors(document, validate(schema, document, undefined, { maxErrors }));
}

export function asGraphQLError(error: unknown): GraphQLError {
  if (error instanceof GraphQLError) return error;
  return new GraphQLError('', { originalError: error instanceof Error ? error : new Error(String(error)) });
}

/** @throws GraphQLError for a syntax error, or for a document that is too long */
export function parseWithinLimits(source: string): DocumentNode {
  if (source.length > maxLength) throw tooLong(`${inThousands(maxLength)} characters; pass long values as variables`);
  if (hasTooManyLines(source)) throw tooLong(`${inThousands(maxLines)} lines`);
  try {
    return parse(source, { maxLexicalTokens: maxTokens });
  } catch (error) {
    if (!(error instanceof GraphQLError)) throw error;
    if (hasTooManyTokens(source, error.positions?.[0])) throw tooLong(`${inThousands(maxTokens)} tokens`);
    error.extensions['code'] = 'GRAPHQL_PARSE_FAILED'; // as Yoga does
    throw error;
  }
}

function hasTooManyLines(source: string): boolean {
  let lines = 1;
  for (const _ of source.matchAll(/\r\n|[\n\r]/g)) if (++lines > maxLines) return true;
  return false;
}

/** Whether there are too many up to a position, which is that of the token with which parsing ended. */
function hasTooManyTokens(source: string, position = 0): boolean {
  const lexer = new Lexer(new Source(source));
  let tokens = 0;
  try {
    while (lexer.advance().kind !== TokenKind.EOF && lexer.token.start <= position) {
      if (++tokens > maxTokens) return true;
    }
  } catch {
    // What is no token is a syntax error at this position.
  }
  return false;
}

function tooLong(limit: string): GraphQLError {
  const message = `A document may have at most ${limit}.`;
  return new GraphQLError(message, { originalError: new DomainError('QUERY_TOO_COMPLEX', message) });
}

/** Whether an operation runs, and what it costs. */
export interface Verdict {
  /** The errors that it is refused with. */
  readonly errors: readonly GraphQLError[];
  /** What it costs of the rate limit: each field of a mutation that will run is a unit, and anything else is one. */
  readonly units: number;
  /** What was counted, also of one that is refused for it. */
  readonly measured?: Measured | undefined;
}

const oneUnit: Verdict = { errors: [], units: 1 };

/**
 * Judges an operation before it runs: it may be refused for the length of a subscription, for its variables, or for the
 * size of its response, which is spent from a budget.
 */
export function judge(
  prepared: PreparedDocument,
  { operationName = null, variableValues }: Pick<ExecutionArgs, 'operationName' | 'variableValues'>,
  budget: AnswerBudget,
): Verdict {
  const { schema, document, source } = prepared;
  const operation = prepared.errors.length === 0 ? prepared.operation(operationName) : undefined;
  if (operation === undefined) return oneUnit; // both are reported elsewhere
  const { node } = operation;
  const values = variableValues ?? {};
  // Each error of graphql-js quotes the whole value, so it stops at the first: `variableFaults` finds them all.
  const { variableValues: coerced, errors } = getVariableValues(schema, node.variableDefinitions ?? [], values, {
    maxErrors: 1,
  });
  const nulls = nullsOutOfPlace(schema, document, node, values);
  let measured: Measured | undefined;
  try {
    if (node.operation === 'subscription') refuseLongSubscription(source, values);
    if (errors !== undefined || nulls.length > 0)
      throw validationFailed(variableFaults(schema, document, node, values));
    measured = operation.measure(coerced.coerced);
    refuseTooComplex(measured, budget);
    if (node.operation !== 'mutation') return { errors: [], units: 1, measured };
    budget.isOfMutation = true;
    return { errors: [], units: Math.max(1, measured.rootFields), measured };
  } catch (error) {
    const nodes = errors?.[0]?.nodes ?? nulls.slice(0, 1);
    return { ...oneUnit, measured, errors: [new GraphQLError('', { nodes, originalError: error as Error })] };
  }
}

/**
 * Deletes what is not needed from the parameters of an operation that was judged, variables that it does not declare too:
 * they are held while it waits, and those of a subscription for as long as it lasts.
 */
export function dropExtraParams(
  params: object,
  { document }: PreparedDocument,
  { operationName, variableValues }: Pick<Envelope, 'operationName' | 'variableValues'>,
): void {
  keepOnly(['query', 'variables', 'operationName'], params);
  const definitions = getOperationAST(document, operationName)?.variableDefinitions ?? [];
  keepOnly(
    definitions.map(({ variable }) => variable.name.value),
    variableValues,
  );
}

function keepOnly(names: readonly string[], values: object): void {
  const kept = new Set(names);
  for (const name of Object.keys(values)) if (!kept.has(name)) Reflect.deleteProperty(values, name);
}

/** What takes less than this needs no room. */
const smallBytes = 64 * 1024;

/**
 * Does the work of an operation while there is room for what its answer could take, and begins in a turn of the account.
 * @param work ends when the answer has been written
 * @throws UNAVAILABLE as `enterAnswerRoom`
 */
export async function inRoom<T>(caller: Holder, budget: AnswerBudget, work: () => Awaitable<T>): Promise<T> {
  const leave = await enterRoom(caller, budget);
  try {
    return await work();
  } finally {
    leave();
  }
}

/**
 * Waits for room and for a turn of the account, as the operations of a request need. Small queries need neither, and
 * mutations have their turn among the writes.
 * @returns what is to be called when the answer has been written
 * @throws UNAVAILABLE as `enterAnswerRoom`
 */
export async function enterRoom(caller: Holder, { size, isOfMutation, needsTurn }: AnswerBudget): Promise<() => void> {
  const leave = size <= smallBytes ? () => {} : await enterAnswerRoom(caller, size);
  if (isOfMutation) await scheduler.request(caller.account.id, false);
  if (needsTurn) await scheduler.step(caller.account.id);
  return leave;
}

/** An operation with its variables, compiled. */
export interface ReadyOperation {
  readonly compiled: CompiledOperation;
  /**
   * Runs the query or the mutation, or answers an event of the subscription. It never throws or rejects.
   * @param rootValue of a subscription, the event
   */
  run(context: OperationContext, rootValue?: unknown): Awaitable<ExecutionResult>;
}

/**
 * Makes an operation ready that was not refused.
 * @throws GraphQLError for variables that do not fit
 * @throws QUERY_TOO_COMPLEX for too many fields
 */
export function ready(
  prepared: PreparedDocument,
  { operationName = null, variableValues }: Pick<ExecutionArgs, 'operationName' | 'variableValues'>,
): ReadyOperation {
  const operation = prepared.operation(operationName);
  if (operation === undefined) throw new Error('The document does not hold the operation to run');
  const definitions = operation.node.variableDefinitions ?? [];
  const { variableValues: variables, errors } = getVariableValues(prepared.schema, definitions, variableValues ?? {});
  if (variables === undefined) throw errors[0] as GraphQLError;
  const compiled = operation.compiled(variables);
  return { compiled, run: (context, rootValue) => compiled.run({ context, variables, rootValue }) };
}

/** Runs a query or a mutation that was not refused, with an `OperationContext`. It never rejects. */
export function run(
  prepared: PreparedDocument,
  { contextValue, ...asked }: Pick<ExecutionArgs, 'operationName' | 'variableValues' | 'contextValue'>,
): Awaitable<ExecutionResult> {
  let operation: ReadyOperation;
  try {
    operation = ready(prepared, asked);
  } catch (error) {
    return { errors: [asGraphQLError(error)] };
  }
  return operation.run(contextValue as OperationContext);
}
