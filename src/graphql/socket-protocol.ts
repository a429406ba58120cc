import type { GraphQLError } from 'graphql';
import type { Context, ServerOptions } from 'graphql-ws';
import type { Logger } from 'pino';
import type { Door } from '../access/admit.ts';
import type { Sessions } from '../access/sessions.ts';
import { DomainError, internal, isTrouble } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import { domainErrorOf } from './errors.ts';
import { FanOut } from './fan-out.ts';
import { executeWithinBudget } from './requests.ts';
import { type Admission, type AdmissionOptions, type SocketArgs, SocketOperations } from './socket-operations.ts';
import { SocketReports } from './socket-reports.ts';
import { endSession, type SocketState } from './socket-state.ts';
import { closeCodes } from './wire.ts';

/** What `connection_init` may carry. */
export type ConnectionParams = Record<string, unknown>;

export interface ProtocolOptions extends AdmissionOptions {
  readonly sessions: Sessions;
  readonly log: Logger;
}

/** The hooks of graphql-ws: authentication at `connection_init`, admission and charging at every `subscribe`. */
export function protocolOptions(world: World, options: ProtocolOptions): ServerOptions<ConnectionParams, SocketState> {
  const { door, sessions, telemetry, log } = options;
  const fanOut = new FanOut();
  const reports = new SocketReports(telemetry, log);
  const operations = new SocketOperations(world, options);
  return {
    connectionInitWaitTimeout: 0, // `SocketState.greeting` takes its place

    onConnect: (context) => connect(context, { door, sessions, reports }),

    async onSubscribe({ extra }, id, payload) {
      const startedMs = performance.now();
      const admission = await operations.admit(extra, id, payload);
      // An admitted operation is counted by the calls that it makes.
      if (isRefused(admission)) reports.recordRefusal(extra, domainErrorOf(admission[0], false), startedMs);
      return admission;
    },

    execute: executeWithinBudget,
    // Its arguments are those that `onSubscribe` has returned.
    subscribe: (args) => fanOut.subscribe(args as SocketArgs),

    onNext({ extra }, _id, _payload, _args, result) {
      if (result.errors === undefined) return undefined;
      const errors = reports.presentAndCount(result.errors, extra);
      return result.data === undefined ? { errors } : { data: result.data, errors };
    },

    onError({ extra }, _id, _payload, errors) {
      return reports.present(errors as GraphQLError[], extra);
    },
  };
}

/** @returns false for a client that may not connect: graphql-ws then closes its socket with 4403 */
async function connect(
  context: Context<ConnectionParams, SocketState>,
  { door, sessions, reports }: { door: Door; sessions: Sessions; reports: SocketReports },
): Promise<boolean> {
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
    reports.recordRefusal(extra, known, startedMs);
    if (isTrouble(known)) reports.logTrouble(extra, known);
    else if (known.code !== 'UNAVAILABLE') return false;
    wire.close(closeCodes.tryAgain, 'Try again later');
    return true;
  }
  if (wire.ended.aborted) return true;
  const release = sessions.open(extra.caller, (reason) => endSession(wire, reason));
  if (release === undefined) wire.close(closeCodes.tooManySockets, 'Too many sockets');
  else wire.ended.addEventListener('abort', release);
  return true;
}

function isRefused(admission: Admission): admission is readonly [GraphQLError, ...GraphQLError[]] {
  return Array.isArray(admission);
}
