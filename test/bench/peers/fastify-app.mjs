import fastify, { LogController } from 'fastify';
import { accountOf, limitHeaders, log, requestIdOf } from './duties.mjs';

// Fastify with the duties of every peer as its hooks.

const logController = new LogController({ disableRequestLogging: true }); // it would log two lines a request
export const app = fastify({ loggerInstance: log, logController, genReqId: requestIdOf });

app.decorateRequest('accountId', '');
app.addHook('onRequest', async (request, reply) => {
  reply.header('X-Request-Id', request.id);
  const accountId = await accountOf(request.headers.authorization);
  if (accountId === undefined) return reply.code(401).send({ title: 'Unauthorized', status: 401 });
  request.accountId = accountId;
  reply.headers(limitHeaders(accountId));
});
app.addHook('onResponse', async ({ log, method, url, accountId }, { statusCode, elapsedTime }) => {
  log.info({ method, path: url, status: statusCode, accountId, durationMs: elapsedTime }, 'request');
});
