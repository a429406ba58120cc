import type { GraphQLError, GraphQLFormattedError } from 'graphql';
import type { Logger } from 'pino';
import type { DomainError } from '../domain/errors.ts';
import type { Telemetry } from '../domain/ports.ts';
import { requestIdOf } from '../http/request-context.ts';
import type { RequestLog } from '../http/request-log.ts';
import { isUncounted } from './context.ts';
import { presentError } from './errors.ts';
import type { SocketState } from './socket-state.ts';

/** Logs, counts and presents what goes wrong on sockets. */
export class SocketReports {
  readonly #telemetry: Telemetry;
  readonly #log: Logger;
  readonly #requestLog: RequestLog;

  constructor(telemetry: Telemetry, log: Logger, requestLog: RequestLog) {
    this.#telemetry = telemetry;
    this.#log = log;
    this.#requestLog = requestLog;
  }

  logTrouble(state: SocketState, error: DomainError): void {
    this.#requestLog.failed({ requestId: requestIdFor(state) }, error.cause ?? error);
  }

  /** Records that a socket or one of its operations was refused before it called an operation of the domain. */
  recordRefusal(state: SocketState, error: DomainError, startedMs: number): void {
    const durationMs = performance.now() - startedMs;
    this.#telemetry.called('socket', undefined, error.code, durationMs);
    if (!this.#requestLog.hasRoom(error.status)) return;
    this.#log.info(
      {
        requestId: requestIdFor(state),
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
      if (isUncounted(error)) this.#telemetry.called('socket', undefined, error.code, 0);
    });
  }

  /** @param onTrouble called, once it is logged, with each error that the operator should look into */
  present(
    errors: readonly GraphQLError[],
    state: SocketState,
    onTrouble?: (error: DomainError) => void,
  ): GraphQLFormattedError[] {
    const options = {
      requestId: requestIdFor(state),
      requestFailed: false,
      onTrouble: (error: DomainError): void => {
        this.logTrouble(state, error);
        onTrouble?.(error);
      },
    };
    return errors.map((error) => presentError(error, options).toJSON());
  }
}

function requestIdFor(state: SocketState): string {
  state.requestId ??= requestIdOf(state.givenRequestId);
  return state.requestId;
}
