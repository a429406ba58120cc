import { isDeepStrictEqual } from 'node:util';
import { GraphQLError, type GraphQLSchema, getOperationAST } from 'graphql';
import type { SubscribePayload } from 'graphql-ws';
import type { Door } from '../access/admit.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Telemetry, World } from '../domain/ports.ts';
import type { ConnectionTimings } from '../http/timings.ts';
import { AnswerBudget } from './answer-budget.ts';
import { type ContextOptions, OperationContext } from './context.ts';
import type { Documents } from './documents.ts';
import type { SubscriptionArgs } from './fan-out.ts';
import { maxAtOnce } from './inbox.ts';
import { asGraphQLError, dropExtraParams, refusalsOf } from './requests.ts';
import { endSession, type SocketState } from './socket-state.ts';

/** What graphql-ws executes an operation with. */
export interface SocketArgs extends SubscriptionArgs {
  readonly schema: GraphQLSchema;
}

/** Whether an operation runs, and with what, or the errors that it is refused with. */
export type Admission = SocketArgs | readonly GraphQLError[];

export interface AdmissionOptions {
  readonly schema: GraphQLSchema;
  readonly documents: Documents;
  readonly door: Door;
  readonly timings: ConnectionTimings;
  readonly telemetry: Telemetry;
}

/** Admits and prepares the operations that clients ask for by `subscribe` messages. */
export class SocketOperations {
  readonly #world: World;
  readonly #options: AdmissionOptions;
  readonly #onCall: ContextOptions['onCall'];

  constructor(world: World, options: AdmissionOptions) {
    this.#world = world;
    this.#options = options;
    this.#onCall = (...call) => options.telemetry.called('socket', ...call);
  }

  /** Charges an operation as one request and checks it. A refused one leaves the socket open. */
  async admit(state: SocketState, id: string, payload: SubscribePayload): Promise<Admission> {
    const { door } = this.#options;
    try {
      const turn = door.enter('others');
      if (turn !== undefined) await turn;
      if (!state.wire.isWritable) await state.wire.drained();
      refuseEnded(state);
      const caller = await this.#callerOf(state);
      if (caller.expiresAtMs !== undefined && caller.expiresAtMs <= this.#world.clock.now()) {
        endSession(state.wire, 'credential');
        throw new DomainError('UNAUTHENTICATED', 'The credential has expired.');
      }
      await door.charge(caller);
      refuseEnded(state);
      return await this.#prepare(state, caller, id, payload);
    } catch (error) {
      return [error instanceof GraphQLError ? asBadRequest(error) : asGraphQLError(error)];
    }
  }

  /** The caller with its account as it is now: plans and limits may have changed since the socket was opened. */
  async #callerOf({ caller }: SocketState): Promise<Caller> {
    if (caller === undefined) throw new Error('A socket subscribed before it was authenticated');
    const account = await this.#world.storage.read.accounts.find(caller.account.id);
    return account === undefined || isDeepStrictEqual(account, caller.account) ? caller : { ...caller, account };
  }

  async #prepare({ wire }: SocketState, caller: Caller, id: string, payload: SubscribePayload): Promise<Admission> {
    const { schema, documents, timings } = this.#options;
    const prepared = documents.prepare(payload.query);
    const { document, errors, source } = prepared;
    (payload as { query: string }).query = source; // thousands of identical subscriptions share one copy of the text
    const operation = getOperationAST(document, payload.operationName);
    if (operation == null) throw new DomainError('BAD_REQUEST', 'The document does not hold the operation to run.');
    if (errors.length > 0) return errors;
    const start = `{"id":${JSON.stringify(id)},"type":"next","payload":`;
    const args: SocketArgs = {
      schema,
      document,
      operationName: payload.operationName ?? null,
      variableValues: payload.variables ?? null,
      deliver: (answers) => wire.send(...answers.map((answer) => `${start}${answer}}`)),
      outlet: wire,
    };
    const budget = new AnswerBudget();
    const refused = refusalsOf(prepared, args, budget);
    if (refused.length > 0) return refused;
    const isSubscription = operation.operation === 'subscription';
    if (isSubscription) dropExtraParams(payload); // graphql-ws retains it while the subscription lasts
    if (!wire.makeRoom(id, isSubscription ? 'subscription' : 'answer')) throw noRoom(isSubscription);
    return {
      ...args,
      contextValue: new OperationContext(this.#world, caller, {
        timings,
        onCall: this.#onCall,
        isSubscription,
        budget,
        closed: wire.ended,
      }),
    };
  }
}

/** An operation does not begin after its socket has ended: its credential may have been revoked. */
function refuseEnded({ wire }: SocketState): void {
  if (wire.ended.aborted) throw new DomainError('UNAUTHENTICATED', 'The socket has ended.');
}

function noRoom(isSubscription: boolean): DomainError {
  return new DomainError(
    'QUOTA_EXCEEDED',
    isSubscription
      ? `A socket can have ${maxAtOnce} subscriptions; open another one.`
      : `A socket can wait for ${maxAtOnce} queries and mutations at once; send more when some are answered.`,
  );
}

/** A syntax error of graphql-js, which has no code of ours yet. */
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
