import { randomFillSync } from 'node:crypto';
import type { Server } from 'node:http';
import type { LookupFunction } from 'node:net';
import { createLRUCache, createYoga } from 'graphql-yoga';
import type { Logger } from 'pino';
import { Door } from './access/admit.ts';
import type { ServerContext } from './access/exchange.ts';
import { Origins } from './access/origins.ts';
import { useExchange } from './access/plugin.ts';
import { RateLimiter } from './access/rate-limit.ts';
import { secrets } from './access/secrets.ts';
import { Sessions } from './access/sessions.ts';
import { defaultTimings, type StreamTimings } from './access/timings.ts';
import { Tokens } from './access/tokens.ts';
import { type AddressPolicy, guardedConnector, webhookTargets } from './delivery/address-guard.ts';
import { LiveLog } from './delivery/live.ts';
import { Post } from './delivery/post.ts';
import { WebhookSender } from './delivery/webhooks.ts';
import { idempotencyMs } from './domain/idempotency.ts';
import { createIds } from './domain/ids.ts';
import type { Clock, Storage, World } from './domain/ports.ts';
import type { GraphQLContext } from './graphql/builder.ts';
import { useGraphQL } from './graphql/plugin.ts';
import { schema } from './graphql/schema.ts';
import { attachSocket } from './graphql/socket.ts';
import { useRest } from './rest/plugin.ts';
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
  /** Another way to find the addresses of webhooks than the system's, for tests. */
  readonly lookup?: LookupFunction | undefined;
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
  /** The request listener for a Node HTTP server. */
  readonly yoga: ReturnType<typeof createYoga<ServerContext, GraphQLContext>>;
  readonly sessions: Sessions;
  readonly liveLog: LiveLog;
  /** Sends webhooks, once it is started. */
  readonly webhooks: WebhookSender;
  /** Serves GraphQL on sockets of the server that the yoga listens on. */
  attachSocket(server: Server): { close(graceMs: number): void };
  /** From here on it says that it is not ready: no more requests should be sent to it. */
  drain(): void;
  /**
   * Does what is due from time to time: hands back what the limiter holds of minutes that have passed,
   * and removes what is kept for a while only, in small steps. To be called every minute or so.
   */
  tick(): Promise<void>;
  /** Gives up webhooks in flight, and hands back all that the limiter holds. The storage is its owner's to close. */
  close(): Promise<void>;
}

/** Brings everything together: one Yoga server with both faces. It never listens; `cli/serve.ts` does. */
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
  const connect = guardedConnector(webhookPolicy, timings.webhookConnectMs, options.lookup);
  const post = new Post(connect, timings.webhookTotalMs);
  const webhooks = new WebhookSender({ storage, clock, ids: world.ids, post, log, telemetry: metrics });
  const origins = new Origins({ publicUrl, listed: corsOrigins });
  const door = new Door(world, limiter, {
    tokens,
    origins,
    trustedProxies,
    onError: (error) => log.warn({ err: error }, 'could not note the use of a key'),
  });
  const probes = new StatusProbes({ storage, clock, log, metrics, sessions, liveLog });
  const yoga = createYoga<ServerContext, GraphQLContext>({
    schema,
    plugins: [
      useExchange({ clock, log, origins, telemetry: metrics }),
      useRest(world, { door, sessions, timings, log, probes, publicUrl, routes: options.routes }),
      useGraphQL(world, { door, sessions, timings, log, telemetry: metrics }),
    ],
    // Yoga would take any URL that ends in its endpoint for GraphiQL's, and for the health check's.
    graphiql: (_request, context) =>
      /^\/graphql(\?|$)/.test(context?.req.url ?? '') && { title: 'Conversation service', defaultQuery: welcomeQuery },
    healthCheckEndpoint: ' ', // no URL ends in a space
    // What is kept must not grow with the length of what clients send.
    parserAndValidationCache: { documentCache: cacheOfShortDocuments(), errorCache: cacheOfShortDocuments() },
    renderGraphiQL: async (options) => (await import('@graphql-yoga/render-graphiql')).renderGraphiQL(options),
    batching: true,
    // Each of these is done by our own plugins, on both faces alike.
    cors: false,
    logging: false,
    maskedErrors: false,
    landingPage: false,
    multipart: false,
    maxRequestBodySize: false,
  });
  /** Removes what is kept for a while only. */
  async function removeOldest(): Promise<void> {
    const oldestMs = clock.now() - eventRetentionMs;
    // Deliveries before events: none must outlive what it delivers.
    await removeOld(storage, 'deliveries', oldestMs);
    await removeOld(storage, 'events', oldestMs);
    await removeOld(storage, 'keptResults', clock.now() - idempotencyMs);
  }

  return {
    world,
    yoga,
    sessions,
    liveLog,
    webhooks,
    attachSocket: (server) =>
      attachSocket(server, world, { schema, door, origins, sessions, timings, telemetry: metrics, log, onError }),
    drain: () => probes.drain(),
    async tick() {
      // Neither is kept from its work by what keeps the other from it.
      const onFailure = (error: unknown): void => log.warn({ err: error }, 'could not remove what is old');
      await Promise.all([limiter.handBack(), removeOldest().catch(onFailure)]);
    },
    async close() {
      await webhooks.stop(0);
      await limiter.handBack({ all: true });
    },
  };
}

const maxCachedDocuments = 256;
/** In characters; a longer document is parsed each time it comes. */
const maxCachedLength = 8 * 1024;

function cacheOfShortDocuments<T extends object>() {
  const cache = createLRUCache<T>({ max: maxCachedDocuments });
  return {
    get: (document: string) => cache.get(document),
    set: (document: string, value: T) => {
      if (document.length <= maxCachedLength) cache.set(document, value);
    },
  };
}

/** How much one transaction removes: other writes come in between. */
const pruneStep = 500;

async function removeOld(
  storage: Storage,
  kind: 'deliveries' | 'events' | 'keptResults',
  beforeMs: number,
): Promise<void> {
  let removed = pruneStep;
  while (removed === pruneStep) removed = await storage.write(async (tx) => await tx[kind].prune(beforeMs, pruneStep));
}

const welcomeQuery = `# Put your API key under "Headers" below: { "Authorization": "Bearer cs_…" }
{
  account { name plan rateLimit { remaining resetAt } }
  conversations(first: 5) {
    totalCount
    nodes { id status subject messages(last: 1) { nodes { sender content } } }
  }
}
`;
