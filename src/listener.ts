import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { isPreflight, type Origins } from './access/origins.ts';
import { DomainError, internal } from './domain/errors.ts';
import { wantsPage, withoutWeights } from './graphql/accept.ts';
import type { answerQueries } from './graphql/direct.ts';
import { refusalReply } from './graphql/errors.ts';
import { graphiQLPage } from './graphql/graphiql.ts';
import type { ServerContext } from './graphql/plugin.ts';
import type { createGraphQLServer } from './graphql/yoga.ts';
import { Exchange } from './http/exchange.ts';
import { pageReply } from './http/page.ts';
import { protocolFault } from './http/protocol.ts';
import type { Reply, Responder } from './http/respond.ts';
import type { answerRest } from './rest/answer.ts';
import { problemReply } from './rest/problem.ts';

interface ListenerOptions {
  readonly log: Logger;
  readonly origins: Origins;
  readonly responder: Responder;
  readonly rest: ReturnType<typeof answerRest>;
  readonly queries: ReturnType<typeof answerQueries>;
  /** Loads Yoga for the first request that needs it. */
  readonly yoga: () => Promise<ReturnType<typeof createGraphQLServer>>;
}

/**
 * Routes requests to REST and GraphQL. Yoga turns each request into one of the Fetch standard, so it gets only what
 * nothing else answers.
 */
export function createListener({ log, origins, responder, rest, queries, yoga }: ListenerOptions) {
  async function replyTo(exchange: Exchange, res: ServerResponse): Promise<Reply | undefined> {
    const { req, path } = exchange;
    const fault = protocolFault(req);
    if (fault !== undefined) return refused(exchange, fault);
    if (isPreflight(req)) return { status: 204, headers: origins.preflightHeaders(req.headers) };
    if (path !== '/graphql') return await rest(exchange, res);
    if (wantsPage(req)) return pageReply(await graphiQLPage(req.headers['accept-encoding']), exchange);
    if (req.headers.accept !== undefined) req.headers.accept = withoutWeights(req.headers.accept);
    if (!URL.canParse(`http://${req.headers.host ?? 'localhost'}${req.url}`)) {
      return refusalReply(new DomainError('BAD_REQUEST', 'The request target and `Host` do not form a URL.'), exchange);
    }
    return await queries(exchange);
  }

  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const exchange = new Exchange(req);
    try {
      const reply = await replyTo(exchange, res);
      if (reply === undefined) await (await yoga())(req, res, { exchange } as ServerContext);
      else await responder.send(exchange, res, reply);
    } catch (error) {
      if (res.headersSent) throw error;
      // Lazy loading or creation failed, for example for lack of file descriptors.
      log.error({ requestId: exchange.requestId, traceId: exchange.traceId, err: error }, 'request failed');
      await responder.send(exchange, res, refused(exchange, internal(error)));
    }
  };
}

function refused(exchange: Exchange, error: DomainError): Reply {
  exchange.code = error.code;
  return exchange.path === '/graphql' ? refusalReply(error, exchange) : problemReply(error, exchange);
}
