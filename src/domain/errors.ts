import type { RateLimit } from './ports.ts';

/**
 * Every error code that the service can give, with its HTTP status and its title.
 * The set is closed: a face may show these codes and no others.
 */
export const errorCodes = {
  UNAUTHENTICATED: { status: 401, title: 'Authentication required' },
  FORBIDDEN: { status: 403, title: 'Not allowed' },
  NOT_FOUND: { status: 404, title: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'Method not allowed' },
  BAD_REQUEST: { status: 400, title: 'Unreadable request' },
  VALIDATION_FAILED: { status: 400, title: 'Invalid input' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'Unsupported media type' },
  PAYLOAD_TOO_LARGE: { status: 413, title: 'Payload too large' },
  CONVERSATION_CLOSED: { status: 409, title: 'Conversation closed' },
  INVALID_TRANSITION: { status: 409, title: 'Invalid transition' },
  ALREADY_EXISTS: { status: 409, title: 'Already exists' },
  QUOTA_EXCEEDED: { status: 409, title: 'Quota exceeded' },
  CURSOR_EXPIRED: { status: 410, title: 'Cursor expired' },
  VERSION_CONFLICT: { status: 412, title: 'Version conflict' },
  IDEMPOTENCY_KEY_REUSED: { status: 422, title: 'Idempotency key reused' },
  RATE_LIMITED: { status: 429, title: 'Too many requests' },
  QUERY_TOO_COMPLEX: { status: 400, title: 'Query too complex' },
  INTERNAL: { status: 500, title: 'Internal error' },
  UNAVAILABLE: { status: 503, title: 'Unavailable' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** One thing that is wrong with an operation's input. */
export interface Fault {
  /** RFC 6901 JSON Pointer into the operation's input. */
  readonly pointer: string;
  /** The query parameter that brought it, when it came in a URL. */
  readonly parameter?: string;
  /** A sentence that says what is wrong and, where it can, what would be right. */
  readonly detail: string;
}

export interface ErrorFacts {
  /** All that is wrong with the input, for `VALIDATION_FAILED`. */
  readonly faults?: readonly Fault[];
  /** Whole seconds after which a repeat can succeed. */
  readonly retryAfterSeconds?: number;
  /** The budget that was used up, for `RATE_LIMITED`, where it is an account's. */
  readonly rateLimit?: RateLimit;
  /** Where the log can be read from, for `CURSOR_EXPIRED`. */
  readonly oldestCursor?: string;
  /** The methods of the path, for `METHOD_NOT_ALLOWED`. */
  readonly allow?: readonly string[];
  /** What made it happen. It goes to the log and never to the caller. */
  readonly cause?: unknown;
}

/** The one class of error that the service means to give. Anything else thrown is `INTERNAL`. */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;

  /** @param detail One sentence for the caller: it must hold no secret and no other account's data. */
  constructor(code: ErrorCode, detail: string, facts: ErrorFacts = {}) {
    super(detail, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.facts = facts;
  }

  get status(): number {
    return errorCodes[this.code].status;
  }
}

/** Builds a JSON Pointer (RFC 6901) from a path. */
export function pointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

export function validationFailed(faults: readonly Fault[]): DomainError {
  const [first] = faults;
  const detail =
    faults.length === 1 && first
      ? `${nameOf(first)} ${first.detail}.`
      : `The input has ${faults.length} faults; see \`errors\`.`;
  return new DomainError('VALIDATION_FAILED', detail, { faults });
}

function nameOf(fault: Fault): string {
  const name = fault.parameter ?? fault.pointer.slice(1);
  return name === '' ? 'The input' : `\`${name}\``;
}

/** The same words for what does not exist and for what belongs to another account. */
export function notFound(what: string): DomainError {
  return new DomainError('NOT_FOUND', `There is no such ${what}.`);
}
