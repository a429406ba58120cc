import type { DocumentNode, ExecutionArgs, ExecutionResult } from 'graphql';
import type { Awaitable } from '../../domain/awaitable.ts';
import { bindingOf, type Caller } from '../../domain/caller.ts';
import type { LogEvent } from '../../domain/events.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import type { OperationContext } from '../context.ts';
import type { Documents, PreparedDocument } from '../documents.ts';
import type { Hold } from '../held-documents.ts';
import { asGraphQLError, type ReadyOperation, ready } from '../requests.ts';
import { EventIterator, eventsOf } from '../subscriptions.ts';
import { CachedText } from './cached-text.ts';

// A thousand dashboards of an account may run the same subscription on the same log. Their response to an event is
// computed and serialised once, and a subscriber that has fallen behind is sent many responses at once.

/** The response to an event: as JSON, or as a result if it has errors, which name the request id of each subscriber. */
type Answer = { readonly json: string } | { readonly result: ExecutionResult };

/** A connection, which several subscriptions may share. */
interface Outlet {
  /** Whether more responses may be sent. While not, events wait in the log. */
  readonly isWritable: boolean;
  /** Resolves when `isWritable` holds, or the connection has ended. */
  drained(): Promise<void>;
}

export interface SubscriptionArgs extends ExecutionArgs {
  /** Its document. */
  readonly prepared: PreparedDocument;
  /** Sends responses, as JSON, to the subscriber. Resolves when they have been sent. */
  readonly deliver: (answers: readonly string[]) => Promise<void>;
  readonly outlet: Outlet;
}

/** Executes subscriptions, identical ones once for all their subscribers. */
export class FanOut {
  readonly #documents: Documents;
  readonly #byDocument = new WeakMap<DocumentNode, Map<string, SharedAnswers>>();
  readonly #cachedText = new CachedText();

  constructor(documents: Documents) {
    this.#documents = documents;
  }

  /**
   * Runs a subscription. Responses without errors go to `deliver`; the returned stream has only the others.
   * @param args of graphql-js, with an `OperationContext`
   */
  async subscribe(args: SubscriptionArgs): Promise<AsyncIterable<ExecutionResult> | ExecutionResult> {
    const events = await eventsOf(args);
    if (!(events instanceof EventIterator)) return events;
    try {
      return new Subscriber(events, this.#join(args), args);
    } catch (error) {
      await events.return();
      return { errors: [asGraphQLError(error)] };
    }
  }

  /** Joins the subscribers of identical subscriptions. */
  #join(args: SubscriptionArgs): Membership {
    const { document, prepared, operationName, variableValues, contextValue } = args;
    const { caller } = contextValue as OperationContext;
    let byKey = this.#byDocument.get(document);
    if (byKey === undefined) {
      byKey = new Map();
      this.#byDocument.set(document, byKey);
    }
    const variables = variableValues ?? {};
    const key = JSON.stringify([viewOf(caller), operationName ?? null, variables]);
    const answers =
      byKey.get(key) ??
      new SharedAnswers(contextValue as OperationContext, ready(prepared, args), {
        cachedText: this.#cachedText,
        onLeft: () => byKey.delete(key),
      });
    const hold = this.#documents.hold(caller, { prepared, compiled: answers.operation.compiled, variables });
    byKey.set(key, answers);
    answers.subscribers++;
    return { answers, hold };
  }
}

/** What a subscriber shares with others, and what is held for it. */
interface Membership {
  readonly answers: SharedAnswers;
  readonly hold: Hold;
}

/** Everything that what a caller may see depends on. */
function viewOf(caller: Caller): unknown[] {
  const { account, scopes, sender } = caller;
  return [account.id, [...scopes].sort(), bindingOf(caller) ?? null, sender ?? null];
}

/** The most text of responses to send to a subscription at once, and the longest response to cache. In UTF-16 code units. */
const maxText = 256 * 1024;
/** For how long responses are computed in one turn. */
const turnMs = 1;

/** The responses to all subscribers of identical subscriptions. */
class SharedAnswers {
  subscribers = 0;
  readonly operation: ReadyOperation;
  readonly #context: OperationContext;
  readonly #accountId: string;
  #answers = new WeakMap<LogEvent, Answer | Promise<Answer>>();
  /** The turn that all who need further responses wait for. */
  #nextTurn: Promise<void> | undefined;
  /** Whether the present turn has not been used yet, and until when it may be. */
  #isFresh = false;
  #turnEndsMs = Number.NEGATIVE_INFINITY;
  readonly #cachedText: CachedText;
  readonly #onLeft: () => void;

  /** @param onLeft called when the last subscriber has left */
  constructor(
    context: OperationContext,
    operation: ReadyOperation,
    { cachedText, onLeft }: { readonly cachedText: CachedText; readonly onLeft: () => void },
  ) {
    this.#context = context;
    this.operation = operation;
    this.#cachedText = cachedText;
    this.#onLeft = onLeft;
    this.#accountId = context.caller.account.id;
  }

  leave(): void {
    if (--this.subscribers > 0) return;
    this.#cachedText.empty(this.#accountId, this);
    this.#onLeft();
  }

