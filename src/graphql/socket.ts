import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import {
  type ExecutionArgs,
  type FormattedExecutionResult,
  GraphQLError,
  type GraphQLFormattedError,
  type GraphQLSchema,
  getOperationAST,
} from 'graphql';
import { handleProtocols, makeServer, type ServerOptions, type SubscribePayload } from 'graphql-ws';
import type { Logger } from 'pino';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Arrival, Door } from '../access/admit.ts';
import { answerBare, type WholeReply } from '../access/bare.ts';
import { arrivalOf, requestIdOf } from '../access/exchange.ts';
import type { Origins } from '../access/origins.ts';
import { withoutSecrets } from '../access/secrets.ts';
import type { EndReason, Sessions } from '../access/sessions.ts';
import type { StreamTimings } from '../access/timings.ts';
import type { UnsentAnswers } from '../access/unsent.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError, internal, isTrouble } from '../domain/errors.ts';
import type { Telemetry, World } from '../domain/ports.ts';
import { AnswerBudget } from './answer-budget.ts';
import { type ContextOptions, isUncounted, OperationContext } from './context.ts';
import type { Documents } from './documents.ts';
import { domainErrorOf, presentError } from './errors.ts';
import { type Deliver, FanOut, type Outlet } from './fan-out.ts';
import { maxAtOnce } from './inbox.ts';
import { asGraphQLError, executeWithin, forgetTheRest, refusalsOf } from './requests.ts';
import { closeCodes, Wire } from './wire.ts';

// GraphQL over WebSocket, by the protocol graphql-transport-ws (its PROTOCOL.md is in the package graphql-ws).

/** The largest message that a client may send. */
const maxMessageBytes = 64 * 1024;

interface Extra {
  readonly wire: Wire;
  /** What the door looks at; forgotten once it has. A socket may stay for days, and there may be ten thousand. */
  arrival?: Arrival | undefined;
  /** What the client calls the socket, if it does. */
  readonly givenRequestId: string | string[] | undefined;
  /** Names the socket in its errors; most have none. */
  requestId?: string;
  /** Ends it when it does not begin. graphql-ws would keep its own timer, which is over by then, until the end. */
  greeting?: NodeJS.Timeout | undefined;
  caller?: Caller;
}

/** What an operation is executed with. */
interface SocketArgs extends ExecutionArgs {
  readonly schema: GraphQLSchema;
  readonly outlet: Outlet;
  /** Hands the answers of a subscription to its client. */
  readonly deliver: Deliver;
}

export interface SocketOptions {
  readonly schema: GraphQLSchema;
  readonly documents: Documents;
  readonly door: Door;
  readonly origins: Origins;
  readonly sessions: Sessions;
  readonly timings: StreamTimings;
  readonly telemetry: Telemetry;
  readonly unsent: UnsentAnswers;
  /** The answer to one who asks for a socket and does not get one. */
  readonly problemReply: (error: DomainError, occurrence: { path: string; requestId: string }) => WholeReply;
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves subscriptions, queries and mutations on the path `/graphql` of a server.
 * A page that may not call does not get one. The door's credential check is at `connection_init`, and every `subscribe` is charged as a request.
 */
export function attachSocket(server: Server, world: World, options: SocketOptions): { close(graceMs: number): void } {
  const { origins, timings, telemetry, unsent, problemReply, log, onError } = options;
  const protocol = makeServer<Record<string, unknown>, Extra>(protocolOptions(world, options));
  const sockets = new WebSocketServer({ noServer: true, maxPayload: maxMessageBytes, handleProtocols });
  const wires = new Set<Wire>();
  let isClosing = false;

  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const { headers } = request;
    if (isClosing) {
      // Somebody has to: Node has let go of it, and would wait for its end.
      refuse(request, socket, new DomainError('UNAVAILABLE', 'The service is stopping.', { retryAfterSeconds: 1 }));
    } else if (request.url?.split('?')[0] !== '/graphql') {
      refuse(request, socket, new DomainError('NOT_FOUND', 'Sockets are opened at /graphql.'));
    } else if (headers.origin !== undefined && !origins.isOwn(headers) && !origins.isListed(headers)) {
      // Browsers ask no preflight for a socket.
      refuse(request, socket, new DomainError('FORBIDDEN', 'Pages of this origin may not open sockets.'));
    } else {
      sockets.handleUpgrade(request, socket, head, (webSocket) => open(webSocket, socket, request));
    }
  };

  /** Node has let go of the connection, so nobody else looks after its errors or ends it when its client does not. */
  function refuse({ headers, url = '' }: IncomingMessage, socket: Duplex, error: DomainError, more = {}): void {
    const requestId = requestIdOf(headers['x-request-id']);
    const [path = ''] = url.split('?');
    const reply = problemReply(error, { path, requestId });
    socket.once('finish', () => socket.destroy());
    answerBare(socket, requestId, { ...reply, headers: { ...reply.headers, ...more } });
    telemetry.called('socket', undefined, error.code, 0);
    const facts = { requestId, path: withoutSecrets(path), origin: headers.origin, status: error.status };
    log.info(facts, 'socket refused');
  }

