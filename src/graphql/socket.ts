import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { handleProtocols, makeServer } from 'graphql-ws';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Origins } from '../access/origins.ts';
import { withoutSecrets } from '../access/secrets.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import { protocolFault, toOriginForm } from '../http/protocol.ts';
import { type WholeReply, writeRawReply } from '../http/raw-reply.ts';
import { arrivalOf, requestIdOf } from '../http/request-context.ts';
import type { UnsentResponses } from '../http/unsent-responses.ts';
import { SilentSockets } from './silent-sockets.ts';
import { type ConnectionParams, type ProtocolOptions, protocolOptions } from './socket-protocol.ts';
import type { SocketState } from './socket-state.ts';
import { WaitingMessages } from './waiting-messages.ts';
import { closeCodes, Wire } from './wire.ts';

// GraphQL over WebSocket with the protocol graphql-transport-ws (see PROTOCOL.md of the package graphql-ws).

/** The largest message that a client may send. */
const maxMessageBytes = 64 * 1024;
/** The most frames that it may be divided into. */
const maxFragments = 64;
/** The most pieces that one frame may arrive in: each takes memory of its own. ws closes a socket above it with 1008. */
const maxPieces = 256;
/** Sockets that may wait for their clients to close them, too. Beyond, the oldest connection is dropped. */
const maxClosing = 1_000;

export interface SocketOptions extends ProtocolOptions {
  readonly origins: Origins;
  readonly unsent: UnsentResponses;
  /** Makes the HTTP response to a refused upgrade. */
  readonly problemReply: (error: DomainError, occurrence: { path: string; requestId: string }) => WholeReply;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves subscriptions, queries and mutations over WebSocket on the path `/graphql` of a server. Pages of origins that
 * may not call are refused at the upgrade, credentials are checked at `connection_init`, and every `subscribe` is
 * charged as a request.
 */
export function attachSocket(server: Server, ports: Ports, options: SocketOptions): { close(graceMs: number): void } {
  const { origins, unsent, timings, telemetry, admission, problemReply, log, requestLog, onError } = options;
  const protocol = makeServer<ConnectionParams, SocketState>(protocolOptions(ports, options));
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    maxFragments,
    maxBufferedChunks: maxPieces,
    // One frame of a socket in each turn of the event loop: what is read at once can hold ten thousand.
    allowSynchronousEvents: false,
    handleProtocols,
  });
  const wires = new Set<Wire>();
  const closing = new Set<Wire>();
  const silent = new SilentSockets(timings.initMs);
  const waitingMessages = new WaitingMessages();
  let isClosing = false;

  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    toOriginForm(request);
    const { headers } = request;
    const fault = protocolFault(request, true);
    if (fault !== undefined) {
      refuse(request, socket, fault);
    } else if (isClosing) {
      // Has to be answered: Node has handed the connection over, but waits for it to end.
      refuse(request, socket, new DomainError('UNAVAILABLE', 'The service is stopping.', { retryAfterSeconds: 1 }));
    } else if (request.url?.split('?')[0] !== '/graphql') {
      refuse(request, socket, new DomainError('NOT_FOUND', 'WebSockets are available at /graphql only.'));
    } else if (headers.origin !== undefined && !origins.isOwn(headers) && !origins.isListed(headers)) {
      // Browsers send no preflight for a socket.
      refuse(request, socket, new DomainError('FORBIDDEN', 'Pages of this origin may not open sockets.'));
    } else {
      sockets.handleUpgrade(request, socket, head, (webSocket) => open(webSocket, socket, request));
    }
  };

  /** Answers and ends the connection: Node has handed it over, and neither handles its errors nor times it out. */
  function refuse({ headers, url = '' }: IncomingMessage, socket: Duplex, error: DomainError, more = {}): void {
    const requestId = requestIdOf(headers['x-request-id']);
    const [path = ''] = url.split('?');
    const reply = problemReply(error, { path, requestId });
    socket.once('finish', () => socket.destroy());
    writeRawReply(socket, requestId, { ...reply, headers: { ...reply.headers, ...more } });
    telemetry.called('socket', undefined, error.code, 0);
    if (!requestLog.hasRoom(error.status)) return;
    const origin = headers.origin && withoutSecrets(headers.origin);
    log.info({ requestId, path: withoutSecrets(path), origin, status: error.status }, 'socket refused');
  }

  function open(socket: WebSocket, connection: Duplex, request: IncomingMessage): void {
    const arrival = arrivalOf(request);
    const wire = new Wire(socket, connection, {
      address: admission.networkOf(arrival),
      timings,
      clock: ports.clock,
      unsentResponses: unsent,
      waitingMessages,
      onEnd: () => end(wire, state),
    });
    wires.add(wire);
    const givenRequestId = request.headers['x-request-id'];
    const state: SocketState = { wire, arrival, givenRequestId, greeted: silent.add(wire) };
    const closed = protocol.opened(
      {
        protocol: socket.protocol,
        send: (message) => wire.send(message),
        close: (code = closeCodes.internal, reason = '') => wire.close(code, reason),
        // graphql-ws also takes parsed messages, though its type says otherwise.
        onMessage: (handle) => wire.listen((message) => handle(message as string).catch((error) => fail(wire, error))),
      },
      state,
    );
    socket.once('close', (code, reason) => {
      wires.delete(wire);
      closing.delete(wire);
      closed(code, String(reason)).catch(onError);
    });
  }

  function end(wire: Wire, { greeted }: SocketState): void {
    greeted?.();
    closing.add(wire);
    const [oldest] = closing;
    if (closing.size > maxClosing && !isClosing) oldest?.terminate();
  }

  function fail(wire: Wire, error: unknown): void {
    if (error instanceof Error && error.message.startsWith('Unexpected message')) {
      wire.close(closeCodes.badRequest, 'Invalid message received');
    } else {
      onError(error);
      wire.close(closeCodes.internal, 'Internal server error');
    }
  }

  server.on('upgrade', onUpgrade);
  sockets.on('wsClientError', ({ message }, socket, request) => {
    const error =
      request.method === 'GET'
        ? new DomainError('BAD_REQUEST', `${message}.`)
        : new DomainError('METHOD_NOT_ALLOWED', 'A socket is opened with GET.', { allow: ['GET'] });
    refuse(request, socket, error, { 'Sec-WebSocket-Version': '13, 8' });
  });
  return {
    close(graceMs) {
      isClosing = true;
      for (const wire of wires) wire.close(closeCodes.goingAway, 'Service restart');
      // A client that does not answer the close frame must not keep the server from stopping.
      setTimeout(() => {
        for (const wire of wires) wire.terminate();
      }, graceMs).unref();
      sockets.close();
    },
  };
}
