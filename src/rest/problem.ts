import { withoutSecrets } from '../access/secrets.ts';
import { type DomainError, type ErrorCode, errorCodes, pointer, worded } from '../domain/errors.ts';
import type { WholeReply } from '../http/raw-reply.ts';
import { headersOfError } from '../http/respond.ts';
import type { Problem } from './shapes.ts';

/** The stable URI of a code. It is an identifier, not a location. */
function problemType(code: ErrorCode): string {
  return `urn:conversation-service:problem:${code}`;
}

interface Occurrence {
  /** The request path, if it could be parsed. */
  readonly path?: string;
  readonly requestId: string;
}

/** The reply for a domain error, as RFC 9457 problem details. */
export function problemReply(error: DomainError, occurrence: Occurrence): WholeReply {
  const headers = {
    'Content-Type': 'application/problem+json',
    'Cache-Control': 'no-store',
    ...headersOfError(error),
  };
  return { status: error.status, headers, body: JSON.stringify(problemOf(error, occurrence)) };
}

/** The body for a domain error; without `instance` only if no path could be parsed. */
export function problemOf(
  error: DomainError,
  { path, requestId }: Occurrence,
): Omit<Problem, 'instance'> & Partial<Pick<Problem, 'instance'>> {
  const { faults } = error.facts;
  return {
    type: problemType(error.code),
    title: errorCodes[error.code].title,
    status: error.status,
    detail: error.message,
    ...(path === undefined ? {} : { instance: withoutSecrets(path) }),
    code: error.code,
    requestId,
    ...(error.facts.oldestCursor === undefined ? {} : { oldestCursor: error.facts.oldestCursor }),
    ...(error.facts.limit === undefined ? {} : { limit: error.facts.limit }),
    ...(faults === undefined
      ? {}
      : {
          errors: faults.map(({ path, parameter, header, detail }) => ({
            ...(parameter === undefined ? { pointer: pointer(path) } : { parameter }),
            ...(header === undefined ? {} : { header }),
            detail: worded(detail),
          })),
        }),
  };
}
