import type { RateLimit } from './ports.ts';

/**
 * Every error code of the service, with its HTTP status, its title and when it occurs. The set is closed: REST and
 * GraphQL return no other codes.
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
    when: 'The credential lacks the required scope, which is named, or is bound to less than this, or an API key was sent from a browser page.',
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
  ALREADY_EXISTS: {
    status: 409,
    title: 'Already exists',
    when: 'A resource with this `externalId` exists, or a document with this id and another text.',
  },
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
  QUERY_TOO_COMPLEX: {
    status: 400,
    title: 'Query too complex',
    when: 'The GraphQL query, or the call of a tool, asks for too much at once.',
  },
  PERSISTED_QUERY_NOT_FOUND: {
    status: 200,
    title: 'Persisted query not found',
    when: 'In GraphQL only: no document is known by this hash or id; send the text with the hash.',
  },
  INTERNAL: {
    status: 500,
    title: 'Internal error',
    when: 'An unexpected error in the service; it is logged under the request id.',
  },
  UNAVAILABLE: {
    status: 503,
    title: 'Unavailable',
    when: 'The storage is busy or cannot be written, or the service is overloaded or stopping; try again after `Retry-After`. With `outcomeUnknown`, the change may have been made.',
  },
} as const satisfies Record<string, { status: number; title: string; when: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** Text for the caller. If it quotes values of enumerations, each API spells them as its own clients do. */
export type Text = string | Quoting;

/** The parts of a text, and between them lists of values in the domain's spelling, which is also that of REST. */
interface Quoting {
  readonly parts: readonly string[];
  readonly values: readonly (readonly string[])[];
}

/** Tags a template whose values are those of enumerations: quoting`must be one of ${statuses}`. */
export function quoting(parts: TemplateStringsArray, ...values: (string | readonly string[])[]): Quoting {
  return { parts, values: values.map((value) => (typeof value === 'string' ? [value] : value)) };
}

/** @param spell how the API spells a value of an enumeration */
export function worded(text: Text, spell: (value: string) => string = (value) => value): string {
  if (typeof text === 'string') return text;
  const quoted = text.values.map((list) => list.map((value) => `\`${spell(value)}\``).join(', '));
  return text.parts.map((part, index) => part + (quoted[index] ?? '')).join('');
}

/** One fault in an operation's input. */
export interface Fault {
  /** Where it is in the operation's input; empty if the fault is in the input as a whole. */
  readonly path: readonly PropertyKey[];
  /** The query parameter at fault, if the input came from a URL. */
  readonly parameter?: string;
  /** The header at fault, if the input came from one. */
  readonly header?: string;
  /** What is wrong and, where possible, what would be right. */
  readonly detail: Text;
}

/** Faults reported per request: a body of a megabyte could otherwise cause a response of forty, and take as long. */
export const maxFaults = 100;

/** The detail of the fault that a field is unknown. */
export const unknownField = 'is not a known field';

/** The detail of the fault that a field is not there. */
export const missingField = 'is required';

interface ErrorFacts {
  /** The faults of the input, for `VALIDATION_FAILED`. */
  readonly faults?: readonly Fault[];
  /** Whole seconds after which a retry can succeed. */
  readonly retryAfterSeconds?: number;
  /** Which budget is exhausted, for `RATE_LIMITED`: the account's, or a bound token's share of it. */
  readonly limit?: 'account' | 'share';
  /** The exhausted budget, for `RATE_LIMITED` of an account. */
  readonly rateLimit?: RateLimit;
  /** The oldest cursor that can be read from, for `CURSOR_EXPIRED`. */
  readonly oldestCursor?: string;
  /** The position of the event that could not be delivered, to continue after. */
  readonly cursor?: string;
  /** The methods that the path supports, for `METHOD_NOT_ALLOWED`. */
  readonly allow?: readonly string[];
  /** Whether it is UNAVAILABLE only for want of time, which is no fault to look into. */
  readonly isOverload?: boolean;
  /** For `UNAVAILABLE`: whether the change may have been made, and may not. */
  readonly outcomeUnknown?: true;
  /** Overrides the code's HTTP status, where HTTP has a more specific one. */
  readonly status?: number;
  /** Logged, and never shown to the caller. */
  readonly cause?: unknown;
}

/** The one class of deliberate errors. Anything else that is thrown becomes `INTERNAL`. */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: ErrorCode;
  /** The sentence of which `message` is the wording in the domain's spelling. */
  readonly detail: Text;
  readonly facts: ErrorFacts;

  /** @param detail One sentence for the caller, without secrets or other accounts' data */
  constructor(code: ErrorCode, detail: Text, facts: ErrorFacts = {}) {
    super(worded(detail), facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.detail = detail;
    this.facts = facts;
  }

  get status(): number {
    return this.facts.status ?? errorCodes[this.code].status;
  }
}

/** Whether the operator should look into an error. */
export function isTrouble({ code, facts }: DomainError): boolean {
  return code === 'INTERNAL' || (code === 'UNAVAILABLE' && facts.isOverload !== true);
}

/** UNAVAILABLE for want of time or memory: the same request may succeed in a moment. */
export function overloaded(detail: string): DomainError {
  return new DomainError('UNAVAILABLE', detail, { retryAfterSeconds: 1, isOverload: true });
}

export function codeOf(error: unknown): ErrorCode {
  return error instanceof DomainError ? error.code : 'INTERNAL';
}

/** Longer than any name that is known, in UTF-16 code units. */
const maxNameLength = 256;

/**
 * Builds a JSON Pointer (RFC 6901) from a path. Of a name that the caller made up it has no more than the beginning: it
 * can be a megabyte long, and a hundred errors of one request can be about it.
 */
export function pointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${shortened(String(part)).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

function shortened(name: string): string {
  return name.length > maxNameLength ? `${name.slice(0, maxNameLength).toWellFormed()}…` : name;
}

export function validationFailed(faults: readonly Fault[]): DomainError {
  const [first] = faults;
  const detail =
    faults.length === 1 && first
      ? `${nameOf(first)} ${worded(first.detail)}.`
      : `The input has ${faults.length} faults; see \`errors\`.`;
  return new DomainError('VALIDATION_FAILED', detail, { faults });
}

function nameOf({ header, parameter, path }: Fault): string {
  if (header !== undefined) return `The header \`${header}\``;
  const name = parameter ?? pointer(path).slice(1);
  return name === '' ? 'The input' : `\`${name}\``;
}

/** Wraps an unexpected error for the caller, who is not shown its cause. */
export function internal(cause: unknown): DomainError {
  return new DomainError('INTERNAL', 'An unexpected error occurred; report it with the request id.', {
    cause,
  });
}

/** Worded the same for a missing resource and for one of another account. */
export function notFound(what: string): DomainError {
  return new DomainError('NOT_FOUND', `There is no such ${what}.`);
}

/** Nobody knows whether a change was made: the storage was lost meanwhile. */
export function inDoubt(detail: string, cause: unknown): DomainError {
  return new DomainError('UNAVAILABLE', detail, { retryAfterSeconds: 1, outcomeUnknown: true, cause });
}
