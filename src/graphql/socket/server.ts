import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { handleProtocols, makeServer } from 'graphql-ws';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Origins } from '../../access/origins.ts';
import { withoutSecrets } from '../../access/secrets.ts';
import { DomainError, internal } from '../../domain/errors.ts';
import type { Ports } from '../../domain/ports.ts';
import { problemReply } from '../../http/problem.ts';
import { protocolFault, toOriginForm } from '../../http/protocol.ts';
import { writeRawReply } from '../../http/raw-reply.ts';
import { arrivalOf, requestIdOf } from '../../http/request-context.ts';
import type { UnsentResponses } from '../../http/unsent-responses.ts';
import { HeldMemory } from '../../runtime/held-memory.ts';
import type { GraphQLParts } from '../parts.ts';
import { ClientSocket, type ClientSocketOptions, closeCodes, type SocketState } from './client-socket.ts';
import { heldByMessages } from './inbox.ts';
import { type ConnectionParams, protocolOptions } from './protocol.ts';

// GraphQL over WebSocket with the protocol graphql-transport-ws (see PROTOCOL.md of the package graphql-ws).

/** The largest message that a client may send. */
const maxMessageBytes = 64 * 1024;
/** The most frames that it may be divided into. */
const maxFragments = 64;
/** The most pieces that one frame may arrive in: each takes memory of its own. ws closes a socket above it with 1008. */
const maxPieces = 256;
/** How many sockets may wait for their `connection_init`. */
const maxSilent = 1_000;
/** Sockets that may wait for their clients to close them, too. Beyond, the oldest connection is dropped. */
const maxClosing = 1_000;

function stopping(): DomainError {
  return new DomainError('UNAVAILABLE', 'The service is stopping.', { retryAfterSeconds: 1 });
}

