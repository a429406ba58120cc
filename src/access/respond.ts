import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Account } from '../domain/accounts.ts';
import type { DomainError } from '../domain/errors.ts';
import type { RateLimit, Telemetry } from '../domain/ports.ts';
import { endsConnection, linger } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { Origins } from './origins.ts';
import { withoutSecrets } from './secrets.ts';
import { ordinaryBytes, type UnsentAnswers } from './unsent.ts';

/** What a face answers to a request. */
export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  /** Text, or bytes, that are sent at once, or piece by piece as the client takes it. */
  readonly body?: string | Uint8Array | AsyncIterable<string> | undefined;
}

/** The headers that an error brings beside its body, on either face. */
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
  readonly unsent: UnsentAnswers;
}

/**
 * What every answer has in common, whichever face gives it: the request's id, the account's limits, which pages
 * may read it, whether it ends the connection, and a line in the log.
 */
export class Responder {
  readonly #log: Logger;
  readonly #origins: Origins;
  readonly #telemetry: Telemetry;
  readonly #unsent: UnsentAnswers;

  constructor({ log, origins, telemetry, unsent }: ResponderOptions) {
    this.#log = log;
    this.#unsent = unsent;
    this.#origins = origins;
    this.#telemetry = telemetry;
  }

  /** Writes an answer. Resolves when all of it was handed over, or nobody takes it any more. */
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
      res.end(Buffer.from(body)); // of a text its connection would count the characters
    else res.end(body, length === body.length ? 'latin1' : 'utf8'); // ASCII needs no encoding
    if (length > ordinaryBytes) this.#unsent.note(exchange.req.socket, exchange.account?.id);
  }

  /** Notes what somebody else is about to write. */
  noteSoon({ req, account }: Exchange): void {
    setImmediate(() => this.#unsent.note(req.socket, account?.id));
  }

  /** Notes how an exchange ends, and gives the headers that its answer has beside its own. */
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
    if (!exchange.isProbe) tell(this.#telemetry, exchange, status, durationMs);
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

/** A REST request is one call. Those of a GraphQL request are told of one by one, as they end. */
function tell(telemetry: Telemetry, { face, operation, code }: Exchange, status: number, durationMs: number): void {
  telemetry.answered(face, status, durationMs);
  if (face === 'graphql' && operation !== undefined) return;
  telemetry.called(face, operation, code ?? 'OK', durationMs);
}

/** draft-ietf-httpapi-ratelimit-headers-10, and the older X-RateLimit headers beside it. */
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
 * Sends piece by piece, at the pace of the client. When it has gone, the source is told to stop.
 * @param onFull called when a piece was not taken at once
 */
async function stream(res: ServerResponse, pieces: AsyncIterable<string>, onFull: () => void): Promise<void> {
  res.flushHeaders();
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  for await (const piece of pieces) {
    if (res.destroyed) break;
    if (!res.write(piece)) {
      const drained = once(res, 'drain', { signal: gone.signal }).catch(() => {});
      onFull();
      await drained;
    }
    if (res.destroyed) break;
  }
  res.end();
}
