import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import { defaultTimings } from '../access/timings.ts';
import { type App, type AppOptions, buildApp } from '../app.ts';
import { listenError } from '../cli/errors.ts';
import { openStorage } from '../cli/world.ts';
import type { Config } from '../config.ts';
import type { Clock } from '../domain/ports.ts';
import type { SqliteStorage } from '../storage/sqlite/storage.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Connections } from './connections.ts';
import { refuseUnreadable } from './unreadable.ts';

export interface RunningServer {
  readonly url: string;
  readonly app: App;
  readonly storage: SqliteStorage;
  /** Takes no more connections. Resolves when nobody can connect any more. */
  refuse(): Promise<void>;
  /** Stops taking requests, lets those in flight finish within the grace time, and closes the storage. */
  close(): Promise<void>;
}

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly clock: Clock;
  /** Is shown every SQL statement. For tests: it costs time. */
  readonly onStatement?: (sql: string) => void;
  /** Other times for streams, sockets and webhooks than the contract's. For tests. */
  readonly timings?: AppOptions['timings'];
  /** Other name servers to find webhooks by than the system's. For tests. */
  readonly nameServers?: AppOptions['nameServers'];
  /** Other REST routes than the service's own. For tests. */
  readonly routes?: AppOptions['routes'];
}

const tickMs = 60_000;

/** Opens the storage and serves both faces over HTTP. */
export async function startServer({ config, onStatement, ...options }: ServerOptions): Promise<RunningServer> {
  const metrics = new Metrics();
  const { log } = options;
  const storage = await openStorage(config.databasePath, {
    onStatement,
    onGroup: metrics.wrote,
    onThreadFailure: (error) => log.warn({ err: error }, 'no thread folds the log into the file; commits do'),
  });
  const app = buildApp({ ...config, ...options, storage, metrics });
  const { headMs, requestMs, slowReaderMs } = { ...defaultTimings, ...options.timings };
  const server = createServer({
    // A client that sends slowly holds a connection for this long and no longer.
    headersTimeout: headMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: 1_000, // by default those times may be exceeded by 30 s
    keepAliveTimeout: 65_000, // longer than the usual balancer keeps its own connections
    maxHeaderSize: 16 * 1024,
    requireHostHeader: false, // it is required by the app, whose answers have a code and a request id
    // Some clients offer HTTP/2 on every request: what is no socket is answered as if it had not asked.
    shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket',
  });
  server.on('checkExpectation', (req, res) => server.emit('request', req, res)); // as is this
  const connections = new Connections(server, (req, res) => {
    req.url = pathOf(req.url);
    app.listener(req, res).catch((error: unknown) => {
      log.error({ err: error }, 'a request could not be answered');
      res.destroy();
    });
  });
  refuseUnreadable(server, connections, log);
  // Told of a connection on which nothing has come or gone for as long, or that was kept and is not used any more.
  server.setTimeout(slowReaderMs, (socket) => {
    if (socket.writableLength > 0 || !connections.isWorkedFor(socket)) socket.destroy();
  });
  const sockets = app.attachSocket(server);
  try {
    await listen(server, config);
  } catch (error) {
    await storage.close();
    throw error;
  }
  // When connections cannot be taken, for want of descriptors or memory, others still can be served.
  server.on('error', (error) => log.warn({ err: error }, 'could not take a connection'));
  app.webhooks.start();
  setImmediate(() =>
    app.preload().catch((error: unknown) => log.error({ err: error }, 'could not load all that is needed')),
  );
  app.finishErasures().catch((error: unknown) => log.warn({ err: error }, 'could not finish erasing conversations'));
  metrics.start();
  const ticking = setInterval(() => {
    app.tick().catch((error: unknown) => log.warn({ err: error }, 'could not do what is due from time to time'));
  }, tickMs).unref();
  const { port } = server.address() as AddressInfo;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return {
    url: `http://${host}:${port}`,
    app,
    storage,
    refuse: () => connections.refuse(),
    async close() {
      app.drain();
      clearInterval(ticking);
      metrics.stop();
      app.sessions.endAll();
      sockets.close(config.shutdownGraceMs);
      await Promise.all([connections.drain(config.shutdownGraceMs), app.webhooks.stop(config.shutdownGraceMs)]);
      await app.close();
      await storage.close();
    },
  };
}

/** The path of a request's target, which may be in absolute form (RFC 9112, section 3.2.2). */
function pathOf(target = '/'): string {
  return target.replace(/^https?:\/\/[^/?#]*/i, '') || '/';
}

function listen(server: Server, { host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(listenError(error, { host, port }));
    server.once('error', onError);
    server.listen(port, host, () => {
      server.off('error', onError);
      resolve();
    });
  });
}