  function open(socket: WebSocket, connection: Duplex, request: IncomingMessage): void {
    const wire = new Wire(socket, connection, timings, unsent);
    wires.add(wire);
    const extra: Extra = {
      wire,
      arrival: arrivalOf(request),
      givenRequestId: request.headers['x-request-id'],
      greeting: setTimeout(() => wire.close(closeCodes.silent, 'Connection initialisation timeout'), timings.initMs),
    };
    const closed = protocol.opened(
      {
        protocol: socket.protocol,
        send: (message) => wire.send(message),
        close: (code = closeCodes.internal, reason = '') => wire.close(code, reason),
        // graphql-ws takes what is read already, too, though this type does not say so.
        onMessage: (handle) => wire.listen((message) => handle(message as string).catch((error) => fail(wire, error))),
      },
      extra,
    );
    socket.once('close', (code, reason) => {
      clearTimeout(extra.greeting);
      wires.delete(wire);
      closed(code, String(reason)).catch(onError);
    });
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
        : new DomainError('METHOD_NOT_ALLOWED', 'A socket is opened by GET.', { allow: ['GET'] });
    refuse(request, socket, error, { 'Sec-WebSocket-Version': '13, 8' });
  });
  return {
    close(graceMs) {
      isClosing = true;
      for (const wire of wires) wire.close(closeCodes.goingAway, 'Service restart');
      // A client that does not answer the goodbye must not keep the server from stopping.
      setTimeout(() => {
        for (const wire of wires) wire.terminate();
      }, graceMs).unref();
      sockets.close();
    },
  };
}

