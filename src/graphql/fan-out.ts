import {
  createSourceEventStream,
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  executeSubscriptionEvent,
  type ValidatedSubscriptionArgs,
  validateSubscriptionArgs,
} from 'graphql';
import type { Caller } from '../domain/caller.ts';
import type { LogEvent } from '../domain/events.ts';
import type { OperationContext } from './context.ts';
import { EventIterator } from './event-iterator.ts';

// A thousand dashboards of an account ask the same and follow the same log. What they are answered to an event is
// made once, and written as JSON once; and a subscriber that has fallen behind is sent many at once.

/** The answer to an event: as JSON, or with errors, which are told to each subscriber in its own words. */
type Answer = { readonly json: string } | { readonly result: ExecutionResult };

/** A connection, which many subscriptions may share. */
export interface Outlet {
  /** Whether it has room for more answers. Until then events wait in the log. */
  readonly hasRoom: boolean;
  /** Resolves when it has room, or has ended. */
  room(): Promise<void>;
}

export interface SubscriptionArgs extends ExecutionArgs {
  /** Sends answers to the subscriber, as JSON. Resolves when they were taken. */
  readonly deliver: (answers: readonly string[]) => Promise<void>;
  readonly outlet: Outlet;
}

/** Executes subscriptions for many, each alike ones once. */
export class FanOut {
  readonly #byDocument = new WeakMap<DocumentNode, Map<string, SharedAnswers>>();

  /**
   * Runs a subscription. What goes well is handed to `deliver`; only the rest is in the stream that is returned.
   * @param args of graphql-js, with a context of ours
   */
  async subscribe(args: SubscriptionArgs): Promise<AsyncGenerator<ExecutionResult> | ExecutionResult> {
    const validated = validateSubscriptionArgs(args);
    if (!('operation' in validated)) return { errors: validated };
    const events = await createSourceEventStream(validated);
    if (!(Symbol.asyncIterator in events)) return events;
    if (!(events instanceof EventIterator)) throw new Error('A subscription that does not follow the log');
    const { answers, leave } = this.#join(args, validated);
    return new Subscriber(events, answers, args, leave);
  }

  /** Finds those who have asked the same. */
  #join(
    { document, operationName, variableValues, contextValue }: ExecutionArgs,
    validated: ValidatedSubscriptionArgs,
  ): { answers: SharedAnswers; leave: () => void } {
    let byWish = this.#byDocument.get(document);
    if (byWish === undefined) {
      byWish = new Map();
      this.#byDocument.set(document, byWish);
    }
    const { caller } = contextValue as OperationContext;
    const wish = JSON.stringify([viewOf(caller), operationName ?? null, variableValues ?? {}]);
    const answers = byWish.get(wish) ?? new SharedAnswers(validated);
    byWish.set(wish, answers);
    answers.subscribers++;
    const leave = (): void => {
      if (--answers.subscribers === 0) byWish.delete(wish);
    };
    return { answers, leave };
  }
}

/** All that it depends on what a caller may see. */
function viewOf({ account, scopes, conversationId, sender }: Caller): unknown[] {
  return [account.id, [...scopes].sort(), conversationId ?? null, sender ?? null];
}

/** How much text of answers, in UTF-16 code units, is kept for those who are alike, or handed to one of them at once. */
const maxText = 256 * 1024;

/** What all are answered who have asked the same. */
class SharedAnswers {
  subscribers = 0;
  readonly #args: ValidatedSubscriptionArgs;
  #answers = new WeakMap<LogEvent, Answer | Promise<Answer>>();
  /** How much text is kept in them. */
  #text = 0;

  constructor(args: ValidatedSubscriptionArgs) {
    this.#args = args;
  }

