import type { Plugin } from 'graphql-yoga';
import type { Logger } from 'pino';
import type { Account } from '../domain/accounts.ts';
import type { Clock, RateLimit, Telemetry } from '../domain/ports.ts';
import { endsConnection, linger } from './body.ts';
import { Exchange, type ServerContext } from './exchange.ts';
import { isPreflight, type Origins } from './origins.ts';

/**
 * What every response has in common, whichever face gives it: the request's id, the account's limits,
 * which pages may read it, whether it ends the connection, and a line in the log. Preflights are
 * answered here for both faces.
 */
export function useExchange({
  clock,
  log,
  origins,
  telemetry,
}: {
  clock: Clock;
  log: Logger;
  origins: Origins;
  telemetry: Telemetry;
}): Plugin<object, ServerContext> {
  return {
    onRequest({ serverContext, endResponse, fetchAPI }) {
      const { req } = serverContext;
      serverContext.exchange = new Exchange(req);
      if (!isPreflight(req)) return;
      endResponse(new fetchAPI.Response(null, { status: 204, headers: origins.preflightHeaders(req.headers) }));
    },
    onResponse({ response, serverContext }) {
      // Yoga's own pages are answered before the hook above has run.
      const exchange = serverContext.exchange ?? new Exchange(serverContext.req);
      const { headers } = response;
      if (endsConnection(response.status, exchange.req)) {
        headers.set('Connection', 'close');
        linger(exchange.req);
      }
      headers.set('X-Request-Id', exchange.requestId);
      headers.set('X-Content-Type-Options', 'nosniff');
      for (const [name, value] of origins.headersFor(exchange.req.headers)) headers.append(name, value);
      const { account, rateLimit } = exchange;
      if (account !== undefined && rateLimit !== undefined) {
        for (const [name, value] of rateLimitHeaders(account, rateLimit, clock.now())) headers.set(name, value);
      }
      const durationMs = performance.now() - exchange.startedMs;
      if (!exchange.isProbe) tell(telemetry, exchange, response.status, durationMs);
      log[exchange.isProbe ? 'debug' : 'info'](
        {
          requestId: exchange.requestId,
          traceId: exchange.traceId,
          method: exchange.method,
          path: exchange.path,
          operation: exchange.operation,
          accountId: account?.id,
          status: response.status,
          durationMs: Math.round(durationMs * 100) / 100,
        },
        'request',
      );
    },
  };
}

/** A REST request is one call. Those of a GraphQL request are told of one by one, as they end. */
function tell(telemetry: Telemetry, { face, operation, code }: Exchange, status: number, durationMs: number): void {
  telemetry.answered(face, status, durationMs);
  if (face === 'graphql' && operation !== undefined) return;
  telemetry.called(face, operation, code ?? 'OK', durationMs);
}

/** draft-ietf-httpapi-ratelimit-headers-10, and the older X-RateLimit headers beside it. */
function rateLimitHeaders(
  account: Account,
  { limit, remaining, resetAtMs }: RateLimit,
  nowMs: number,
): [string, string][] {
  const name = account.plan;
  const resetSeconds = Math.max(0, Math.ceil((resetAtMs - nowMs) / 1_000));
  return [
    ['RateLimit-Policy', `"${name}";q=${limit};w=3600`],
    ['RateLimit', `"${name}";r=${remaining};t=${resetSeconds}`],
    ['X-RateLimit-Limit', String(limit)],
    ['X-RateLimit-Remaining', String(remaining)],
    ['X-RateLimit-Reset', String(Math.ceil(resetAtMs / 1_000))],
  ];
}