interface SocketOptions extends GraphQLParts {
  readonly origins: Origins;
  readonly unsent: UnsentResponses;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves subscriptions, queries and mutations over WebSocket on the path `/graphql` of a server. Pages of origins that
 * may not call are refused at the upgrade, credentials are checked at `connection_init`, and every `subscribe` is
 * charged as a request.
 */
export function attachSocket(server: Server, ports: Ports, options: SocketOptions): { close(graceMs: number): void } {
  const { origins, unsent, timings, telemetry, admission, sessions, log, requestLog, onError } = options;
  const protocol = makeServer<ConnectionParams, SocketState>(protocolOptions(ports, options));
  const webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false, // `sockets` has them
    maxPayload: maxMessageBytes,
    maxFragments,
    maxBufferedChunks: maxPieces,
    // One frame of a socket in each turn of the event loop: what is read at once can hold ten thousand.
    allowSynchronousEvents: false,
    handleProtocols,
  });
  const sockets = new Map<ClientSocket, SocketState>();
  const closing = new Set<ClientSocket>();
  const silent = new SilentSockets(timings.initMs);
  const shared: ClientSocketOptions = {
    timings,
    clock: ports.clock,
    unsentResponses: unsent,
    heldMessages: new HeldMemory(heldByMessages),
    onEnd,
    onClose,
    onError,
  };
  let isClosing = false;

  const onUpgrade = (request: IncomingMessage, connection: Duplex, head: Buffer): void => {
    toOriginForm(request);
    const { headers } = request;
    headers['x-request-id'] = requestIdOf(headers['x-request-id']); // of the response, and of the socket
    const fault = protocolFault(request, true);
    if (fault !== undefined) {
      refuse(request, connection, fault);
    } else if (isClosing) {
      // Has to be answered: Node has handed the connection over, but waits for it to end.
      refuse(request, connection, stopping());
    } else if (request.url?.split('?')[0] !== '/graphql') {
      refuse(request, connection, new DomainError('NOT_FOUND', 'WebSockets are available at /graphql only.'));
    } else if (headers.origin !== undefined && !origins.isOwn(headers)) {
      void upgradePage(request, connection, head);
    } else {
      upgrade(request, connection, head);
    }
  };

  function upgrade(request: IncomingMessage, connection: Duplex, head: Buffer): void {
    webSockets.handleUpgrade(request, connection, head, (webSocket) => open(webSocket, connection, request));
  }

  /** For a page that is not the service's own. Browsers send no preflight for a socket. */
  async function upgradePage(request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> {
    const ignore = (): void => {};
    connection.on('error', ignore); // nobody else listens before the upgrade
    try {
      if (!(await origins.isListed(request.headers))) {
        throw new DomainError('FORBIDDEN', 'Pages of this origin may not open sockets.');
      }
      if (isClosing) throw stopping();
      upgrade(request, connection, head);
    } catch (error) {
      refuse(request, connection, error instanceof DomainError ? error : internal(error));
    } finally {
      connection.off('error', ignore);
    }
  }

  /** Answers and ends the connection: Node has handed it over, and neither handles its errors nor times it out. */
  function refuse({ headers, url = '' }: IncomingMessage, connection: Duplex, error: DomainError, more = {}): void {
    const requestId = String(headers['x-request-id']);
    const [path = ''] = url.split('?');
    const reply = problemReply(error, { path, requestId });
    const hangUp = (): void => void connection.destroy();
    const timer = setTimeout(hangUp, timings.initMs); // its client may take nothing
    connection.once('finish', hangUp).once('close', () => clearTimeout(timer));
    writeRawReply(connection, requestId, { ...reply, headers: { ...reply.headers, ...more } });
    telemetry.called('socket', undefined, error.code, 0);
    if (!requestLog.hasRoom(error.status)) return;
    const origin = headers.origin && withoutSecrets(headers.origin);
    log.info({ requestId, path: withoutSecrets(path), origin, status: error.status }, 'socket refused');
  }

  function open(webSocket: WebSocket, connection: Duplex, request: IncomingMessage): void {
    const arrival = arrivalOf(request);
    const socket = new ClientSocket(webSocket, connection, admission.networkOf(arrival), shared);
    const state: SocketState = {
      socket,
      arrival,
      // Copied: `randomUUID` makes a string of many parts, which takes six times its memory.
      requestId: Buffer.from(String(request.headers['x-request-id'])).toString(),
      greeted: undefined,
      caller: undefined,
      endOperations: undefined,
    };
    sockets.set(socket, state);
    state.greeted = silent.add(socket);
    state.endOperations = protocol.opened(socket, state);
  }

  function onEnd(socket: ClientSocket): void {
    const { greeted, caller, endOperations } = sockets.get(socket) ?? {};
    greeted?.();
    if (caller !== undefined) sessions.close(caller, socket);
    endOperations?.().catch(onError);
    closing.add(socket);
    const [oldest] = closing;
    if (closing.size > maxClosing && !isClosing) oldest?.terminate();
  }

  function onClose(socket: ClientSocket): void {
    sockets.delete(socket);
    closing.delete(socket);
  }

  server.on('upgrade', onUpgrade);
  webSockets.on('headers', (lines, { headers }) => lines.push(`X-Request-Id: ${headers['x-request-id']}`));
  webSockets.on('wsClientError', ({ message }, connection, request) => {
    const error =
      request.method === 'GET'
        ? new DomainError('BAD_REQUEST', `${message}.`)
        : new DomainError('METHOD_NOT_ALLOWED', 'A socket is opened with GET.', { allow: ['GET'] });
    refuse(request, connection, error, { 'Sec-WebSocket-Version': '13, 8' });
  });
  return {
    close(graceMs) {
      isClosing = true;
      for (const socket of sockets.keys()) socket.close(closeCodes.goingAway, 'Service restart');
      // A client that does not answer the close frame must not keep the server from stopping.
      setTimeout(() => {
        for (const socket of sockets.keys()) socket.terminate();
      }, graceMs).unref();
      webSockets.close();
    },
  };
}

type SilentSocket = Pick<ClientSocket, 'address' | 'close'>;

/**
 * Sockets that have not sent `connection_init` yet, which needs no credential. Each is closed after a while. When there
 * are too many, the oldest of the address that has most of them is closed: those of others, and of clients that send it
 * at once, are not affected.
 */
export class SilentSockets {
  readonly #initMs: number;
  readonly #byAddress = new Map<string, Set<SilentSocket>>();
  #size = 0;

  /** @param initMs how long a socket may be silent */
  constructor(initMs: number) {
    this.#initMs = initMs;
  }

  /** @returns to be called when the socket has sent its `connection_init`, or has ended */
  add(socket: SilentSocket): () => void {
    const { address } = socket;
    const timer = setTimeout(() => socket.close(closeCodes.silent, 'Connection initialisation timeout'), this.#initMs);
    const ofAddress = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, ofAddress.add(socket));
    this.#size++;
    if (this.#size > maxSilent) this.#closeOldest();
    return () => {
      clearTimeout(timer);
      if (!ofAddress.delete(socket)) return;
      this.#size--;
      if (ofAddress.size === 0) this.#byAddress.delete(address);
    };
  }

  #closeOldest(): void {
    let most: ReadonlySet<SilentSocket> = new Set();
    for (const ofAddress of this.#byAddress.values()) if (ofAddress.size > most.size) most = ofAddress;
    const [oldest] = most;
    oldest?.close(closeCodes.tryAgain, 'Too many sockets without connection_init');
  }
}
