import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import { type App, type AppOptions, buildApp } from '../app.ts';
import type { Config } from '../config.ts';
import type { Clock } from '../domain/ports.ts';
import { announcesBody } from '../http/body.ts';
import { asksForSocket, maxHeaders, toOriginForm } from '../http/protocol.ts';
import { defaultTimings } from '../http/timings.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { type ConnectionLimits, Connections } from './connections.ts';
import { listen } from './listen.ts';
import { type OpenedStorage, openStorage } from './storage.ts';
import { refuseUnreadable } from './unreadable.ts';
import type { Worker } from './worker.ts';

export interface RunningServer {
  readonly url: string;
  readonly app: App;
  readonly storage: OpenedStorage;
  /** Stops accepting connections. Resolves when nobody can connect any more. */
  refuse(): Promise<void>;
  /** Stops accepting requests, lets those in flight finish within the grace time, and closes the storage. */
  close(): Promise<void>;
}

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly clock: Clock;
  /** If this process is one of several that serve together. */
  readonly worker?: Worker | undefined;
  /** Called once the storage is open: from then on it is to be closed. */
  readonly onOpened?: () => void;
  /** Called with every SQL statement. For tests: it costs time. */
  readonly onStatement?: (sql: string) => void;
  /** Timeouts and intervals that differ from the contract's. For tests. */
  readonly timings?: AppOptions['timings'];
  /** Between what is done every minute. For tests. */
  readonly tickMs?: number;
  /** Limits that differ from the documented ones. For tests. */
  readonly connectionLimits?: Partial<ConnectionLimits>;
  /** Name servers to resolve webhook hosts with, instead of the system's. For tests. */
  readonly nameServers?: AppOptions['nameServers'];
  /** REST routes instead of the service's own. For tests. */
  readonly routes?: AppOptions['routes'];
}

const tickMs = 60_000;

/**
 * Opens the storage and serves all faces over HTTP.
 * @throws OperatorError if the database cannot be opened, or the address not be listened on
 */
export async function startServer({
  config,
  worker,
  onStatement,
  onOpened,
  ...options
}: ServerOptions): Promise<RunningServer> {
  const order = await worker?.order;
  const metrics = new Metrics();
  const { log } = options;
  const storage = await openStorage(config, {
    clock: options.clock,
    onStatement,
    turn: worker?.turn,
    onGroup: metrics.wrote,
    onThreadFailure: (error) =>
      log.warn({ err: error }, 'the checkpoint thread has failed; commits checkpoint the write-ahead log instead'),
  });
  onOpened?.();
  if (storage.wasPublic) log.warn('every user of this machine could read the database; now only its owner can');
  const app = buildApp({
    ...config,
    ...options,
    storage,
    metrics,
    scrapeAll: worker && (() => worker.scrape()),
  });
  const { headMs, requestMs, slowReaderMs } = { ...defaultTimings, ...options.timings };
  const server = createServer({
    // How long a client that sends slowly can hold a connection.
    headersTimeout: headMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: 1_000, // by default these timeouts can be exceeded by 30 s
    keepAliveTimeout: 65_000, // longer than load balancers usually keep idle connections
    maxHeaderSize: 16 * 1024,
    requireHostHeader: false, // the app requires it, and answers with a code and a request id
    // Some clients offer HTTP/2 on every request: any upgrade but to a WebSocket is ignored. So is one that would be
    // answered before requests that came before it, or whose body would stand between the head and the socket.
    shouldUpgradeCallback: (req) => asksForSocket(req) && !announcesBody(req) && !connections.isBusy(req.socket),
  });
  server.on('checkExpectation', (req, res) => server.emit('request', req, res)); // the app answers an unknown Expect
  server.maxHeadersCount = maxHeaders; // Node drops the others without a word: the app refuses a request with so many
  const connections = new Connections(server, {
    limits: { ...defaultLimits(), ...options.connectionLimits },
    handle(req, res) {
      toOriginForm(req);
      app.listener(req, res);
    },
    onCrowded: (count) => log.warn({ count }, 'too many connections: some that waited for their clients were closed'),
  });
  refuseUnreadable(server, connections, { log, requestLog: app.requestLog });
  // Called when nothing has been sent or received for this long, and when an idle connection's keep-alive ends.
  server.setTimeout(slowReaderMs, (socket) => {
    if (socket.writableLength > 0 || !connections.isBusy(socket)) socket.destroy();
  });
  const sockets = app.attachSocket(server);
  try {
    await listen(server, { ...config, ...order }, order !== undefined);
  } catch (error) {
    await storage.close();
    throw error;
  }
  // Without descriptors or memory for new connections, the existing ones can still be served.
  server.on('error', (error) => log.warn({ err: error }, 'could not accept a connection'));
  let isClosing = false;
  const lead = (): void => {
    if (isClosing) return; // the next worker will, once this one has ended
    app.lead().catch((error: unknown) => {
      if (!isClosing) log.warn({ err: error }, 'could not finish interrupted work');
    });
  };
  if (order?.leads ?? true) lead();
  setImmediate(() => app.preload().catch((error: unknown) => log.error({ err: error }, 'preloading failed')));
  metrics.start();
  const ticking = setInterval(() => {
    app.tick().catch((error: unknown) => log.warn({ err: error }, 'periodic maintenance failed'));
  }, options.tickMs ?? tickMs).unref();
  const { port } = server.address() as AddressInfo;
  worker?.listening(port, { lead, report: () => app.metrics() });
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return {
    url: `http://${host}:${port}`,
    app,
    storage,
    refuse: () => connections.refuse(),
    async close() {
      isClosing = true;
      app.drain();
      clearInterval(ticking);
      metrics.stop();
      sockets.close(config.shutdownGraceMs);
      app.sessions.endAll();
      await Promise.all([connections.drain(config.shutdownGraceMs), app.webhooks.stop(config.shutdownGraceMs)]);
      await app.close();
      await storage.close();
    },
  };
}

/** Of the descriptors, a quarter at least is left for the database, webhooks and others. */
function defaultLimits(): ConnectionLimits {
  return { connections: Math.min(12_000, Math.floor(maxOpenFiles() * 0.75)), unfinished: 2_000, waiting: 10_000 };
}

/** How many descriptors a process may have, as far as the system says so. */
function maxOpenFiles(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(limit ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
