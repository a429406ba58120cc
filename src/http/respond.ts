import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { corsHeaders } from '../access/origins.ts';
import { maxShownPath, withoutSecrets } from '../access/secrets.ts';
import type { Account } from '../domain/accounts.ts';
import { DomainError, type ErrorCode } from '../domain/errors.ts';
import type { RateLimit, Telemetry } from '../domain/ports.ts';
import { endsConnection, linger } from './linger.ts';
import type { RequestContext } from './request-context.ts';
import type { RequestLog } from './request-log.ts';
import type { UnsentResponses } from './unsent-responses.ts';

/** Longer texts are sent as bytes: of a text, its connection counts the characters. */
const longBytes = 128 * 1024;

/** The response to a request. */
export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  /** Text or bytes, sent at once, or chunks that are sent as fast as the client reads. */
  readonly body?: string | Uint8Array | AsyncIterable<string> | undefined;
}

/** The headers of an error response, on every face. */
export function headersOfError({ code, facts: { allow, retryAfterSeconds } }: DomainError): Record<string, string> {
  return {
    ...(code === 'UNAUTHENTICATED' ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(allow === undefined ? {} : { Allow: allow.join(', ') }),
    ...(retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }),
  };
}

interface ResponderOptions {
  readonly log: Logger;
  readonly requestLog: RequestLog;
  readonly telemetry: Telemetry;
  readonly unsent: UnsentResponses;
}

/**
 * What the responses of all faces have in common: request id, rate limit and CORS headers, whether to end the
 * connection, metrics and a log line.
 */
export class Responder {
  readonly #log: Logger;
  readonly #requestLog: RequestLog;
  readonly #telemetry: Telemetry;
  readonly #unsent: UnsentResponses;

  constructor({ log, requestLog, telemetry, unsent }: ResponderOptions) {
    this.#log = log;
    this.#requestLog = requestLog;
    this.#unsent = unsent;
    this.#telemetry = telemetry;
  }

  /**
   * Writes a response on Node's own. Resolves when all of it was handed to Node, or the client has disconnected. Never
   * rejects: when it fails, the connection ends.
   */
  async send(http: RequestContext, reply: Reply): Promise<void> {
    try {
      await this.#write(http, reply);
    } catch (error) {
      this.#requestLog.failed(http, error);
      http.res.destroy();
    }
  }

  async #write(http: RequestContext, { status, headers, body }: Reply): Promise<void> {
    const { req, res, method, caller } = http;
    this.complete(http, status, (name, value) => {
      headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
    });
    const isWhole = typeof body !== 'object' || !(Symbol.asyncIterator in body);
    const length = isWhole && body !== undefined ? Buffer.byteLength(body) : 0;
    if (isWhole && body !== undefined) headers['Content-Length'] = String(length);
    if (res.destroyed) return;
    res.writeHead(status, headers);
    if (body === undefined || method === 'HEAD') res.end();
    else if (!isWhole) await stream(res, body, () => this.#unsent.note(req.socket, caller));
    else if (typeof body !== 'string') res.end(body);
    else if (length > longBytes) res.end(Buffer.from(body));
    else res.end(body, length === body.length ? 'latin1' : 'utf8'); // ASCII needs no encoding
    this.#unsent.note(req.socket, caller);
  }

  /** For responses that Yoga writes: notes the connection once they are written. */
  noteSoon({ req, caller }: RequestContext): void {
    setImmediate(() => this.#unsent.note(req.socket, caller));
  }

  /** Counts and logs a request, and adds the common headers to its response. */
  complete(http: RequestContext, status: number, addHeader: (name: string, value: string) => void): void {
    const { req, requestId, path, caller, rateLimit, isProbe } = http;
    const account = caller?.account;
    // After a violation of HTTP, what follows cannot be trusted.
    if (http.fault !== undefined || endsConnection(status, req)) {
      addHeader('Connection', 'close');
      linger(req);
    }
    http.noteOwner();
    http.forgetParameters();
    addHeader('X-Request-Id', requestId);
    addHeader('X-Content-Type-Options', 'nosniff');
    for (const [name, value] of corsHeaders(http.listedOrigin)) addHeader(name, value);
    if (account !== undefined && rateLimit !== undefined) {
      addRateLimit(account, rateLimit, addHeader);
    }
    const durationMs = performance.now() - http.startedMs;
    if (!isProbe) measure(this.#telemetry, http, status, durationMs);
    if (!isProbe && http.charged === undefined && !this.#requestLog.hasRoom(status)) return;
    this.#log[isProbe ? 'debug' : 'info'](
      {
        requestId,
        traceId: http.traceId,
        method: http.method,
        path: withoutSecrets(path),
        pathLength: path.length > maxShownPath ? path.length : undefined,
        operation: http.operation,
        accountId: account?.id,
        status,
        durationMs: Math.round(durationMs * 100) / 100,
      },
      'request',
    );
  }
}

/** A request is one call, but for GraphQL, whose operations are counted one by one, as they end. */
function measure(
  telemetry: Telemetry,
  { face, operation, code }: RequestContext,
  status: number,
  durationMs: number,
): void {
  telemetry.answered(face, status, durationMs);
  if (face === 'graphql' && operation !== undefined) return;
  telemetry.called(face, operation, code ?? 'OK', durationMs);
}

/** draft-ietf-httpapi-ratelimit-headers-10, and the older X-RateLimit headers. */
function addRateLimit(
  { plan }: Account,
  { limit, remaining, resetAtMs, resetAfterSeconds, policy }: RateLimit,
  addHeader: (name: string, value: string) => void,
): void {
  const name = policy ?? plan;
  addHeader('RateLimit-Policy', `"${name}";q=${limit};w=3600`);
  addHeader('RateLimit', `"${name}";r=${remaining};t=${resetAfterSeconds}`);
  addHeader('X-RateLimit-Limit', String(limit));
  addHeader('X-RateLimit-Remaining', String(remaining));
  addHeader('X-RateLimit-Reset', String(Math.ceil(resetAtMs / 1_000)));
}

/** What an answer that has begun may end with. */
const expectedCodes: readonly ErrorCode[] = ['NOT_FOUND', 'UNAUTHENTICATED'];

/**
 * Streams with backpressure. When the client disconnects, leaving the loop ends the source. When the source fails, the
 * response is cut off: its status has been sent, and an end would let it pass for a whole one.
 * @param onFull called when a piece could not be written at once
 * @throws what the source throws, unless a change of the data or the end of the credential explains it
 */
async function stream(res: ServerResponse, pieces: AsyncIterable<string>, onFull: () => void): Promise<void> {
  res.flushHeaders();
  const disconnected = new AbortController();
  res.once('close', () => disconnected.abort());
  const source = pieces[Symbol.asyncIterator]();
  /** A call of its own, which ends before the next piece is waited for: a loop would keep the last one until then. */
  const writeNext = async (): Promise<boolean> => {
    const next = await source.next();
    if (next.done === true || res.destroyed) return false;
    if (!res.write(next.value)) {
      const drained = once(res, 'drain', { signal: disconnected.signal }).catch(() => {});
      onFull();
      await drained;
    }
    return !res.destroyed;
  };
  try {
    while (await writeNext());
    await source.return?.();
    res.end();
  } catch (error) {
    res.destroy();
    if (!(error instanceof DomainError) || !expectedCodes.includes(error.code)) throw error;
  }
}
