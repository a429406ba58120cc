import type { RequestListener, Server } from 'node:http';
import { createYoga } from 'graphql-yoga';
import type { Logger } from 'pino';
import { Admission } from './access/admission.ts';
import { LoadShedder } from './access/load-shedder.ts';
import { Origins } from './access/origins.ts';
import { Sessions } from './access/sessions.ts';
import type { Config } from './config.ts';
import type { Clock, Ports } from './domain/ports.ts';
import type { Storage } from './domain/storage-port.ts';
import { LiveLog } from './events/live-log.ts';
import { Documents } from './graphql/documents.ts';
import { maxAnsweredBatch } from './graphql/limits.ts';
import { NamedDocuments } from './graphql/named-documents.ts';
import type { GraphQLParts } from './graphql/parts.ts';
import { useGraphQL } from './graphql/plugin.ts';
import { schema } from './graphql/schema.ts';
import { attachSocket } from './graphql/socket/server.ts';
import { refusedForRoom } from './http/no-room.ts';
import { RequestOfNode } from './http/node-request.ts';
import { type FaceParts, type ServerContext, useRequestContext } from './http/plugin.ts';
import { RequestLog } from './http/request-log.ts';
import { Responder } from './http/respond.ts';
import { type ConnectionTimings, defaultTimings } from './http/timings.ts';
import { UnsentResponses } from './http/unsent-responses.ts';
import { Maintenance } from './maintenance.ts';
import { useMcp } from './mcp/plugin.ts';
import { useSignIn } from './pages/sign-in.ts';
import { createPorts } from './ports.ts';
import { useRest } from './rest/plugin.ts';
import { routes as allRoutes, type Route } from './rest/routes.ts';
import { scheduler } from './runtime/scheduler.ts';
import type { Metrics, MetricsSnapshot } from './telemetry/metrics.ts';
import { StatusProbes } from './telemetry/status-probes.ts';
import { WebhookSender } from './webhooks/sender.ts';
import { ThreadedWebhookClient } from './webhooks/threaded-client.ts';

type Configured = 'publicUrl' | 'corsOrigins' | 'trustedProxies' | 'eventRetentionMs' | 'webhookPolicy';

export interface AppOptions extends Pick<Config, Configured> {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  /** Those that the storage reports to. */
  readonly metrics: Metrics;
  /** Gets the metrics of all processes that serve together, if there are others. */
  readonly scrapeAll?: (() => Promise<string>) | undefined;
  /** Overrides of the contract's timings, for tests. */
  readonly timings?: Partial<ConnectionTimings & DeliveryTimings> | undefined;
  /** Name servers that resolve webhook hosts instead of the system's, for tests. */
  readonly nameServers?: readonly string[] | undefined;
  /** REST routes instead of the service's own, for tests. */
  readonly routes?: readonly Route[] | undefined;
}

interface DeliveryTimings {
  /** Timeout of connecting to a webhook. */
  readonly webhookConnectMs: number;
  /** Timeout of a whole webhook attempt. */
  readonly webhookTotalMs: number;
}

export const defaultDeliveryTimings: DeliveryTimings = { webhookConnectMs: 5_000, webhookTotalMs: 15_000 };

export interface App {
  readonly ports: Ports;
  readonly requestLog: RequestLog;
  /** Answers every HTTP request: Yoga, with REST, GraphQL, MCP, pages and probes as its plugins. */
  readonly listener: RequestListener;
  readonly sessions: Sessions;
  readonly liveLog: LiveLog;
  /** Sends webhooks once this process leads. */
  readonly webhooks: WebhookSender;
  /** Loads modules that the first request to need them would wait for. To be called once requests are served. */
  preload(): Promise<void>;
  /** Serves GraphQL over WebSocket on connections of this server. */
  attachSocket(server: Server): { close(graceMs: number): void };
  /** Makes readiness probes fail from now on, so that no new requests are routed here. */
  drain(): void;
  /** The metrics of this process. */
  metrics(): Promise<MetricsSnapshot>;
  /** Does the periodic work of `Maintenance`. To be called about every minute. */
  tick(): Promise<void>;
  /**
   * Does from now on what one process should do for all that serve the same storage: it sends webhooks, removes what has
   * expired, and finishes what was interrupted when a process was killed. To be called once requests are served.
   */
  lead(): Promise<void>;
  /** Gives up webhooks in flight, and returns all rate-limit reservations. The caller closes the storage. */
  close(): Promise<void>;
}

