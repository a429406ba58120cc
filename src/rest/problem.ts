import { type DomainError, type ErrorCode, errorCodes } from '../domain/errors.ts';
import type { Problem } from './shapes.ts';

/** A stable URI for each code. It names, and need not be fetched. */
export function problemType(code: ErrorCode): string {
  return `urn:conversation-service:problem:${code}`;
}

/** The REST form of an error that the domain has meant to give. */
export function problemOf(error: DomainError, { path, requestId }: { path: string; requestId: string }): Problem {
  const { faults } = error.facts;
  return {
    type: problemType(error.code),
    title: errorCodes[error.code].title,
    status: error.status,
    detail: error.message,
    instance: path,
    code: error.code,
    requestId,
    ...(error.facts.oldestCursor === undefined ? {} : { oldestCursor: error.facts.oldestCursor }),
    ...(faults === undefined
      ? {}
      : {
          errors: faults.map(({ pointer, parameter, detail }) =>
            parameter === undefined ? { pointer, detail } : { parameter, detail },
          ),
        }),
  };
}

/** The headers that an error brings beside its body. */
export function problemHeaders({ code, facts }: DomainError): Record<string, string> {
  return {
    'Content-Type': 'application/problem+json',
    'Cache-Control': 'no-store',
    ...(code === 'UNAUTHENTICATED' ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(facts.allow === undefined ? {} : { Allow: facts.allow.join(', ') }),
    ...(facts.retryAfterSeconds === undefined ? {} : { 'Retry-After': String(facts.retryAfterSeconds) }),
  };
}
