import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionResult, GraphQLError, GraphQLFormattedError } from 'graphql';
import type { Context, ServerOptions } from 'graphql-ws';
import type { Caller } from '../../domain/caller.ts';
import { DomainError, type ErrorCode, internal, isTrouble } from '../../domain/errors.ts';
import type { Ports } from '../../domain/ports.ts';
import type { FaceParts } from '../../http/plugin.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { isUncounted } from '../context.ts';
import { domainErrorOf, presentError } from '../errors.ts';
import type { GraphQLParts } from '../parts.ts';
import { asGraphQLError } from '../requests.ts';
import { closeCodes, type SocketState } from './client-socket.ts';
import { FanOut } from './fan-out.ts';
import { type OperationOrErrors, type SocketArgs, SocketOperations } from './operations.ts';

/** The codes that operations are refused with before they are charged. */
const unchargedCodes: ReadonlySet<ErrorCode> = new Set(['RATE_LIMITED', 'UNAUTHENTICATED', 'UNAVAILABLE']);

/** What `connection_init` may carry. */
export type ConnectionParams = Record<string, unknown>;

/** The hooks of graphql-ws: authentication at `connection_init`, admission and charging at every `subscribe`. */
export function protocolOptions(ports: Ports, parts: GraphQLParts): ServerOptions<ConnectionParams, SocketState> {
  const fanOut = new FanOut(parts.documents);
  const reports = new SocketReports(parts);
  const operations = new SocketOperations(ports, parts);
  return {
    connectionInitWaitTimeout: 0, // `SilentSockets` takes its place

    onConnect: (context) => connect(context, parts, reports),

    async onSubscribe({ extra }, id, payload) {
      const startedMs = performance.now();
      const admitted = await operations.admit(extra, id, payload);
      // An admitted operation is counted by the calls that it makes.
      if (isRefused(admitted)) {
        const error = domainErrorOf(admitted[0], false);
        if (unchargedCodes.has(error.code)) extra.socket.countFree();
        reports.recordRefusal(extra, error, startedMs);
        if (extra.socket.isEnded && isTrouble(error)) reports.logTrouble(extra, error); // else `onError` does
      }
      return admitted;
    },

    // The arguments of these are what `onSubscribe` has returned.
    async execute(args) {
      const { state } = args as SocketArgs;
      let result: ExecutionResult;
      try {
        result = await operations.run(args as SocketArgs);
      } catch (error) {
        result = { errors: [asGraphQLError(error)] };
      }
      // What fails when the socket has ended is answered to nobody, and yet has to be known: `onNext` is not called then.
      if (state.socket.isEnded && result.errors !== undefined) reports.presentAndCount(result.errors, state);
      return result;
    },
    subscribe: (args) => fanOut.subscribe(args as SocketArgs),

    onNext({ extra }, _id, _payload, _args, result) {
      if (result.errors === undefined) return undefined;
      const errors = reports.presentAndCount(result.errors, extra);
      const { data, extensions } = result;
      return { ...(data === undefined ? {} : { data }), errors, ...(extensions === undefined ? {} : { extensions }) };
    },

    onError({ extra }, _id, _payload, errors) {
      return reports.present(errors as GraphQLError[], extra);
    },
  };
}

/** @returns false for a client that may not connect: graphql-ws then closes its socket with 4403 */
async function connect(
  context: Context<ConnectionParams, SocketState>,
  { admission, sessions }: FaceParts,
  reports: SocketReports,
): Promise<boolean> {
  const { connectionParams, extra } = context;
  const { socket, arrival = {} } = extra;
  (context as { connectionParams?: object | undefined }).connectionParams = undefined; // it holds a secret
  extra.arrival = undefined;
  extra.greeted?.();
  extra.greeted = undefined;
  const startedMs = performance.now();
  const given = connectionParams?.['authorization'] ?? connectionParams?.['Authorization'];
  let caller: Caller;
  try {
    caller = await admission.identify(typeof given === 'string' ? { ...arrival, authorization: given } : arrival);
    await admission.enter(caller.account.id, 'write');
    // What came right behind is handled first, and so found to be too early.
    await nextTurn();
    await scheduler.step(socket.turns);
    await admission.refuseEnded(caller);
    await admission.refuseForeignPage(caller, arrival);
    extra.caller = caller;
    socket.caller = caller;
  } catch (error) {
    const known = error instanceof DomainError ? error : internal(error);
    reports.recordRefusal(extra, known, startedMs);
    if (isTrouble(known)) reports.logTrouble(extra, known);
    else if (known.code !== 'UNAVAILABLE') return false;
    socket.close(closeCodes.tryAgain, 'Try again later');
    return true;
  }
  if (socket.isEnded) return true;
  if (!sessions.open(caller, socket)) socket.close(closeCodes.tooMany, 'Too many sockets');
  return true;
}

function isRefused(admitted: OperationOrErrors): admitted is readonly [GraphQLError, ...GraphQLError[]] {
  return Array.isArray(admitted);
}

/** Logs, counts and presents what goes wrong on sockets. */
class SocketReports {
  readonly #parts: FaceParts;

  constructor(parts: FaceParts) {
    this.#parts = parts;
  }

  logTrouble(state: SocketState, error: DomainError): void {
    this.#parts.requestLog.failed({ requestId: state.requestId }, error.cause ?? error);
  }

  /** Records that a socket or one of its operations was refused before it called an operation of the domain. */
  recordRefusal(state: SocketState, error: DomainError, startedMs: number): void {
    const durationMs = performance.now() - startedMs;
    this.#parts.telemetry.called('socket', undefined, error.code, durationMs);
    if (!this.#parts.requestLog.hasRoom(error.status)) return;
    this.#parts.log.info(
      {
        requestId: state.requestId,
        path: '/graphql',
        accountId: state.caller?.account.id,
        code: error.code,
        durationMs: Math.round(durationMs * 100) / 100,
      },
      'socket request refused',
    );
  }

  /** Presents the errors of an operation that ran, and counts those that no call of the domain has ended with. */
  presentAndCount(errors: readonly GraphQLError[], state: SocketState): GraphQLFormattedError[] {
    return this.present(errors, state, (error) => {
      if (isUncounted(error)) this.#parts.telemetry.called('socket', undefined, error.code, 0);
    });
  }

  /** @param onTrouble called, once it is logged, with each error that the operator should look into */
  present(
    errors: readonly GraphQLError[],
    state: SocketState,
    onTrouble?: (error: DomainError) => void,
  ): GraphQLFormattedError[] {
    const options = {
      requestId: state.requestId,
      requestFailed: false,
      onTrouble: (error: DomainError): void => {
        this.logTrouble(state, error);
        onTrouble?.(error);
      },
    };
    return errors.map((error) => presentError(error, options).toJSON());
  }
}
