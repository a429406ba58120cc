import { randomFillSync } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { Door } from './access/admit.ts';
import { Exchange } from './access/exchange.ts';
import { isPreflight, Origins } from './access/origins.ts';
import { pageReply } from './access/page.ts';
import { protocolFault } from './access/protocol.ts';
import { RateLimiter } from './access/rate-limit.ts';
import { type Reply, Responder } from './access/respond.ts';
import { secrets } from './access/secrets.ts';
import { Sessions } from './access/sessions.ts';
import { defaultTimings, type StreamTimings } from './access/timings.ts';
import { Tokens } from './access/tokens.ts';
import { Turnstile } from './access/turnstile.ts';
import { UnsentAnswers } from './access/unsent.ts';
import { type AddressPolicy, webhookTargets } from './delivery/address-guard.ts';
import { LiveLog } from './delivery/live-log.ts';
import { ThreadedWebhookClient } from './delivery/threaded-webhook-client.ts';
import { WebhookSender } from './delivery/webhook-sender.ts';
import { finishErasures } from './domain/conversations.ts';
import { DomainError, internal } from './domain/errors.ts';
import { createIds } from './domain/ids.ts';
import { lazily } from './domain/lazily.ts';
import type { Clock, Storage, World } from './domain/ports.ts';
import { removeOld } from './domain/retention.ts';
import { wantsPage, withoutWeights } from './graphql/accept.ts';
import { answerQueries } from './graphql/direct.ts';
import { Documents } from './graphql/documents.ts';
import { refusalReply } from './graphql/errors.ts';
import { graphiQLPage } from './graphql/graphiql.ts';
import type { ServerContext } from './graphql/plugin.ts';
import { schema } from './graphql/schema.ts';
import { attachSocket } from './graphql/socket.ts';
import { answerRest } from './rest/answer.ts';
import { problemReply } from './rest/problem.ts';
import type { Route } from './rest/routes.ts';
import { Metrics } from './telemetry/metrics.ts';
import { StatusProbes } from './telemetry/probes.ts';

export interface AppOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  readonly publicUrl?: string | undefined;
  /** Origins whose pages may call with tokens. */
  readonly corsOrigins?: readonly string[] | undefined;
  readonly trustedProxies?: number;
  /** Events older than this are removed. */
  readonly eventRetentionMs?: number;
  /** Where webhooks may be sent; by default only to the public internet, by `https`. */
  readonly webhookPolicy?: AddressPolicy;
  /** Where it counts what it does; with its own it cannot know what the storage does. */
  readonly metrics?: Metrics;
  /** Other times than the contract's, for tests. */
  readonly timings?: Partial<StreamTimings & DeliveryTimings> | undefined;
  /** Other name servers to find webhooks by than the system's, for tests. */
  readonly nameServers?: readonly string[] | undefined;
  /** Other REST routes than the service's own, for tests. */
  readonly routes?: readonly Route[] | undefined;
}

export interface DeliveryTimings {
  /** How long a connection to a webhook may take. */
  readonly webhookConnectMs: number;
  /** How long an attempt may take in all. */
  readonly webhookTotalMs: number;
}

const defaultDeliveryTimings: DeliveryTimings = { webhookConnectMs: 5_000, webhookTotalMs: 15_000 };
const publicOnly: AddressPolicy = { allowHttp: false, allowPrivate: false };

export interface App {
  readonly world: World;
  /** The request listener for a Node HTTP server: REST, and what Yoga serves at `/graphql`. */
  listener(req: IncomingMessage, res: ServerResponse): Promise<void>;
  readonly sessions: Sessions;
  readonly liveLog: LiveLog;
  /** Sends webhooks, once it is started. */
  readonly webhooks: WebhookSender;
  /** Loads what the first request that needs it would wait for. To be called when requests are served already. */
  preload(): Promise<void>;
  /** Serves GraphQL on sockets of the server that it listens on. */
  attachSocket(server: Server): { close(graceMs: number): void };
  /** From here on it says that it is not ready: no more requests should be sent to it. */
  drain(): void;
  /**
   * Does what is due from time to time: hands back what the limiter holds of minutes that have passed,
   * removes what is kept for a while only, in small steps, and ends erasures that others could not,
   * unless the last call is still at that. To be called every minute or so.
   */
  tick(): Promise<void>;
  /** Ends the erasures in the midst of which a process was killed. To be called at the start, when requests are served. */
  finishErasures(): Promise<void>;
  /** Gives up webhooks in flight, and hands back all that the limiter holds. The storage is its owner's to close. */
  close(): Promise<void>;
}

