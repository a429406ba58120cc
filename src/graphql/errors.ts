import { GraphQLError } from 'graphql';
import type { Exchange } from '../access/exchange.ts';
import { headersOfError, type Reply } from '../access/respond.ts';
import { DomainError, type ErrorCode, type ErrorFacts, errorCodes, internal, isTrouble } from '../domain/errors.ts';
import { inGraphQLSpelling } from './wording.ts';

/** The codes that refuse a whole request and keep their status on this face too. */
const atTheDoor: readonly ErrorCode[] = [
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'METHOD_NOT_ALLOWED',
  'UNSUPPORTED_MEDIA_TYPE',
  'PAYLOAD_TOO_LARGE',
  'RATE_LIMITED',
  'UNAVAILABLE',
];

/** What Yoga and graphql-js call the faults of a request, in the service's own codes. */
const ownCodes: Readonly<Record<string, ErrorCode>> = {
  GRAPHQL_PARSE_FAILED: 'BAD_REQUEST',
  GRAPHQL_VALIDATION_FAILED: 'VALIDATION_FAILED',
  OPERATION_RESOLUTION_FAILURE: 'BAD_REQUEST',
  BAD_REQUEST: 'BAD_REQUEST',
};

/** Those of them that say BAD_REQUEST of a document: it is none, or does not hold the operation to run. */
const ofDocuments: readonly unknown[] = ['GRAPHQL_PARSE_FAILED', 'OPERATION_RESOLUTION_FAILURE'];

/** How an error is sent over HTTP; Yoga takes it out before it sends the error. */
interface HttpExtension {
  readonly status: number;
  /** 200 for clients that accept only `application/json`, as GraphQL over HTTP has it. */
  readonly spec?: boolean;
  readonly headers?: Record<string, string>;
}

export interface PresentOptions {
  readonly requestId: string;
  /** Whether the whole request failed, so that no field of it has an answer. */
  readonly requestFailed: boolean;
  /** Told of an error that its operator should look into, whose cause the caller is not told. */
  readonly onTrouble: (error: DomainError) => void;
}

/** The GraphQL form of any error: a code of the closed set, the request's id, and nothing of the inside. */
export function presentError(error: GraphQLError, options: PresentOptions): GraphQLError {
  const known = domainErrorOf(error, options.requestFailed);
  if (isTrouble(known)) options.onTrouble(known);
  const { faults, oldestCursor } = known.facts;
  const http = options.requestFailed ? httpOf(known, error) : undefined;
  const spelt = (sentence: string): string => inGraphQLSpelling(sentence, error.nodes);
  return new GraphQLError(spelt(known.message), {
    nodes: error.nodes,
    source: error.source,
    positions: error.positions,
    path: error.path,
    extensions: {
      code: known.code,
      requestId: options.requestId,
      ...(faults === undefined
        ? {}
        : { errors: faults.map(({ pointer, detail }) => ({ pointer, detail: spelt(detail) })) }),
      ...(oldestCursor === undefined ? {} : { oldestCursor }),
      ...retryAfterOf(known.facts),
      ...(http === undefined ? {} : { http }),
    },
  });
}

/** The forms of a result over HTTP. */
export type MediaType = 'application/json' | 'application/graphql-response+json';

/** The answer to a request that is refused as a whole before Yoga has seen it. */
export function refusalReply(error: DomainError, exchange: Exchange, mediaType: MediaType = 'application/json'): Reply {
  return replyOf(error, exchange, mediaType, {});
}

/** The answer to a query that was run, and of which nothing can be told. */
export function failureReply(error: DomainError, exchange: Exchange, mediaType: MediaType): Reply {
  return { ...replyOf(error, exchange, mediaType, { data: null }), status: 200 };
}

function replyOf(error: DomainError, exchange: Exchange, mediaType: MediaType, result: object): Reply {
  const { status, message, code, facts } = error;
  const { requestId } = exchange;
  exchange.code = code;
  const errors = [{ message, extensions: { code, requestId, ...retryAfterOf(facts) } }];
  return {
    status,
    headers: {
      'Content-Type': `${mediaType}; charset=utf-8`,
      'Cache-Control': 'no-store',
      ...headersOfError(error),
    },
    body: JSON.stringify({ errors, ...result }),
  };
}

function retryAfterOf({ retryAfterSeconds }: ErrorFacts): { retryAfterSeconds?: number } {
  return retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
}

/** What an error of GraphQL is in the service's own words. */
export function domainErrorOf(error: GraphQLError, requestFailed: boolean): DomainError {
  for (
    let cause: unknown = error;
    cause instanceof Error;
    cause = cause instanceof GraphQLError ? (cause.originalError ?? cause.cause) : undefined
  ) {
    if (cause instanceof DomainError) return cause;
  }
  const theirs = error.extensions['code'];
  const status = (error.extensions['http'] as { status?: number } | undefined)?.status;
  if (status === 405) return new DomainError('METHOD_NOT_ALLOWED', error.message, { allow: ['POST'] });
  if (typeof theirs === 'string' && ownCodes[theirs] !== undefined)
    return new DomainError(ownCodes[theirs], error.message);
  if (error.originalError !== undefined || !requestFailed) return internal(error.originalError ?? error);
  // What graphql-js refuses before it runs anything: variables, and operations that cannot be told apart.
  return new DomainError('VALIDATION_FAILED', error.message);
}

function httpOf(known: DomainError, error: GraphQLError): HttpExtension {
  const { status } = errorCodes[known.code];
  if (atTheDoor.includes(known.code)) return { status, headers: headersOfError(known) };
  // A request is one of GraphQL once its document is there; before that its status is 400 for every client.
  const unreadable = known.code === 'BAD_REQUEST' && !ofDocuments.includes(error.extensions['code']);
  return { status, spec: !unreadable };
}