  /**
   * The answer to an event; a promise of it when it takes more than the event to make. Such a one tells of what is
   * there now, so it is shared only until it is made. It never rejects.
   */
  to(event: LogEvent): Answer | Promise<Answer> {
    const known = this.#answers.get(event);
    if (known !== undefined) return known;
    const contextValue = (this.#args.contextValue as OperationContext).withOwnBudget();
    const result = executeSubscriptionEvent({ ...this.#args, contextValue, rootValue: event });
    const answer = result instanceof Promise ? result.then(answerOf) : answerOf(result as ExecutionResult);
    if (answer instanceof Promise) {
      this.#answers.set(event, answer);
      void answer.finally(() => this.#answers.delete(event));
    } else {
      this.#keep(event, answer);
    }
    return answer;
  }

  /**
   * An answer can be a thousand times as long as its event: aliases repeat what is in it. So few are kept, for those
   * who are a little behind, and one that is long, or is seen by one alone, until all who wait have been woken.
   */
  #keep(event: LogEvent, answer: Answer): void {
    const length = 'json' in answer && this.subscribers > 1 ? answer.json.length : maxText;
    if (length >= maxText) {
      setImmediate(() => this.#answers.delete(event));
    } else {
      if (this.#text + length > maxText) {
        this.#answers = new WeakMap();
        this.#text = 0;
      }
      this.#text += length;
    }
    this.#answers.set(event, answer);
  }
}

function answerOf(result: ExecutionResult): Answer {
  return result.errors === undefined ? { json: JSON.stringify(result) } : { result };
}

/** One subscription: takes events, and hands on what all are answered to them. */
class Subscriber implements AsyncGenerator<ExecutionResult, void, void> {
  readonly #events: EventIterator;
  readonly #answers: SharedAnswers;
  readonly #deliver: SubscriptionArgs['deliver'];
  readonly #outlet: Outlet;
  readonly #leave: () => void;
  #ended = false;

  constructor(
    events: EventIterator,
    answers: SharedAnswers,
    { deliver, outlet }: Pick<SubscriptionArgs, 'deliver' | 'outlet'>,
    leave: () => void,
  ) {
    this.#events = events;
    this.#answers = answers;
    this.#deliver = deliver;
    this.#outlet = outlet;
    this.#leave = leave;
  }

  /** The next answer with errors; all others are delivered on the way to it. */
  async next(): Promise<IteratorResult<ExecutionResult, void>> {
    while (!this.#ended) {
      let batch: readonly LogEvent[] | undefined;
      // In here and in no function of its own: thousands of idle subscriptions wait at this place.
      try {
        batch = await this.#events.nextBatch();
      } catch (error) {
        this.#end();
        throw error;
      }
      if (batch === undefined) this.#end();
      if (batch === undefined || this.#ended) break;
      if (!this.#outlet.hasRoom) {
        this.#events.giveBack(batch[0] as LogEvent);
        await this.#outlet.room();
        continue;
      }
      const ready = this.#readyOf(batch);
      // Others wait in the log: what is erased until it is their turn is not in what comes back.
      const rest = batch[Math.max(1, ready.length)];
      if (rest !== undefined) this.#events.giveBack(rest);
      if (ready.length > 0) {
        await this.#deliver(ready);
        continue;
      }
      const answer = await this.#answers.to(batch[0] as LogEvent);
      if (this.#ended) break;
      if ('result' in answer) return { done: false, value: answer.result };
      await this.#deliver([answer.json]);
    }
    return { done: true, value: undefined };
  }

  /** The answers to as many of these events, from the first on, as can be had at once and are not too long together. */
  #readyOf(batch: readonly LogEvent[]): string[] {
    const ready: string[] = [];
    let length = 0;
    for (const event of batch) {
      if (length >= maxText) break;
      const answer = this.#answers.to(event);
      if (answer instanceof Promise || 'result' in answer) break;
      ready.push(answer.json);
      length += answer.json.length;
    }
    return ready;
  }

  async return(): Promise<IteratorResult<ExecutionResult, void>> {
    this.#end();
    await this.#events.return();
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<IteratorResult<ExecutionResult, void>> {
    await this.return();
    throw error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#leave();
  }
}
