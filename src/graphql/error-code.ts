import { type ErrorCode as Code, errorCodes } from '../domain/errors.ts';
import { builder } from './builder.ts';

/** No field has this type: it is for clients, whose types are generated from the schema. */
builder.enumType('ErrorCode', {
  description: `Why something failed: the \`code\` in the \`extensions\` of an error. In TypeScript, these are

\`\`\`ts
interface ErrorExtensions {
  code: ErrorCode;
  requestId: string; // as in the header X-Request-Id
  errors?: { pointer: string; detail: string }[]; // VALIDATION_FAILED: the faults, at most 100
  oldestCursor?: string; // CURSOR_EXPIRED: the oldest cursor that can be used
  cursor?: string; // of an event that could not be delivered: continue after it
  retryAfterSeconds?: number; // if waiting helps
  limit?: 'account' | 'share'; // RATE_LIMITED: what is used up
  outcomeUnknown?: true; // UNAVAILABLE: the change may have been made
}
\`\`\`

An answer has at most 100 errors. How many more there were is \`moreErrors\` in its own \`extensions\`. For a
request with the header \`GraphQL-Cost: 1\`, these also have the \`cost\`: what was counted, and the limits.`,
  values: Object.fromEntries(
    Object.entries(errorCodes).map(([code, { when }]) => [code, { description: when }]),
  ) as Record<Code, { description: string }>,
});
