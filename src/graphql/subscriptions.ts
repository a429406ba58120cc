import { createSourceEventStream, type ExecutionArgs, type ExecutionResult, validateSubscriptionArgs } from 'graphql';
import type { Awaitable } from '../domain/awaitable.ts';
import type { EventStream, EventSubscription, LogEvent } from '../domain/events.ts';
import type { PullWatch } from '../http/pull-watch.ts';
import { scheduler } from '../runtime/scheduler.ts';
import type { OperationContext } from './context.ts';
import { asGraphQLError } from './requests.ts';

/** Iterates over events of the log, one by one or in batches. Ending it also ends a read that is waiting. */
export class EventIterator implements AsyncIterableIterator<LogEvent> {
  readonly #accountId: string;
  readonly #stream: EventStream;
  readonly #batches: AsyncIterator<readonly LogEvent[]>;
  readonly #closed: AbortSignal | undefined;
  readonly #onClosed = (): void => this.#end();
  #isEnded = false;

  constructor(subscription: EventSubscription, { caller, closed }: OperationContext) {
    this.#accountId = caller.account.id;
    this.#stream = subscription.follow();
    this.#batches = this.#stream[Symbol.asyncIterator]();
    this.#closed = closed;
    if (closed?.aborted) this.#end();
    else closed?.addEventListener('abort', this.#onClosed);
  }

  async next(): Promise<IteratorResult<LogEvent>> {
    let batch = await this.#nextBatch();
    if (batch !== undefined) {
      // Its response is computed in a turn of the account. Until then it waits in the log: it may be erased meanwhile.
      this.giveBack(batch[0] as LogEvent);
      await scheduler.step(this.#accountId);
      batch = await this.#nextBatch();
    }
    if (batch === undefined) return { done: true, value: undefined };
    const [event, second] = batch;
    if (second !== undefined) this.giveBack(second);
    return { done: false, value: event as LogEvent };
  }

  async #nextBatch(): Promise<readonly LogEvent[] | undefined> {
    try {
      return this.received(await this.pull());
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /** Asks for the next events, which `received` unpacks. If it rejects, the iterator has to be returned. */
  pull(): Promise<IteratorResult<readonly LogEvent[], unknown>> {
    return this.#batches.next();
  }

  /** The events that have come; undefined at the end. Those that are not used at once have to be given back. */
  received(next: IteratorResult<readonly LogEvent[], unknown>): readonly LogEvent[] | undefined {
    if (next.done === true) this.#end();
    if (next.done === true || this.#isEnded) return undefined;
    return next.value;
  }

  /** Returns the last batch to the stream, from this event on. */
  giveBack(from: LogEvent): void {
    this.#stream.giveBack(from);
  }

  /**
   * Whether an event that was taken is still as it was. If some may have been erased since, it is read again: its answer may
   * have waited for seconds. If not, it is given back.
   */
  async isUnchanged(event: LogEvent): Promise<boolean> {
    while (this.#stream.mayBeErased) {
      this.giveBack(event);
      const batch = await this.#nextBatch();
      if (batch === undefined) return false;
      const [again, second] = batch as [LogEvent, LogEvent?];
      if (again.position !== event.position || again.erased !== event.erased) {
        this.giveBack(again);
        return false;
      }
      if (second !== undefined) this.giveBack(second);
    }
    return true;
  }

  async return(): Promise<IteratorResult<LogEvent>> {
    this.#end();
    await this.#batches.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #end(): void {
    this.#closed?.removeEventListener('abort', this.#onClosed);
    this.#isEnded = true;
    this.#stream.end();
  }
}

/**
 * The events of a subscription, all of which follow the log, or why it fails.
 * @param args of graphql-js, with an `OperationContext`
 */
export async function eventsOf(args: ExecutionArgs): Promise<EventIterator | ExecutionResult> {
  const validated = validateSubscriptionArgs(args);
  if (!('operation' in validated)) return { errors: validated };
  const events = await createSourceEventStream(validated);
  if (!(Symbol.asyncIterator in events) || events instanceof EventIterator) return events;
  throw new Error('A subscription that does not follow the log');
}

interface PresentedOptions {
  /** Ends a client that does not read what it was given. */
  readonly watch: PullWatch;
  readonly answer: (event: LogEvent) => Awaitable<ExecutionResult>;
  /** Gives the errors of a result the form that clients may see. */
  readonly present: (result: ExecutionResult) => ExecutionResult;
}

/** The results of a subscription over SSE, one for each event. If it fails, its last result is the error. */
export class PresentedResults implements AsyncIterableIterator<ExecutionResult> {
  readonly #events: EventIterator;
  readonly #options: PresentedOptions;
  #failed = false;

  constructor(events: EventIterator, options: PresentedOptions) {
    this.#events = events;
    this.#options = options;
  }

  async next(): Promise<IteratorResult<ExecutionResult>> {
    this.#options.watch.taken();
    if (this.#failed) return { done: true, value: undefined };
    const value = await this.#next();
    if (value === undefined) return { done: true, value };
    this.#options.watch.given();
    return { done: false, value };
  }

  /** @returns undefined at the end */
  async #next(): Promise<ExecutionResult | undefined> {
    const { answer, present } = this.#options;
    try {
      for (;;) {
        const next = await this.#events.next();
        if (next.done === true) return undefined;
        const result = await answer(next.value);
        if (await this.#events.isUnchanged(next.value)) return present(result);
      }
    } catch (error) {
      this.#failed = true;
      return present({ errors: [asGraphQLError(error)] });
    }
  }

  async return(): Promise<IteratorResult<ExecutionResult>> {
    this.#options.watch.taken();
    await this.#events.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
