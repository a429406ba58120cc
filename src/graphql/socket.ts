import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import {
  type ExecutionArgs,
  execute,
  type FormattedExecutionResult,
  GraphQLError,
  type GraphQLFormattedError,
  type GraphQLSchema,
  getOperationAST,
  subscribe,
} from 'graphql';
import { handleProtocols, makeServer, type ServerOptions, type SubscribePayload } from 'graphql-ws';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Door } from '../access/admit.ts';
import { arrivalOf, requestIdOf } from '../access/exchange.ts';
import type { EndReason, Sessions } from '../access/sessions.ts';
import type { StreamTimings } from '../access/timings.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import { createContext } from './context.ts';
import { presentError } from './errors.ts';
import { asGraphQLError, parseWithinLimits, refusalsOf, validateDocument } from './requests.ts';

// GraphQL over WebSocket, by the protocol graphql-transport-ws (its PROTOCOL.md is in the package graphql-ws).

/** The largest message that a client may send. */
const maxMessageBytes = 64 * 1024;
const maxSubscriptions = 100;

/** Close codes of our own beside those of the protocol. */
const closeCodes = {
  forbidden: 4403,
  slowReader: 4290,
  tooManySockets: 4429,
  goingAway: 1012,
  tryAgain: 1013,
} as const;

interface Extra {
  readonly socket: WebSocket;
  readonly request: IncomingMessage;
  /** Names the socket in its errors and in the log. */
  readonly requestId: string;
  caller?: Caller;
  release?: () => void;
}

export interface SocketOptions {
  readonly schema: GraphQLSchema;
  readonly door: Door;
  readonly sessions: Sessions;
  readonly timings: StreamTimings;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves subscriptions, queries and mutations on the path `/graphql` of a server.
 * The door's credential check is at `connection_init`, and every `subscribe` is charged as a request.
 */
export function attachSocket(server: Server, world: World, options: SocketOptions): { close(graceMs: number): void } {
  const { timings, onError } = options;
  const protocol = makeServer<Record<string, unknown>, Extra>(protocolOptions(world, options));
  const sockets = new WebSocketServer({ noServer: true, maxPayload: maxMessageBytes, handleProtocols });

  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (request.url?.split('?')[0] !== '/graphql') {
      socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => open(webSocket, request));
  };

  function open(socket: WebSocket, request: IncomingMessage): void {
    const stopPinging = keepAlive(socket, timings.pingMs);
    const closed = protocol.opened(
      {
        protocol: socket.protocol,
        send: (data) => send(socket, data),
        close: (code, reason) => socket.close(code, reason),
        onMessage: (handle) => {
          socket.on('message', (data) => {
            handle(String(data)).catch((error: unknown) => {
              if (error instanceof Error && error.message.startsWith('Unexpected message')) {
                socket.close(4400, 'Invalid message received');
              } else {
                onError(error);
                socket.close(4500, 'Internal server error');
              }
            });
          });
        },
      },
      { socket, request, requestId: requestIdOf(request.headers['x-request-id']) },
    );
    // A frame that breaks the rules: ws closes the socket by the code that fits.
    socket.on('error', () => {});
    socket.once('close', (code, reason) => {
      stopPinging();
      closed(code, String(reason)).catch(onError);
    });
  }

  server.on('upgrade', onUpgrade);
  return {
    close(graceMs) {
      server.off('upgrade', onUpgrade);
      for (const socket of sockets.clients) socket.close(closeCodes.goingAway, 'Service restart');
      // A client that does not answer the goodbye must not keep the server from stopping.
      setTimeout(() => {
        for (const socket of sockets.clients) socket.terminate();
      }, graceMs).unref();
      sockets.close();
    },
  };
}

/** Resolves once the message is with the operating system: until then nothing more is made for it. */
function send(socket: WebSocket, data: string): Promise<void> {
  return new Promise((resolve, reject) => {
    if (socket.readyState !== socket.OPEN) resolve();
    else socket.send(data, (error) => (error == null || socket.readyState !== socket.OPEN ? resolve() : reject(error)));
  });
}

/** Pings, and ends a socket whose pong does not come before the next ping. */
function keepAlive(socket: WebSocket, pingMs: number): () => void {
  let alive = true;
  socket.on('pong', () => {
    alive = true;
  });
  const pinging = setInterval(() => {
    if (!alive) {
      socket.terminate();
    } else {
      alive = false;
      socket.ping();
    }
  }, pingMs).unref();
  return () => clearInterval(pinging);
}

