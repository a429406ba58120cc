import * as z from 'zod';
import { withoutSecrets } from '../access/secrets.ts';
import { type DomainError, type ErrorCode, errorCodes, pointer, worded } from '../domain/errors.ts';
import type { WholeReply } from './raw-reply.ts';
import { headersOfError } from './respond.ts';

/** RFC 9457 problem details, with a code and the data that a client needs to handle it. */
export const problemShape = z
  .object({
    type: z.string().describe('A stable URI that ends in the code. It is an identifier and cannot be fetched.'),
    title: z.string().describe('A short summary of the code.'),
    status: z.int().min(400).max(599).describe('The HTTP status.'),
    detail: z.string().describe('A sentence that explains this occurrence of the problem.'),
    instance: z.string().describe('The request path.'),
    code: z.enum(Object.keys(errorCodes) as ErrorCode[]).describe('The error code, for programs.'),
    requestId: z.string().describe('The id of the request, as in `X-Request-Id`.'),
    oldestCursor: z
      .string()
      .optional()
      .describe('For `CURSOR_EXPIRED`: the oldest cursor from which the log can be read.'),
    limit: z
      .enum(['account', 'share'])
      .optional()
      .describe(
        'For `RATE_LIMITED`: the account’s requests are used up, or the share of them that a bound token may spend.',
      ),
    outcomeUnknown: z
      .literal(true)
      .optional()
      .describe(
        'For `UNAVAILABLE`: the change may have been made. Repeat it only under its `Idempotency-Key`, or look first.',
      ),
    errors: z
      .array(
        z.object({
          pointer: z.string().optional().describe('A JSON Pointer (RFC 6901) to the invalid part of the input.'),
          header: z.string().optional().describe('The header that the value came from, in addition to `pointer`.'),
          parameter: z.string().optional().describe('The name of the invalid query parameter, instead of `pointer`.'),
          detail: z.string().describe('What is wrong and, if possible, what would be valid.'),
        }),
      )
      .readonly()
      .optional()
      .describe('For `VALIDATION_FAILED`: the faults of the input, at most 100.'),
  })
  .meta({ id: 'Problem', description: 'Problem details (RFC 9457): why a request failed.' });

type Problem = Readonly<z.output<typeof problemShape>>;

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
    ...(error.facts.outcomeUnknown === undefined ? {} : { outcomeUnknown: error.facts.outcomeUnknown }),
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
