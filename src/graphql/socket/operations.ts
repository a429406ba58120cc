import { isDeepStrictEqual } from 'node:util';
import { type ExecutionResult, type GraphQLError, getOperationAST } from 'graphql';
import type { SubscribePayload } from 'graphql-ws';
import { refuseGone } from '../../access/admission.ts';
import type { Charge } from '../../access/rate-limit.ts';
import type { Caller } from '../../domain/caller.ts';
import { DomainError } from '../../domain/errors.ts';
import type { Ports } from '../../domain/ports.ts';
import { AnswerBudget } from '../answer-budget.ts';
import { type ContextOptions, OperationContext } from '../context.ts';
import { envelopeOf } from '../envelope.ts';
import { noOperation } from '../errors.ts';
import type { GraphQLParts } from '../parts.ts';
import { asGraphQLError, dropExtraParams, inRoom, judge, run } from '../requests.ts';
import type { SocketState } from './client-socket.ts';
import type { SubscriptionArgs } from './fan-out.ts';
import { maxAtOnce } from './inbox.ts';

/** What graphql-ws executes an operation with. */
export interface SocketArgs extends SubscriptionArgs {
  readonly state: SocketState;
  /** What a query or a mutation was charged. */
  readonly charged?: Charge | undefined;
}

/** Whether an operation runs, and with what, or the errors that it is refused with. */
export type OperationOrErrors = SocketArgs | readonly GraphQLError[];

/** Admits and prepares the operations that clients ask for by `subscribe` messages. */
export class SocketOperations {
  readonly #ports: Ports;
  readonly #parts: GraphQLParts;
  readonly #onCall: ContextOptions['onCall'];

  constructor(ports: Ports, parts: GraphQLParts) {
    this.#ports = ports;
    this.#parts = parts;
    this.#onCall = (...call) => parts.telemetry.called('socket', ...call);
  }

  /** Charges an operation as one request and checks it. A refused one leaves the socket open. */
  async admit(state: SocketState, id: string, payload: SubscribePayload): Promise<OperationOrErrors> {
    const { admission } = this.#parts;
    try {
      // What would be refused does not wait for capacity, where it would hold up the requests of others.
      const waiting = await this.#callerOf(state);
      const { remaining } = await admission.peek(waiting);
      if (remaining > 0) await admission.enter(waiting.account.id, 'either');
      if (!state.socket.isWritable) await state.socket.drained();
      requireOpen(state);
      const caller = await this.#callerOf(state);
      if (caller.expiresAtMs !== undefined && caller.expiresAtMs <= this.#ports.clock.now()) {
        state.socket.endSession('credential');
        throw new DomainError('UNAUTHENTICATED', 'The credential has expired.');
      }
      const charged = await admission.charge(caller);
      if (state.socket.isEnded) await this.#refuseEnded(state, caller, charged);
      return await this.#prepare(state, { caller, charged }, id, payload);
    } catch (error) {
      return [asGraphQLError(error)];
    }
  }

  /**
   * Runs a query or a mutation while there is room for its answer, in memory and on its socket: of many that were sent at
   * once, those before it may have filled that since it was admitted.
   */
  async run(args: SocketArgs): Promise<ExecutionResult> {
    const { prepared, contextValue, state, charged } = args;
    const { caller, budget } = contextValue as OperationContext;
    const { socket } = state;
    for (;;) {
      const result = await inRoom(caller, budget, () => {
        refuseGone({ isGone: socket.isEnded });
        return socket.isWritable ? run(prepared, args) : undefined;
      });
      if (result !== undefined) return result;
      await socket.drained();
      await this.#refuseEnded(state, caller, charged);
    }
  }

  /** The caller with its account as it is now: plans and limits may have changed since the socket was opened. */
  async #callerOf({ caller }: SocketState): Promise<Caller> {
    if (caller === undefined) throw new Error('A socket subscribed before it was authenticated');
    const account = await this.#ports.storage.read.accounts.find(caller.account.id);
    return account === undefined || isDeepStrictEqual(account, caller.account) ? caller : { ...caller, account };
  }

  /** Looks at the credential again right before an operation runs: another process may just have revoked it. */
  async #refuseEnded(state: SocketState, caller: Caller, charged: Charge | undefined): Promise<void> {
    try {
      await this.#parts.admission.refuseEnded(caller, { charged });
    } catch (error) {
      if (error instanceof DomainError && error.code === 'UNAUTHENTICATED') state.socket.endSession('credential');
      throw error;
    }
    requireOpen(state);
  }

  async #prepare(
    state: SocketState,
    { caller, charged }: { caller: Caller; charged: Charge },
    id: string,
    payload: SubscribePayload,
  ): Promise<OperationOrErrors> {
    const { named, admission } = this.#parts;
    const { socket } = state;
    const envelope = envelopeOf(payload);
    const { operationName, variableValues } = envelope;
    const prepared = await named.prepare(caller, envelope);
    if (socket.isEnded) await this.#refuseEnded(state, caller, charged);
    const { schema, document, errors, source } = prepared;
    (payload as { query: string }).query = source; // thousands of identical subscriptions share one copy of the text
    const operation = getOperationAST(document, operationName);
    if (operation == null) throw noOperation();
    if (errors.length > 0) return errors;
    const start = `{"id":${JSON.stringify(id)},"type":"next","payload":`;
    const args: SocketArgs = {
      state,
      schema,
      document,
      prepared,
      operationName,
      variableValues,
      deliver: (answers) => socket.send(...answers.map((answer) => `${start}${answer}}`)),
      outlet: socket,
    };
    const budget = new AnswerBudget();
    const { errors: refusals, units } = judge(prepared, args, budget);
    if (refusals.length > 0) return refusals;
    const isSubscription = operation.operation === 'subscription';
    dropExtraParams(payload, prepared, envelope); // graphql-ws retains it while the operation lasts
    if (!socket.makeRoom(id, isSubscription ? 'subscription' : 'answer')) throw tooManyAtOnce(isSubscription);
    const spent = units > 1 ? await admission.chargeInstead(caller, charged, units) : charged;
    await this.#refuseEnded(state, caller, spent);
    return {
      ...args,
      charged: isSubscription ? undefined : spent,
      contextValue: new OperationContext(this.#ports, caller, {
        onCall: this.#onCall,
        budget: isSubscription ? undefined : budget, // each of its responses has one of its own
      }),
    };
  }
}

/** An operation does not begin after its socket has ended: its credential may have been revoked. */
function requireOpen({ socket }: SocketState): void {
  if (socket.isEnded) throw new DomainError('UNAUTHENTICATED', 'The socket has ended.');
}

function tooManyAtOnce(isSubscription: boolean): DomainError {
  return new DomainError(
    'QUOTA_EXCEEDED',
    isSubscription
      ? `A socket can have ${maxAtOnce} subscriptions; open another one.`
      : `A socket can wait for ${maxAtOnce} queries and mutations at once; send more when some are answered.`,
  );
}
