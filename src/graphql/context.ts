import { revocationMs } from '../access/admission.ts';
import { refuseEnded } from '../domain/api-keys.ts';
import type { Caller } from '../domain/caller.ts';
import { codeOf, DomainError, type Fault } from '../domain/errors.ts';
import type { Operation } from '../domain/operation.ts';
import type { CallCode, Ports } from '../domain/ports.ts';
import type { Room } from '../runtime/room.ts';
import { AnswerBudget, maxEventBytes } from './answer-budget.ts';
import { eventReads, Loaders } from './loaders.ts';

export interface ContextOptions {
  /** Called when a call of an operation has ended. */
  readonly onCall: (operation: string, code: CallCode, durationMs: number) => void;
  /** Aborts when the connection of a subscription closes; unset on sockets, which end their subscriptions themselves. */
  readonly closed?: AbortSignal | undefined;
  /** What the response may still contain; shared by the operations of a batch. */
  readonly budget?: AnswerBudget | undefined;
  /** Where what it loads waits. */
  readonly room?: Room | undefined;
}

/** The errors that have been counted. */
const counted = new WeakSet<object>();

/**
 * Whether this error still needs counting: not if a call ended with it, and once only however often it is presented.
 */
export function isUncounted(error: unknown): boolean {
  const cause = causeOf(error);
  if (counted.has(cause)) return false;
  counted.add(cause);
  return true;
}

function causeOf(error: unknown): object {
  return Object((error instanceof DomainError ? error.cause : undefined) ?? error);
}

/**
 * The context of one operation, over any transport, which its resolvers are called with. Ten thousand idle subscriptions
 * may hold one each, so what is not always needed is created on first use.
 */
export class OperationContext {
  readonly caller: Caller;
  readonly closed: AbortSignal | undefined;
  #budget: AnswerBudget | undefined;
  readonly #ports: Ports;
  readonly #onCall: ContextOptions['onCall'];
  readonly #room: Room | undefined;
  #loaders: Loaders | undefined;
  /** When the credential was looked at last. */
  #lookedAtMs = performance.now();

  constructor(ports: Ports, caller: Caller, options: ContextOptions) {
    this.caller = caller;
    this.closed = options.closed;
    this.#budget = options.budget;
    this.#room = options.room;
    this.#ports = ports;
    this.#onCall = options.onCall;
  }

  get budget(): AnswerBudget {
    this.#budget ??= new AnswerBudget();
    return this.#budget;
  }

  get loaders(): Loaders {
    this.#loaders ??= new Loaders(this.#ports, this.caller, this.budget, this.#room);
    return this.#loaders;
  }

  /** The same context for the response to one event, which has a budget of its own and loads what is current. */
  forEvent(): OperationContext {
    const budget = new AnswerBudget(maxEventBytes);
    return new OperationContext(this.#ports, this.caller, { ...this, onCall: this.#onCall, budget, room: eventReads });
  }

  /** Drops what is loaded, which may have changed. */
  forgetLoaded(): void {
    this.#loaders = undefined;
  }

  /**
   * Calls an operation of the domain as this caller. Resolvers call operations in no other way.
   * @param faults what is wrong with the arguments already, to be reported together with what the operation finds
   */
  call<Output>(
    operation: Operation<never, Output> | Operation<unknown, Output>,
    input: object,
    faults?: readonly Fault[],
  ): Promise<Output> {
    return this.countAsCall(operation, () => operation.execute(this.#ports, this.caller, input, faults));
  }

  /**
   * Calls the operation of a field of a mutation. A batch of them can take seconds: one that comes late looks at the
   * credential again.
   */
  change<Output>(operation: Operation<unknown, Output>, input: object): Promise<Output> {
    return this.countAsCall(operation, async () => {
      await this.#refuseEnded();
      return await operation.execute(this.#ports, this.caller, input);
    });
  }

  /** Runs work that a loader does in place of an operation, and counts it as a call of that operation. */
  countAsCall<Output>({ name }: { readonly name: string }, work: () => Promise<Output>): Promise<Output> {
    const startedMs = performance.now();
    const report = (code: CallCode): void => this.#onCall(name, code, performance.now() - startedMs);
    const called = work();
    void called.then(
      () => report('OK'),
      (error: unknown) => {
        counted.add(causeOf(error));
        report(codeOf(error));
      },
    );
    return called;
  }

  async #refuseEnded(): Promise<void> {
    if (performance.now() - this.#lookedAtMs <= revocationMs) return;
    const { caller } = this;
    const { storage, clock } = this.#ports;
    await refuseEnded(storage.read, { caller, clock });
    this.#lookedAtMs = performance.now();
  }
}