/** Wires up the service: one Yoga server with its plugins, and the socket. It never listens itself; `server/server.ts` does. */
export function buildApp(options: AppOptions): App {
  const { storage, clock, log, metrics, routes = allRoutes } = options;
  const { publicUrl, corsOrigins, trustedProxies, eventRetentionMs, webhookPolicy } = options;
  const timings = { ...defaultTimings, ...defaultDeliveryTimings, ...options.timings };
  const onError = (error: unknown): void => log.error({ err: error }, 'background work failed');
  const liveLog = new LiveLog(storage, (error) => log.warn({ err: error }, 'could not read an event log; retrying'));
  const ports = createPorts({ storage, clock, webhookPolicy, liveLog });
  const { tokens, limiter } = ports;
  const sessions = new Sessions({ storage, clock, onError });
  const client = new ThreadedWebhookClient({
    policy: webhookPolicy,
    connectMs: timings.webhookConnectMs,
    totalMs: timings.webhookTotalMs,
    nameServers: options.nameServers,
  });
  const webhooks = new WebhookSender({ storage, clock, ids: ports.ids, client, log, telemetry: metrics });
  const origins = new Origins({ publicUrl, listed: corsOrigins, storage });
  const loadShedder = new LoadShedder({
    scheduler,
    storage,
    onRefusal: (refused) => log.warn({ refused }, 'overloaded: requests were refused'),
  });
  const admission = new Admission(ports, limiter, {
    loadShedder,
    origins,
    trustedProxies,
    onError: (error) => log.warn({ err: error }, 'could not record the use of an API key'),
  });
  const probes = new StatusProbes({
    storage,
    clock,
    log,
    metrics,
    sessions,
    liveLog,
    loadShedder,
    refused: () => loadShedder.refused + refusedForRoom(),
    scrapeAll: options.scrapeAll,
  });
  const unsent = new UnsentResponses(log);
  const requestLog = new RequestLog(log);
  const responder = new Responder({ log, requestLog, telemetry: metrics, unsent });
  const documents = new Documents(schema);
  const named = new NamedDocuments(ports, documents);
  const parts: FaceParts = { admission, sessions, timings, log, requestLog, responder, telemetry: metrics };
  const graphql: GraphQLParts = { ...parts, documents, named };
  const yoga = createYoga<ServerContext>({
    schema,
    plugins: [
      useRequestContext(origins, responder),
      useMcp(ports, { ...parts, bindings: routes }),
      useSignIn(ports, { ...parts, origins, publicUrl }),
      useRest(ports, { ...parts, probes, publicUrl, routes }),
      useGraphQL(ports, graphql),
    ],
    fetchAPI: { Request: RequestOfNode },
    batching: { limit: maxAnsweredBatch }, // it would refuse more than ten in its own way
    parserAndValidationCache: false, // `documents` caches them, for sockets too
    graphiql: false, // graphql/explorer-page.ts is the page
    healthCheckEndpoint: ' ', // Yoga answers any URL that ends in it, and none ends in a space
    // The service does these itself, in the same way for all faces.
    cors: false,
    logging: false,
    maskedErrors: false,
    landingPage: false,
    multipart: false,
    maxRequestBodySize: false,
  });
  const maintenance = new Maintenance({ storage, clock, log, limiter, eventRetentionMs });

  return {
    ports,
    requestLog,
    listener: (req, res) => void yoga(req, res),
    sessions,
    liveLog,
    webhooks,
    attachSocket: (server) => attachSocket(server, ports, { ...graphql, origins, unsent, onError }),
    async preload() {
      await tokens.load();
    },
    drain: () => probes.drain(),
    tick: () => maintenance.tick(),
    metrics: () => probes.snapshot(),
    async lead() {
      webhooks.start();
      await maintenance.lead();
    },
    async close() {
      maintenance.stop();
      await webhooks.stop(0);
      // This fails on a full disk, or if a newer version has migrated the database. The reservations then count as spent.
      await limiter.handBack({ all: true }).catch((error: unknown) => {
        log.warn({ err: error }, 'could not return rate-limit reservations');
      });
      requestLog.flush();
    },
  };
}
