import { DomainError, type ErrorCode, errorCodes } from '../../domain/errors.ts';
import { exampleEventCursor } from '../../domain/event-cursor.ts';
import { problemOf } from '../../http/problem.ts';
import type { Route } from '../routes.ts';
import { headersNamed, limitHeaders } from './headers.ts';
import type { OpenApiResponse, Reference } from './types.ts';

/** Errors of every operation, with those of a body: it is read, to be refused, even where none is expected. */
const errorsOfAll: readonly ErrorCode[] = [
  'VALIDATION_FAILED',
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'RATE_LIMITED',
  'INTERNAL',
  'UNAVAILABLE',
  'BAD_REQUEST',
  'PAYLOAD_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
];

/** One response for each error status of an operation, with the codes that it can have. */
export function problemsOf(route: Route, problems: Record<string, OpenApiResponse>): Record<string, Reference> {
  const codes = new Set([...route.operation.errors, ...errorsOfAll]);
  const byStatus = Map.groupBy(codes, (code) => errorCodes[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, ofStatus]) => {
      const sorted = ofStatus.toSorted();
      const name = sorted.join('-');
      problems[name] = problemResponse(status, sorted);
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

function problemResponse(status: number, codes: readonly ErrorCode[]): OpenApiResponse {
  return {
    description: codes.map((code) => `\`${code}\`: ${errorCodes[code].when}`).join(' '),
    headers: {
      ...headersNamed(['X-Request-Id']),
      // There are no rate-limit headers if the request failed before its account was known, say by its `Host` (400).
      ...(status === 401 ? {} : headersNamed(limitHeaders, { always: status > 400 && status < 429 })),
      ...(status === 401 ? headersNamed(['WWW-Authenticate']) : {}),
      ...(status === 429 ? headersNamed(['Retry-After']) : {}),
      ...(status === 503 ? headersNamed(['Retry-After'], { always: false }) : {}),
    },
    content: {
      'application/problem+json': {
        schema: {
          allOf: [
            { $ref: '#/components/schemas/Problem' },
            { properties: { code: { enum: codes }, status: { const: status } }, required: ['code', 'status'] },
          ],
        },
        examples: Object.fromEntries(codes.map((code) => [code, { value: exampleProblem(code) }])),
      },
    },
  };
}

function exampleProblem(code: ErrorCode): unknown {
  const facts = {
    ...(code === 'VALIDATION_FAILED' && {
      faults: [{ path: ['limit'], parameter: 'limit', detail: 'must be an integer' }],
    }),
    ...(code === 'CURSOR_EXPIRED' && { oldestCursor: exampleEventCursor }),
  };
  const error = new DomainError(code, errorCodes[code].when, facts);
  return problemOf(error, { path: '/v1/conversations', requestId: '0b7f2c1e-6f0a-4a53-9d6b-2a1f6f3c9e10' });
}