function protocolOptions(world: World, options: SocketOptions): ServerOptions<Record<string, unknown>, Extra> {
  const { schema, documents, door, sessions, timings, telemetry, log } = options;

  const fanOut = new FanOut();
  const onCall: ContextOptions['onCall'] = (...call) => telemetry.called('socket', ...call);

  function requestIdFor(extra: Extra): string {
    extra.requestId ??= requestIdOf(extra.givenRequestId);
    return extra.requestId;
  }

  function logTrouble(extra: Extra, error: DomainError): void {
    log.error({ requestId: requestIdFor(extra), err: error.cause ?? error }, 'request failed');
  }

  /** Notes that a hello or an operation was refused, before any operation of the domain was called. */
  function noteRefusal(extra: Extra, error: DomainError, startedMs: number): void {
    const durationMs = performance.now() - startedMs;
    telemetry.called('socket', undefined, error.code, durationMs);
    log[error.facts.isToldInSum === true ? 'debug' : 'info'](
      {
        requestId: requestIdFor(extra),
        path: '/graphql',
        accountId: extra.caller?.account.id,
        code: error.code,
        durationMs: Math.round(durationMs * 100) / 100,
      },
      'socket request refused',
    );
  }

  /** @param count told of trouble that is not counted yet */
  function present(
    errors: readonly GraphQLError[],
    extra: Extra,
    count?: (error: DomainError) => void,
  ): GraphQLFormattedError[] {
    const requestId = requestIdFor(extra);
    const onTrouble = (error: DomainError): void => {
      logTrouble(extra, error);
      count?.(error);
    };
    const options = { requestId, requestFailed: false, onTrouble };
    return errors.map((error) => presentError(error, options).toJSON());
  }

  /** The caller, with what has changed of its account since it was let in. */
  async function callerOf({ caller }: Extra): Promise<Caller> {
    if (caller === undefined) throw new Error('A socket subscribes before it was let in');
    const account = await world.storage.read.accounts.find(caller.account.id);
    return account === undefined || isDeepStrictEqual(account, caller.account) ? caller : { ...caller, account };
  }

  /** The arguments to execute with, or what is wrong with the operation: its own errors, not the socket's end. */
  async function prepare(
    { wire }: Extra,
    caller: Caller,
    id: string,
    payload: SubscribePayload,
  ): Promise<SocketArgs | readonly GraphQLError[]> {
    const prepared = documents.prepare(payload.query);
    const { document, errors, source } = prepared;
    (payload as { query: string }).query = source; // a thousand subscriptions that are alike share their text
    const operation = getOperationAST(document, payload.operationName);
    if (operation == null) throw new DomainError('BAD_REQUEST', 'The document does not hold the operation to run.');
    if (errors.length > 0) return errors;
    const start = `{"id":${JSON.stringify(id)},"type":"next","payload":`;
    const args: SocketArgs = {
      schema,
      document,
      operationName: payload.operationName ?? null,
      variableValues: payload.variables ?? null,
      outlet: wire,
      deliver: (answers) => wire.send(...answers.map((answer) => `${start}${answer}}`)),
    };
    const budget = new AnswerBudget();
    const refused = refusalsOf(prepared, args, budget);
    if (refused.length > 0) return refused;
    const isSubscription = operation.operation === 'subscription';
    if (isSubscription) forgetTheRest(payload); // graphql-ws keeps it for as long as the subscription lasts
    if (!wire.makeRoom(id, isSubscription ? 'subscription' : 'answer')) throw noRoom(isSubscription);
    return {
      ...args,
      contextValue: new OperationContext(world, caller, {
        timings,
        onCall,
        isSubscription,
        budget,
        closed: wire.ended,
      }),
    };
  }

  /** The arguments to execute a `subscribe` message with, or why it is refused, which leaves the socket as it is. */
  async function admit(
    extra: Extra,
    id: string,
    payload: SubscribePayload,
  ): Promise<SocketArgs | readonly GraphQLError[]> {
    try {
      const turn = door.enter('others');
      if (turn !== undefined) await turn;
      const caller = await callerOf(extra);
      if (caller.expiresAtMs !== undefined && caller.expiresAtMs <= world.clock.now()) {
        endSession(extra.wire, 'credential');
        throw new DomainError('UNAUTHENTICATED', 'The credential has expired.');
      }
      await door.charge(caller);
      if (!extra.wire.hasRoom) await extra.wire.room();
      return await prepare(extra, caller, id, payload);
    } catch (error) {
      return [error instanceof GraphQLError ? asBadRequest(error) : asGraphQLError(error)];
    }
  }

  return {
    execute: executeWithin,
    // Its arguments are those that `onSubscribe` has returned.
    subscribe: (args) => fanOut.subscribe(args, (args as SocketArgs).deliver, (args as SocketArgs).outlet),
    connectionInitWaitTimeout: 0,

    async onConnect(context) {
      const { connectionParams, extra } = context;
      const { wire, arrival = {} } = extra;
      (context as { connectionParams?: object | undefined }).connectionParams = undefined; // it holds a secret
      extra.arrival = undefined;
      clearTimeout(extra.greeting);
      extra.greeting = undefined;
      const startedMs = performance.now();
      const given = connectionParams?.['authorization'] ?? connectionParams?.['Authorization'];
      try {
        const turn = door.enter('others');
        if (turn !== undefined) await turn;
        const caller = await door.identify(typeof given === 'string' ? { ...arrival, authorization: given } : arrival);
        door.refuseForeignPage(caller, arrival);
        extra.caller = caller;
        wire.accountId = caller.account.id;
      } catch (error) {
        const known = error instanceof DomainError ? error : internal(error);
        noteRefusal(extra, known, startedMs);
        if (isTrouble(known)) logTrouble(extra, known);
        else if (known.code !== 'UNAVAILABLE') return false;
        wire.close(closeCodes.tryAgain, 'Try again later');
        return true;
      }
      if (wire.ended.aborted) return true;
      const release = sessions.open(extra.caller, (reason) => endSession(wire, reason));
      if (release === undefined) wire.close(closeCodes.tooManySockets, 'Too many sockets');
      else wire.ended.addEventListener('abort', release);
      return true;
    },

    async onSubscribe({ extra }, id, payload) {
      const startedMs = performance.now();
      const admitted = await admit(extra, id, payload);
      // What is let in calls operations, which are told of one by one.
      if (isRefused(admitted)) noteRefusal(extra, domainErrorOf(admitted[0], false), startedMs);
      return admitted;
    },

    onNext({ extra }, _id, _payload, _args, result): FormattedExecutionResult | undefined {
      if (result.errors === undefined) return undefined;
      const errors = present(result.errors, extra, (error) => {
        if (isUncounted(error)) telemetry.called('socket', undefined, error.code, 0);
      });
      return result.data === undefined ? { errors } : { data: result.data, errors };
    },

    onError({ extra }, _id, _payload, errors) {
      return present(errors as GraphQLError[], extra);
    },
  };
}

function isRefused(
  admitted: SocketArgs | readonly GraphQLError[],
): admitted is readonly [GraphQLError, ...GraphQLError[]] {
  return Array.isArray(admitted);
}

function noRoom(isSubscription: boolean): DomainError {
  return new DomainError(
    'QUOTA_EXCEEDED',
    isSubscription
      ? `A socket can have ${maxAtOnce} subscriptions; open another one.`
      : `A socket can wait for ${maxAtOnce} queries and mutations at once; send more when some are answered.`,
  );
}

function endSession(wire: Wire, reason: EndReason): void {
  if (reason === 'shutdown') wire.close(closeCodes.goingAway, 'Service restart');
  else wire.close(closeCodes.forbidden, 'Forbidden');
}

/** What graphql-js says of a document that it cannot read. */
function asBadRequest(error: GraphQLError): GraphQLError {
  if (error.originalError !== undefined) return error;
  const { message, nodes, source, positions } = error;
  return new GraphQLError(message, {
    nodes,
    source,
    positions,
    originalError: new DomainError('BAD_REQUEST', message),
  });
}
