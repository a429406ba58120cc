import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Origins } from '../access/origins.ts';
import { withoutSecrets } from '../access/secrets.ts';
import type { Account } from '../domain/accounts.ts';
import type { DomainError } from '../domain/errors.ts';
import type { RateLimit, Telemetry } from '../domain/ports.ts';
import { endsConnection, linger } from './body.ts';
import type { Exchange } from './exchange.ts';
import { ordinaryBytes, type UnsentResponses } from './unsent-responses.ts';

/** The response to a request. */
export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  /** Text or bytes, sent at once, or chunks that are sent as fast as the client reads. */
  readonly body?: string | Uint8Array | AsyncIterable<string> | undefined;
}

/** The headers of an error response, for REST and GraphQL. */
export function headersOfError({ code, facts: { allow, retryAfterSeconds } }: DomainError): Record<string, string> {
  return {
    ...(code === 'UNAUTHENTICATED' ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(allow === undefined ? {} : { Allow: allow.join(', ') }),
    ...(retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }),
  };
}

export interface ResponderOptions {
  readonly log: Logger;
  readonly origins: Origins;
  readonly telemetry: Telemetry;
  readonly unsent: UnsentResponses;
}

/**
 * What the responses of REST and GraphQL have in common: request id, rate limit and CORS headers, whether to end the
 * connection, metrics and a log line.
 */
export class Responder {
  readonly #log: Logger;
  readonly #origins: Origins;
  readonly #telemetry: Telemetry;
  readonly #unsent: UnsentResponses;

  constructor({ log, origins, telemetry, unsent }: ResponderOptions) {
    this.#log = log;
    this.#unsent = unsent;
    this.#origins = origins;
    this.#telemetry = telemetry;
  }

  /** Writes a response. Resolves when all of it was handed to Node, or the client has disconnected. */
  async send(exchange: Exchange, res: ServerResponse, { status, headers, body }: Reply): Promise<void> {
    this.complete(exchange, status, (name, value) => {
      headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
    });
    if (typeof body === 'object' && Symbol.asyncIterator in body) {
      const onFull = (): void => this.#unsent.note(exchange.req.socket, exchange.account?.id);
      if (!res.destroyed) await stream(res.writeHead(status, headers), body, onFull);
      return;
    }
    const length = body === undefined ? 0 : Buffer.byteLength(body);
    if (body !== undefined) headers['Content-Length'] = String(length);
    if (res.destroyed) return;
    res.writeHead(status, headers);
    if (body === undefined || exchange.method === 'HEAD') res.end();
    else if (typeof body !== 'string') res.end(body);
    else if (length > ordinaryBytes)
      res.end(Buffer.from(body)); // the connection counts the characters of a string, not its bytes
    else res.end(body, length === body.length ? 'latin1' : 'utf8'); // ASCII needs no encoding
    if (length > ordinaryBytes) this.#unsent.note(exchange.req.socket, exchange.account?.id);
  }

  /** For responses that Yoga writes: notes the connection once they are written. */
  noteSoon({ req, account }: Exchange): void {
    setImmediate(() => this.#unsent.note(req.socket, account?.id));
  }

  /** Counts and logs an exchange, and adds the common headers to its response. */
  complete(exchange: Exchange, status: number, addHeader: (name: string, value: string) => void): void {
    const { req, requestId, account, rateLimit } = exchange;
    if (endsConnection(status, req)) {
      addHeader('Connection', 'close');
      linger(req);
    }
    addHeader('X-Request-Id', requestId);
    addHeader('X-Content-Type-Options', 'nosniff');
    for (const [name, value] of this.#origins.headersFor(req.headers)) addHeader(name, value);
    if (account !== undefined && rateLimit !== undefined) {
      addRateLimit(account, rateLimit, addHeader);
    }
    const durationMs = performance.now() - exchange.startedMs;
    if (!exchange.isProbe) measure(this.#telemetry, exchange, status, durationMs);
    this.#log[exchange.isProbe || exchange.isLoggedInAggregate ? 'debug' : 'info'](
      {
        requestId,
        traceId: exchange.traceId,
        method: exchange.method,
        path: withoutSecrets(exchange.path),
        operation: exchange.operation,
        accountId: account?.id,
        status,
        durationMs: Math.round(durationMs * 100) / 100,
      },
      'request',
    );
  }
}

/** A REST request is one call. The operations of a GraphQL request are counted one by one, as they end. */
function measure(telemetry: Telemetry, { face, operation, code }: Exchange, status: number, durationMs: number): void {
  telemetry.answered(face, status, durationMs);
  if (face === 'graphql' && operation !== undefined) return;
  telemetry.called(face, operation, code ?? 'OK', durationMs);
}

/** draft-ietf-httpapi-ratelimit-headers-10, and the older X-RateLimit headers. */
function addRateLimit(
  { plan }: Account,
  { limit, remaining, resetAtMs, resetAfterSeconds }: RateLimit,
  addHeader: (name: string, value: string) => void,
): void {
  addHeader('RateLimit-Policy', `"${plan}";q=${limit};w=3600`);
  addHeader('RateLimit', `"${plan}";r=${remaining};t=${resetAfterSeconds}`);
  addHeader('X-RateLimit-Limit', String(limit));
  addHeader('X-RateLimit-Remaining', String(remaining));
  addHeader('X-RateLimit-Reset', String(Math.ceil(resetAtMs / 1_000)));
}

/**
 * Streams with backpressure. When the client disconnects, leaving the loop ends the source.
 * @param onFull called when a piece could not be written at once
 */
async function stream(res: ServerResponse, pieces: AsyncIterable<string>, onFull: () => void): Promise<void> {
  res.flushHeaders();
  const disconnected = new AbortController();
  res.once('close', () => disconnected.abort());
  for await (const piece of pieces) {
    if (res.destroyed) break;
    if (!res.write(piece)) {
      const drained = once(res, 'drain', { signal: disconnected.signal }).catch(() => {});
      onFull();
      await drained;
    }
    if (res.destroyed) break;
  }
  res.end();
}
