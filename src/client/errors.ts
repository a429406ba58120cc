/** A fault of one field of the input. */
export interface FieldFault {
  /** Where it is in the body, or in the arguments of a GraphQL field. */
  readonly pointer?: string;
  /** The query parameter that it is about, instead. */
  readonly parameter?: string;
  readonly detail: string;
}

/** What the service says of an error, on each of its APIs. */
export interface ServiceErrorFacts {
  readonly code: string;
  /** The HTTP status; undefined for an error in a GraphQL response or on a socket. */
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  /** After so many seconds the same request can succeed. */
  readonly retryAfterSeconds?: number | undefined;
  readonly errors?: readonly FieldFault[] | undefined;
  /** With `UNAVAILABLE`: whether the change may have been made. */
  readonly outcomeUnknown?: true | undefined;
  /** With `CURSOR_EXPIRED`: the oldest cursor from which the log can be followed. */
  readonly oldestCursor?: string | undefined;
  /** Of an event that could not be delivered over a socket, for what was asked of it: follow after it. */
  readonly cursor?: string | undefined;
}

/** An error that the service has answered with. `code` is one of those of the documentation, the same on every API. */
export class ServiceError extends Error implements ServiceErrorFacts {
  override readonly name = 'ServiceError';
  readonly code: string;
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly outcomeUnknown: true | undefined;
  readonly errors: readonly FieldFault[];
  readonly oldestCursor: string | undefined;
  readonly cursor: string | undefined;

  constructor(message: string, facts: ServiceErrorFacts) {
    super(message);
    this.code = facts.code;
    this.status = facts.status;
    this.requestId = facts.requestId;
    this.retryAfterSeconds = facts.retryAfterSeconds;
    this.outcomeUnknown = facts.outcomeUnknown;
    this.errors = facts.errors ?? [];
    this.oldestCursor = facts.oldestCursor;
    this.cursor = facts.cursor;
  }
}

/** The codes of what may pass: the service stops or is busy, or the budget of requests is spent. */
const passing: readonly string[] = ['UNAVAILABLE', 'RATE_LIMITED'];

/** Whether what was thrown may pass. What `fetch` and the connection throw may. */
export const mayPass = (error: unknown): boolean => !(error instanceof ServiceError) || passing.includes(error.code);

/** Whether it may pass for a follower, to whom others may leave a place. */
export const mayPassForFollower = (error: unknown): boolean =>
  mayPass(error) || (error as ServiceError).code === 'QUOTA_EXCEEDED';

/** Whether it is a result of this type. A network that wants a sign-in answers with a page. */
export const isResult = ({ ok, headers }: Response, type: string): boolean =>
  ok && `${headers.get('Content-Type')}`.includes(type);

/** The error of a response that is no result. */
export async function errorOfResponse(response: Response): Promise<ServiceError> {
  const text = await response.text();
  const facts = {
    status: response.status,
    requestId: response.headers.get('X-Request-Id') ?? undefined,
    retryAfterSeconds: secondsOf(response.headers.get('Retry-After') ?? ''),
  };
  try {
    const problem = JSON.parse(text);
    if (Array.isArray(problem.errors) && problem.code === undefined) return errorOfGraphQL(problem.errors, facts);
    if (typeof problem.code === 'string')
      return new ServiceError(problem.detail ?? problem.title, { ...facts, ...problem });
  } catch {
    // It is no JSON.
  }
  // A proxy may have answered, whose request id says nothing of whether the service has done it.
  return new ServiceError(`HTTP status ${response.status}`, { ...facts, code: codeOf(facts), requestId: undefined });
}

/** What `Retry-After` says, in seconds or as a date of HTTP (RFC 9110, section 5.6.7); undefined if it says no time. */
function secondsOf(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text);
  if (!/^[A-Z]/.test(text)) return undefined;
  const untilMs = Date.parse(text.replace(/( GMT)?$/, ' GMT')); // the form of asctime names no zone
  return untilMs >= 0 ? Math.max(0, Math.ceil((untilMs - Date.now()) / 1_000)) : undefined;
}

/** The first error of a GraphQL response. */
export function errorOfGraphQL(
  errors: readonly { message: string; extensions?: object | undefined }[],
  facts: Partial<ServiceErrorFacts> = {},
): ServiceError {
  const [{ message, extensions } = { message: 'No data' }] = errors;
  return new ServiceError(message, { code: 'INTERNAL', ...facts, ...extensions });
}

/** Proxies have many numbers for a service that is away, 521 and 530 among them; in some networks it is 200. */
function codeOf({ status, requestId }: { readonly status: number; readonly requestId: string | undefined }): string {
  if (status === 429) return 'RATE_LIMITED';
  const isAway = status < 300 || status > 501 || (status >= 500 && requestId === undefined);
  return isAway ? 'UNAVAILABLE' : 'INTERNAL';
}
