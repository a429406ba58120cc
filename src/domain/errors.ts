import type { RateLimit } from './ports.ts';

/**
 * Every error code that the service can give, with its HTTP status, its title, and when it is given.
 * The set is closed: a face may show these codes and no others.
 */
export const errorCodes = {
  UNAUTHENTICATED: {
    status: 401,
    title: 'Authentication required',
    when: 'The credential is missing, unknown, expired or revoked.',
  },
  FORBIDDEN: {
    status: 403,
    title: 'Not allowed',
    when: 'The credential lacks the required scope, which is named, or an API key was sent from a browser page.',
  },
  NOT_FOUND: {
    status: 404,
    title: 'Not found',
    when: 'The credential can see nothing with this id or path.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    title: 'Method not allowed',
    when: 'The path does not support the method; `Allow` lists those that it does.',
  },
  BAD_REQUEST: {
    status: 400,
    title: 'Unreadable request',
    when: 'The body is not JSON or not an object, or the request is not HTTP that can be served (also as 408, 417 or 431).',
  },
  VALIDATION_FAILED: {
    status: 400,
    title: 'Invalid input',
    when: 'Fields or parameters are invalid; `errors` lists the faults.',
  },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'Unsupported media type', when: 'The body is not `application/json`.' },
  PAYLOAD_TOO_LARGE: { status: 413, title: 'Payload too large', when: 'The body is larger than 1 MiB.' },
  CONVERSATION_CLOSED: {
    status: 409,
    title: 'Conversation closed',
    when: 'The conversation is closed; reopen it first.',
  },
  INVALID_TRANSITION: {
    status: 409,
    title: 'Invalid transition',
    when: 'The conversation cannot change from its status to the requested one.',
  },
  ALREADY_EXISTS: { status: 409, title: 'Already exists', when: 'A resource with this `externalId` exists.' },
  QUOTA_EXCEEDED: { status: 409, title: 'Quota exceeded', when: 'A limit on number or size is reached.' },
  CURSOR_EXPIRED: {
    status: 410,
    title: 'Cursor expired',
    when: 'The log no longer reaches back to the cursor; `oldestCursor` is the oldest usable one.',
  },
  VERSION_CONFLICT: {
    status: 412,
    title: 'Version conflict',
    when: 'The resource has changed since the given version.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    title: 'Idempotency key reused',
    when: 'The idempotency key was already used with other input.',
  },
  RATE_LIMITED: {
    status: 429,
    title: 'Too many requests',
    when: 'The plan’s requests are used up; `Retry-After` says when the next is admitted.',
  },
  QUERY_TOO_COMPLEX: { status: 400, title: 'Query too complex', when: 'The GraphQL query asks for too much at once.' },
  INTERNAL: {
    status: 500,
    title: 'Internal error',
    when: 'An unexpected error in the service; it is logged under the request id.',
  },
  UNAVAILABLE: {
    status: 503,
    title: 'Unavailable',
    when: 'The storage is busy, or the service is overloaded or stopping; try again after `Retry-After`.',
  },
} as const satisfies Record<string, { status: number; title: string; when: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** One thing that is wrong with an operation's input. */
export interface Fault {
  /** RFC 6901 JSON Pointer into the operation's input. */
  readonly pointer: string;
  /** The query parameter that brought it, when it came in a URL. */
  readonly parameter?: string;
  /** The header that brought it, where HTTP has a place for it. */
  readonly header?: string;
  /** A sentence that says what is wrong and, where it can, what would be right. */
  readonly detail: string;
}

/**
 * So many are told, and no more looked for: it is more than a person mends at once, and what a body of a megabyte can
 * get wrong must neither become an answer of forty nor take as long.
 */
export const maxFaults = 100;

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
  /** Whether the log has a line for all of its kind together, and need not have one for each. */
  readonly isLoggedInAggregate?: boolean;
  /** Another HTTP status than the code's own, where HTTP itself has one for just this. */
  readonly status?: number;
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
    return this.facts.status ?? errorCodes[this.code].status;
  }
}

/** Whether an error is one that its operator should look into. */
export function isTrouble({ code, facts }: DomainError): boolean {
  return code === 'INTERNAL' || (code === 'UNAVAILABLE' && facts.isLoggedInAggregate !== true);
}

/** The code that the service answers an error with. */
export function codeOf(error: unknown): ErrorCode {
  return error instanceof DomainError ? error.code : 'INTERNAL';
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
  if (fault.header !== undefined) return `The header \`${fault.header}\``;
  const name = fault.parameter ?? fault.pointer.slice(1);
  return name === '' ? 'The input' : `\`${name}\``;
}

/** What nobody has meant to happen, as it may be told: its cause stays here. */
export function internal(cause: unknown): DomainError {
  return new DomainError('INTERNAL', 'Something went wrong on our side; the request id helps us to find it.', {
    cause,
  });
}

/** The same words for what does not exist and for what belongs to another account. */
export function notFound(what: string): DomainError {
  return new DomainError('NOT_FOUND', `There is no such ${what}.`);
}