/** Brings everything together: both faces behind one listener, and Yoga behind GraphQL. It never listens; `cli/server.ts` does. */
export function buildApp(options: AppOptions): App {
  const {
    storage,
    clock,
    log,
    publicUrl,
    corsOrigins,
    trustedProxies = 0,
    eventRetentionMs = 30 * 24 * 3_600_000,
    metrics = new Metrics(),
  } = options;
  const timings = { ...defaultTimings, ...defaultDeliveryTimings, ...options.timings };
  const webhookPolicy = options.webhookPolicy ?? publicOnly;
  const onError = (error: unknown): void => log.error({ err: error }, 'something failed in the background');
  const tokens = new Tokens({ storage, clock });
  const limiter = new RateLimiter({ storage, clock });
  const liveLog = new LiveLog(storage, (error) => log.warn({ err: error }, 'could not read on in an event log'));
  const sessions = new Sessions({ storage, clock, onError });
  const world: World = {
    storage,
    liveEvents: liveLog,
    clock,
    ids: createIds((target) => randomFillSync(target)),
    secrets,
    tokens,
    limiter,
    webhookTargets: webhookTargets(webhookPolicy),
  };
  const webhookClient = new ThreadedWebhookClient({
    policy: webhookPolicy,
    connectMs: timings.webhookConnectMs,
    totalMs: timings.webhookTotalMs,
    nameServers: options.nameServers,
  });
  const webhooks = new WebhookSender({
    storage,
    clock,
    ids: world.ids,
    client: webhookClient,
    log,
    telemetry: metrics,
  });
  const origins = new Origins({ publicUrl, listed: corsOrigins });
  const turnstile = new Turnstile({
    storage,
    onRefusal: (refused) => log.warn({ refused }, 'more is asked than can be answered in time; some was refused'),
  });
  const door = new Door(world, limiter, {
    turnstile,
    tokens,
    origins,
    trustedProxies,
    onError: (error) => log.warn({ err: error }, 'could not note the use of a key'),
  });
  const probes = new StatusProbes({ storage, clock, log, metrics, sessions, liveLog, turnstile });
  const unsent = new UnsentAnswers(log);
  const responder = new Responder({ log, origins, telemetry: metrics, unsent });
  const rest = answerRest(world, { door, sessions, timings, log, probes, publicUrl, routes: options.routes });
  const documents = new Documents(schema);
  const queries = answerQueries(world, { schema, documents, door, timings, telemetry: metrics });
  const graphQLOptions = { documents, door, responder, sessions, timings, log, telemetry: metrics };
  /** Yoga, which takes as long to load as a third of all else, and which not every request needs. */
  const yoga = lazily(async () => {
    const { createGraphQLServer } = await import('./graphql/yoga.ts');
    return createGraphQLServer(world, graphQLOptions);
  });

  /** Yoga turns each request into one of the Fetch standard: what has no use for that is answered before it. */
  async function listener(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const exchange = new Exchange(req);
    try {
      const reply = await replyTo(exchange, res);
      if (reply === undefined) await (await yoga())(req, res, { exchange } as ServerContext);
      else await responder.send(exchange, res, reply);
    } catch (error) {
      if (res.headersSent) throw error;
      // Something was to be loaded or made for the first time, and there were no file descriptors, say.
      log.error({ requestId: exchange.requestId, traceId: exchange.traceId, err: error }, 'request failed');
      await responder.send(exchange, res, refused(exchange, internal(error)));
    }
  }

  function refused(exchange: Exchange, error: DomainError): Reply {
    exchange.code = error.code;
    return exchange.path === '/graphql' ? refusalReply(error, exchange) : problemReply(error, exchange);
  }

  async function replyTo(exchange: Exchange, res: ServerResponse): Promise<Reply | undefined> {
    const { req, path } = exchange;
    const fault = protocolFault(req);
    if (fault !== undefined) return refused(exchange, fault);
    if (isPreflight(req)) return { status: 204, headers: origins.preflightHeaders(req.headers) };
    if (path !== '/graphql') return await rest(exchange, res);
    if (wantsPage(req)) return pageReply(await graphiQLPage(req.headers['accept-encoding']), exchange);
    if (req.headers.accept !== undefined) req.headers.accept = withoutWeights(req.headers.accept);
    if (!URL.canParse(`http://${req.headers.host ?? 'localhost'}${req.url}`)) {
      return refusalReply(new DomainError('BAD_REQUEST', 'The header `Host` and the target make no URL.'), exchange);
    }
    return await queries(exchange);
  }

  const endErasures = async (): Promise<void> => {
    const count = await finishErasures(storage);
    if (count > 0) log.info({ count }, 'finished erasing conversations');
  };

  const removeAndErase = async (): Promise<void> => {
    await removeOld(storage, clock.now(), eventRetentionMs);
    await endErasures();
  };
  /** It can take longer than the time between two ticks, and several beside each other would only be in each other's way. */
  let removing: Promise<void> | undefined;

  return {
    world,
    listener,
    sessions,
    liveLog,
    webhooks,
    attachSocket: (server) =>
      attachSocket(server, world, {
        schema,
        documents,
        door,
        origins,
        sessions,
        timings,
        telemetry: metrics,
        unsent,
        problemReply,
        log,
        onError,
      }),
    async preload() {
      await Promise.all([yoga(), tokens.load()]);
    },
    drain: () => probes.drain(),
    async tick() {
      // None is kept from its work by what keeps another from it.
      const onFailure = (error: unknown): void => log.warn({ err: error }, 'could not remove what is old');
      removing ??= removeAndErase()
        .catch(onFailure)
        .finally(() => {
          removing = undefined;
        });
      await Promise.all([limiter.handBack(), removing]);
    },
    finishErasures: endErasures,
    async close() {
      await webhooks.stop(0);
      // On a full disk, say, or in a file that a newer version has taken over, that cannot be. Then it counts as spent.
      await limiter.handBack({ all: true }).catch((error: unknown) => {
        log.warn({ err: error }, 'could not hand back what was reserved of limits');
      });
    },
  };
}