  /** Resolves when the account has its next turn to compute responses: one for all who wait for it. */
  turn(): Promise<void> {
    this.#nextTurn ??= scheduler.step(this.#accountId).then(() => {
      this.#nextTurn = undefined;
      this.#startTurn();
    });
    return this.#nextTurn;
  }

  #startTurn(): void {
    this.#isFresh = true;
    this.#turnEndsMs = performance.now() + turnMs;
  }

  /** Uses the present turn, or one that nobody else waits for. */
  #useTurn(): boolean {
    if (!this.#isFresh && performance.now() >= this.#turnEndsMs) {
      if (!scheduler.stepAtOnce()) return false;
      this.#startTurn();
    }
    this.#isFresh = false;
    return true;
  }

  /**
   * The response to an event; a promise if it needs more than the event. Such a response shows the current state, so
   * it is shared only until it has been computed. It never rejects.
   * @returns undefined if it is not known, and can be computed only in another turn
   */
  to(event: LogEvent): Answer | Promise<Answer> | undefined {
    const known = this.#answers.get(event);
    if (known !== undefined) return known;
    if (!this.#useTurn()) return undefined;
    const result = this.operation.run(this.#context.forEvent(), event);
    const answer = result instanceof Promise ? result.then(answerOf) : answerOf(result);
    if (answer instanceof Promise) {
      this.#answers.set(event, answer);
      void answer.finally(() => this.#answers.delete(event));
    } else {
      this.#keep(event, answer);
    }
    return answer;
  }

  /** Empties the cache. */
  clear(): void {
    this.#answers = new WeakMap();
  }

  /**
   * Responses are cached for subscribers that are slightly behind. A long one, or one with a single subscriber, is kept
   * only until all waiting subscribers have been woken.
   */
  #keep(event: LogEvent, answer: Answer): void {
    const length = 'json' in answer && this.subscribers > 1 ? answer.json.length : maxText;
    if (length >= maxText) setImmediate(() => this.#answers.delete(event));
    else this.#cachedText.add(this.#accountId, this, length);
    this.#answers.set(event, answer);
  }
}

function answerOf(result: ExecutionResult): Answer {
  return result.errors === undefined ? { json: JSON.stringify(result) } : { result };
}

/** One subscription: reads events, and delivers the shared responses to them. */
class Subscriber implements AsyncIterableIterator<ExecutionResult, void> {
  readonly #events: EventIterator;
  readonly #answers: SharedAnswers;
  readonly #deliver: SubscriptionArgs['deliver'];
  readonly #outlet: Outlet;
  readonly #hold: Hold;
  #ended = false;

  constructor(
    events: EventIterator,
    { answers, hold }: Membership,
    { deliver, outlet }: Pick<SubscriptionArgs, 'deliver' | 'outlet'>,
  ) {
    this.#events = events;
    this.#answers = answers;
    this.#deliver = deliver;
    this.#outlet = outlet;
    this.#hold = hold;
  }

  /** The next response with errors. Those before it, which have none, are delivered meanwhile. */
  async next(): Promise<IteratorResult<ExecutionResult, void>> {
    try {
      while (!this.#ended) {
        // Not in an async function of its own, which would cost memory: thousands of idle subscriptions wait here.
        let batch = this.#events.received(await this.#events.pull());
        if (batch === undefined) this.#end();
        if (batch === undefined || this.#ended) break;
        const using = this.#use(batch);
        // While it waits, a subscriber must hold neither events nor responses: there may be a hundred thousand. A variable
        // keeps its value until the next event, even where its scope has ended.
        batch = undefined;
        const result = await using;
        if (result !== undefined && !this.#ended) return { done: false, value: result };
      }
    } catch (error) {
      await this.return();
      throw error;
    }
    return { done: true, value: undefined };
  }

  /**
   * Sends the responses to the first events that are ready. The rest waits in the log, so that what is erased meanwhile is
   * not sent.
   * @returns the response to the first, if that has errors; undefined once there may be more
   */
  #use(batch: readonly LogEvent[]): Awaitable<ExecutionResult | undefined> {
    const first = batch[0] as LogEvent;
    if (!this.#outlet.isWritable) {
      this.#events.giveBack(first);
      return this.#outlet.drained() as Promise<undefined>;
    }
    const ready = this.#readyOf(batch);
    const rest = batch[Math.max(1, ready.length)];
    if (rest !== undefined) this.#events.giveBack(rest);
    if (ready.length > 0) return this.#deliver(ready) as Promise<undefined>;
    const answer = this.#answers.to(first);
    if (answer !== undefined) return this.#deliverOne(first, answer);
    this.#events.giveBack(first);
    return this.#answers.turn() as Promise<undefined>;
  }

  /** @returns the response if it has errors: it is not sent then */
  async #deliverOne(event: LogEvent, computing: Awaitable<Answer>): Promise<ExecutionResult | undefined> {
    const answer = await computing;
    if (!(await this.#events.isUnchanged(event))) return undefined;
    if ('result' in answer) return answer.result;
    if (!this.#ended) await this.#deliver([answer.json]);
    return undefined;
  }

  /** The responses to the first of these events: as many as are ready, have no errors and are not too long together. */
  #readyOf(batch: readonly LogEvent[]): string[] {
    const ready: string[] = [];
    let length = 0;
    for (const event of batch) {
      if (length >= maxText) break;
      const answer = this.#answers.to(event);
      if (answer === undefined || answer instanceof Promise || 'result' in answer) break;
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

  [Symbol.asyncIterator](): this {
    return this;
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#hold.release();
    this.#answers.leave();
  }
}
