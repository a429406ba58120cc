import { type ExecutionResult, GraphQLError, isEnumType, Kind } from 'graphql';
import {
  DomainError,
  type ErrorCode,
  internal,
  isTrouble,
  pointer,
  validationFailed,
  worded,
} from '../domain/errors.ts';
import { headersOfError, type Reply } from '../http/respond.ts';
import { schema } from './schema.ts';

/** The codes that refuse a whole request, and keep their HTTP status in GraphQL. */
const requestCodes: readonly ErrorCode[] = [
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'METHOD_NOT_ALLOWED',
  'UNSUPPORTED_MEDIA_TYPE',
  'PAYLOAD_TOO_LARGE',
  'RATE_LIMITED',
  'UNAVAILABLE',
];

/** What Yoga reports as OPERATION_RESOLUTION_FAILURE: no operation, none of the name that was given, or several without. */
export const noOperation = (): DomainError =>
  new DomainError(
    'BAD_REQUEST',
    'The document does not hold the operation to run; of several, name one in `operationName`.',
  );

/** Those that mean BAD_REQUEST because of the document: a syntax error, or no operation to run. */
const documentCodes: readonly unknown[] = ['GRAPHQL_PARSE_FAILED', 'OPERATION_RESOLUTION_FAILURE'];

/** How an error is sent over HTTP. Yoga and `resultReply` remove the extension from the error. */
interface HttpExtension {
  readonly status: number;
  /** Whether the status is 200 for clients that accept only `application/json`, as GraphQL over HTTP specifies. */
  readonly spec?: boolean;
  readonly headers?: Record<string, string>;
}

interface PresentOptions {
  readonly requestId: string;
  /** Whether the whole request failed, so that no field has a result. */
  readonly requestFailed: boolean;
  /** Called with each error that the operator should look into. The caller is not shown its cause. */
  readonly onTrouble: (error: DomainError) => void;
}

/** The GraphQL form of any error: a code of the closed set, the request's id, and no internal detail. */
export function presentError(error: GraphQLError, options: PresentOptions): GraphQLError {
  const known = inArguments(domainErrorOf(error, options.requestFailed), error);
  if (isTrouble(known)) options.onTrouble(known);
  const { faults, oldestCursor, cursor, retryAfterSeconds, limit, outcomeUnknown } = known.facts;
  const http = options.requestFailed ? httpOf(known, error) : undefined;
  return new GraphQLError(worded(known.detail, spell), {
    nodes: error.nodes,
    source: error.source,
    positions: error.positions,
    path: error.path,
    extensions: {
      code: known.code,
      requestId: options.requestId,
      ...(faults === undefined
        ? {}
        : { errors: faults.map(({ path, detail }) => ({ pointer: pointer(path), detail: worded(detail, spell) })) }),
      ...(oldestCursor === undefined ? {} : { oldestCursor }),
      ...(cursor === undefined ? {} : { cursor }),
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      ...(limit === undefined ? {} : { limit }),
      ...(outcomeUnknown === undefined ? {} : { outcomeUnknown }),
      ...(http === undefined ? {} : { http }),
    },
  });
}

/** The values of enumerations in the spelling of GraphQL: `active` is ACTIVE, `-createdAt` is CREATED_AT_DESC. */
const spellings: ReadonlyMap<unknown, string> = new Map(
  Object.values(schema.getTypeMap())
    .filter(isEnumType)
    .flatMap((type) => type.getValues().map(({ value, name }) => [value, name])),
);

function spell(value: string): string {
  return spellings.get(value) ?? value;
}

/** Arguments by their names in the input of an operation. One `status` is never at fault: its type is checked before. */
const argumentsOf: ReadonlyMap<PropertyKey, string> = new Map([
  ['limit', 'first'],
  ['status', 'statuses'],
]);

/**
 * Faults that an operation found in its input, at their places in the arguments of the field that called it. Its input
 * is the argument `input`, or else all arguments, of which two have other names there.
 */
function inArguments(known: DomainError, { path: field, nodes }: GraphQLError): DomainError {
  const { faults } = known.facts;
  // What is found before a field is called is placed in arguments to begin with.
  if (faults === undefined || field === undefined) return known;
  const [node] = nodes ?? [];
  const takesInput = node?.kind === Kind.FIELD && node.arguments?.some(({ name }) => name.value === 'input');
  const placed = (path: readonly PropertyKey[]): readonly PropertyKey[] =>
    takesInput === true
      ? ['input', ...path]
      : path.map((name, depth) => (depth === 0 ? (argumentsOf.get(name) ?? name) : name));
  return validationFailed(faults.map(({ path, detail }) => ({ path: placed(path), detail: worded(detail, spell) })));
}

/** The media types of a result over HTTP. */
export type MediaType = 'application/json' | 'application/graphql-response+json';

/** The reply for a presented result, with the status that GraphQL over HTTP demands. */
export function resultReply(result: ExecutionResult, mediaType: MediaType): Reply {
  const headers: Record<string, string> = {
    'Content-Type': `${mediaType}; charset=utf-8`,
    'Cache-Control': 'no-store',
  };
  let status = 0;
  for (const { extensions } of result.errors ?? []) {
    const http = extensions['http'] as HttpExtension | undefined;
    if (http === undefined) continue;
    delete extensions['http'];
    Object.assign(headers, http.headers);
    if (http.spec !== true || mediaType !== 'application/json') status = Math.max(status, http.status);
  }
  return { status: status || 200, headers, body: JSON.stringify(result) };
}

/** The domain's error for an error of GraphQL. */
export function domainErrorOf(error: GraphQLError, requestFailed: boolean): DomainError {
  for (
    let cause: unknown = error;
    cause instanceof Error;
    cause = cause instanceof GraphQLError ? (cause.originalError ?? cause.cause) : undefined
  ) {
    if (cause instanceof DomainError) return cause;
  }
  const theirs = error.extensions['code']; // of Yoga or graphql-js
  const status = (error.extensions['http'] as { status?: number } | undefined)?.status;
  if (status === 405) return new DomainError('METHOD_NOT_ALLOWED', error.message, { allow: ['POST'] });
  if (theirs === 'OPERATION_RESOLUTION_FAILURE') return noOperation();
  if (theirs === 'GRAPHQL_PARSE_FAILED') return new DomainError('BAD_REQUEST', error.message);
  if (error.originalError !== undefined || !requestFailed) return internal(error.originalError ?? error);
  // What graphql-js refuses before it runs anything: invalid variables and ambiguous operations.
  return new DomainError('VALIDATION_FAILED', error.message);
}

function httpOf(known: DomainError, error: GraphQLError): HttpExtension {
  const { status } = known;
  if (requestCodes.includes(known.code)) return { status, headers: headersOfError(known) };
  // Without a document it is not a GraphQL request yet, and the status is 400 for every client.
  const unreadable = known.code === 'BAD_REQUEST' && !documentCodes.includes(error.extensions['code']);
  return { status, spec: !unreadable && known.facts.status === undefined };
}