function protocolOptions(world: World, options: SocketOptions): ServerOptions<Record<string, unknown>, Extra> {
  const { schema, door, sessions, timings, onError } = options;

  const present = (errors: readonly GraphQLError[], { requestId }: Extra): GraphQLFormattedError[] =>
    errors.map((error) => presentError(error, { requestId, requestFailed: false, onUnexpected: onError }).toJSON());

  /** The arguments to execute with, or what is wrong with the operation: its own errors, not the socket's end. */
  async function prepare(extra: Extra, payload: SubscribePayload): Promise<ExecutionArgs | GraphQLError[]> {
    const { caller, socket } = extra;
    if (caller === undefined) throw new Error('A socket subscribes before it was let in');
    await door.charge(caller);
    const document = parseWithinLimits(payload.query);
    const invalid = validateDocument(schema, document);
    if (invalid.length > 0) return invalid.map(asValidationFailed);
    const args: ExecutionArgs & { schema: GraphQLSchema } = {
      schema,
      document,
      operationName: payload.operationName ?? null,
      variableValues: payload.variables ?? null,
    };
    const refused = refusalsOf(args);
    if (refused.length > 0) return refused;
    const contextValue = createContext(world, caller, {
      timings,
      isSubscription: getOperationAST(document, args.operationName)?.operation === 'subscription',
      onSlowReader: () => socket.close(closeCodes.slowReader, 'Slow reader'),
    });
    return { ...args, contextValue };
  }

  return {
    execute,
    subscribe,
    connectionInitWaitTimeout: timings.initMs,

    async onConnect({ connectionParams, extra }) {
      const { socket, request } = extra;
      const given = connectionParams?.['authorization'] ?? connectionParams?.['Authorization'];
      const arrival = arrivalOf(request);
      try {
        const caller = await door.identify(typeof given === 'string' ? { ...arrival, authorization: given } : arrival);
        door.refuseKeyFromPage(caller, arrival);
        extra.caller = caller;
      } catch (error) {
        if (error instanceof DomainError && error.code !== 'UNAVAILABLE') return false;
        onError(error);
        socket.close(closeCodes.tryAgain, 'Try again later');
        return true;
      }
      if (socket.readyState !== socket.OPEN) return true;
      const release = sessions.open(extra.caller, (reason) => endSession(socket, reason));
      if (release === undefined) socket.close(closeCodes.tooManySockets, 'Too many sockets');
      else extra.release = release;
      return true;
    },

    async onSubscribe({ extra, subscriptions }, _id, payload) {
      try {
        if (Object.keys(subscriptions).length > maxSubscriptions) {
          throw new DomainError(
            'QUOTA_EXCEEDED',
            `A socket can have ${maxSubscriptions} subscriptions; open another one.`,
          );
        }
        return await prepare(extra, payload);
      } catch (error) {
        return [error instanceof GraphQLError ? asBadRequest(error) : asGraphQLError(error)];
      }
    },

    onNext({ extra }, _id, _payload, _args, result): FormattedExecutionResult | undefined {
      if (result.errors === undefined) return undefined;
      const errors = present(result.errors, extra);
      return result.data === undefined ? { errors } : { data: result.data, errors };
    },

    onError({ extra }, _id, _payload, errors) {
      return present(errors as GraphQLError[], extra);
    },

    onClose({ extra }) {
      extra.release?.();
    },
  };
}

function endSession(socket: WebSocket, reason: EndReason): void {
  if (reason === 'shutdown') socket.close(closeCodes.goingAway, 'Service restart');
  else socket.close(closeCodes.forbidden, 'Forbidden');
}

function asBadRequest(error: GraphQLError): GraphQLError {
  if (error.originalError !== undefined) return error;
  return withCode(error, new DomainError('BAD_REQUEST', error.message));
}

function asValidationFailed(error: GraphQLError): GraphQLError {
  return withCode(error, new DomainError('VALIDATION_FAILED', error.message));
}

function withCode({ message, nodes, source, positions }: GraphQLError, originalError: DomainError): GraphQLError {
  return new GraphQLError(message, { nodes, source, positions, originalError });
}
