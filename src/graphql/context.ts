import { revocationMs } from '../access/admission.ts';
import { refuseEnded } from '../domain/api-keys.ts';
import type { Caller } from '../domain/caller.ts';
import { codeOf, DomainError, type Fault } from '../domain/errors.ts';
import type { Operation } from '../domain/operation.ts';
import type { CallCode, Ports } from '../domain/ports.ts';
import type { ConnectionTimings } from '../http/timings.ts';
import type { Room } from '../runtime/room.ts';
import { AnswerBudget, maxEventBytes } from './answer-budget.ts';
import type { GraphQLContext } from './builder.ts';
import { eventReads, Loaders } from './loaders.ts';

export interface ContextOptions {
  readonly timings: ConnectionTimings;
  /** Called when a call of an operation has ended. */
  readonly onCall: (operation: string, code: CallCode, durationMs: number) => void;
  readonly onSlowReader?: (() => void) | undefined;
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
 * The context of one operation, over any transport. Ten thousand idle subscriptions may hold one each, so what is not
 * always needed is created on first use.
 */
export class OperationContext implements GraphQLContext {
  readonly caller: Caller;
  readonly timings: ConnectionTimings;
  readonly onSlowReader: (() => void) | undefined;
  #budget: AnswerBudget | undefined;
  readonly #ports: Ports;
  readonly #onCall: ContextOptions['onCall'];
  readonly #room: Room | undefined;
  #loaders: Loaders | undefined;
  /** When the credential was looked at last. */
  #lookedAtMs = performance.now();

  constructor(ports: Ports, caller: Caller, options: ContextOptions) {
    this.caller = caller;
    this.timings = options.timings;
    this.onSlowReader = options.onSlowReader;
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

  call<Output>(
    operation: Operation<never, Output> | Operation<unknown, Output>,
    input: object,
    faults?: readonly Fault[],
  ): Promise<Output> {
    return this.countAsCall(operation, () => operation.execute(this.#ports, this.caller, input, faults));
  }

  change<Output>(operation: Operation<unknown, Output>, input: object): Promise<Output> {
    return this.countAsCall(operation, async () => {
      await this.#refuseEnded();
      return await operation.execute(this.#ports, this.caller, input);
    });
  }

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

  /** The same as own properties of a plain object, which Yoga copies into its own context. */
  asProperties(): GraphQLContext {
    return {
      ...this,
      budget: this.budget,
      loaders: this.loaders,
      call: (operation, input, faults) => this.call(operation, input, faults),
      change: (operation, input) => this.change(operation, input),
      countAsCall: (operation, work) => this.countAsCall(operation, work),
    };
  }
}
