import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import { type App, type AppOptions, buildApp } from '../app.ts';
import type { Config } from '../config.ts';
import type { Clock } from '../domain/ports.ts';
import { announcesBody } from '../http/body.ts';
import { asksForSocket, maxHeaders, toOriginForm } from '../http/protocol.ts';
import { defaultTimings } from '../http/timings.ts';
import type { SqliteStorage } from '../storage/sqlite/storage.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { type ConnectionLimits, Connections } from './connections.ts';
import { OperatorError } from './operator-error.ts';
import { openStorage } from './storage.ts';
import { refuseUnreadable } from './unreadable.ts';

export interface RunningServer {
  readonly url: string;
  readonly app: App;
  readonly storage: SqliteStorage;
  /** Stops accepting connections. Resolves when nobody can connect any more. */
  refuse(): Promise<void>;
  /** Stops accepting requests, lets those in flight finish within the grace time, and closes the storage. */
  close(): Promise<void>;
}

export interface ServerOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly clock: Clock;
  /** Called with every SQL statement. For tests: it costs time. */
  readonly onStatement?: (sql: string) => void;
  /** Timeouts and intervals that differ from the contract's. For tests. */
  readonly timings?: AppOptions['timings'];
  /** Limits that differ from the documented ones. For tests. */
  readonly connectionLimits?: Partial<ConnectionLimits>;
  /** Name servers to resolve webhook hosts with, instead of the system's. For tests. */
  readonly nameServers?: AppOptions['nameServers'];
  /** REST routes instead of the service's own. For tests. */
  readonly routes?: AppOptions['routes'];
}

const tickMs = 60_000;

/**
 * Opens the storage and serves REST and GraphQL over HTTP.
 * @throws OperatorError if the database cannot be opened, or the address not be listened on
 */
export async function startServer({ config, onStatement, ...options }: ServerOptions): Promise<RunningServer> {
  const metrics = new Metrics();
  const { log } = options;
  const storage = await openStorage(config.databasePath, {
    onStatement,
    onGroup: metrics.wrote,
    onThreadFailure: (error) =>
      log.warn({ err: error }, 'the checkpoint thread has failed; commits checkpoint the write-ahead log instead'),
  });
  if (storage.wasPublic) log.warn('every user of this machine could read the database; now only its owner can');
  const app = buildApp({ ...config, ...options, storage, metrics, waitingWrites: () => storage.waitingWrites });
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
    onCrowded: (count) => log.warn({ count }, 'too many connections: idle ones were closed'),
  });
  refuseUnreadable(server, connections, { log, requestLog: app.requestLog });
  // Called when nothing has been sent or received for this long, and when an idle connection's keep-alive ends.
  server.setTimeout(slowReaderMs, (socket) => {
    if (socket.writableLength > 0 || !connections.isBusy(socket)) socket.destroy();
  });
  const sockets = app.attachSocket(server);
  try {
    await listen(server, config);
  } catch (error) {
    await storage.close();
    throw error;
  }
  // Without descriptors or memory for new connections, the existing ones can still be served.
  server.on('error', (error) => log.warn({ err: error }, 'could not accept a connection'));
  app.webhooks.start();
  setImmediate(() => app.preload().catch((error: unknown) => log.error({ err: error }, 'preloading failed')));
  app.finishInterrupted().catch((error: unknown) => log.warn({ err: error }, 'could not finish interrupted work'));
  metrics.start();
  const ticking = setInterval(() => {
    app.tick().catch((error: unknown) => log.warn({ err: error }, 'periodic maintenance failed'));
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

/** Of the descriptors, a quarter at least is left for the database, webhooks and others. */
function defaultLimits(): ConnectionLimits {
  return { connections: Math.min(12_000, Math.floor(maxOpenFiles() * 0.75)), heads: 1_000 };
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

/**
 * Explains why the server could not listen.
 * @returns the error itself if the operator cannot fix it
 */
function listenError(error: Error, { host, port }: { host: string; port: number }): Error {
  const code = 'code' in error ? error.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new OperatorError(`Port ${port} is already in use; set PORT to another one.`, error);
    case 'EACCES':
      return new OperatorError(`This user may not listen on port ${port}; set PORT to another one.`, error);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new OperatorError(`HOST is ${host}, which is not an address of this machine.`, error);
    default:
      return error;
  }
}
