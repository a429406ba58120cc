import type { ServerResponse } from 'node:http';
import type { Sessions } from '../access/sessions.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { EventStream, EventSubscription, LogEvent } from '../domain/events.ts';
import { PullWatch } from '../http/pull-watch.ts';
import type { ConnectionTimings } from '../http/timings.ts';
import { scheduler } from '../runtime/scheduler.ts';

/** How long an EventSource waits before it reconnects. */
export const retryMs = 1_000;

export const eventStreamHeaders: Record<string, string> = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-store',
  // Tells nginx and others not to buffer the stream.
  'X-Accel-Buffering': 'no',
};

interface StreamOptions {
  readonly caller: Caller;
  readonly res: ServerResponse;
  readonly sessions: Sessions;
  readonly timings: ConnectionTimings;
  /** Called when a stream fails. */
  readonly onError: (error: unknown) => void;
}

/**
 * Streams the log to a response until the client disconnects, its credential ends or the service stops.
 * @throws QUOTA_EXCEEDED when the account has reached its limit of streams and sockets
 */
export function openEventStream(subscription: EventSubscription, options: StreamOptions): AsyncIterable<string> {
  const ended = options.sessions.openDuring(options.res, options.caller);
  const stream = subscription.follow();
  if (ended.aborted) stream.end();
  else ended.addEventListener('abort', () => stream.end());
  return new EventStreamText(stream, options);
}

/**
 * Formats a stream as Server-Sent Events (html.spec.whatwg.org, section 9.2): `id` is the cursor, `event` the type. A
 * block with only an `id` is a heartbeat that moves the cursor of an idle reader forward.
 *
 * Backpressure comes from the socket: the next block is made when it has taken the last one. No generator, which would
 * keep the last block until the next event: there may be a thousand idle readers.
 */
class EventStreamText implements AsyncIterableIterator<string, void> {
  readonly #stream: EventStream;
  readonly #batches: AsyncIterator<readonly LogEvent[], unknown>;
  readonly #options: StreamOptions;
  readonly #watch: PullWatch;
  #next: Pending<IteratorResult<readonly LogEvent[], unknown>> | undefined;
  #hasBegun = false;
  #hasTurn = false;

  constructor(stream: EventStream, options: StreamOptions) {
    this.#stream = stream;
    this.#batches = stream[Symbol.asyncIterator]();
    this.#options = options;
    this.#watch = new PullWatch(options.timings.slowReaderMs, () => options.res.destroy());
  }

  async next(): Promise<IteratorResult<string, void>> {
    this.#watch.taken();
    try {
      const value = this.#hasBegun ? await this.#nextText() : this.#begin();
      if (value !== undefined) {
        this.#watch.given();
        return { done: false, value };
      }
    } catch (error) {
      // The client reconnects with its last cursor, and gets CURSOR_EXPIRED as a response then.
      if (!(error instanceof DomainError && error.code === 'CURSOR_EXPIRED')) this.#options.onError(error);
    }
    return await this.return();
  }

  async return(): Promise<IteratorResult<string, void>> {
    this.#watch.taken();
    await this.#batches.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #begin(): string {
    this.#hasBegun = true;
    return `retry: ${retryMs}\n${idBlock(this.#stream.cursor)}`;
  }

  /** @returns undefined when the stream has ended */
  async #nextText(): Promise<string | undefined> {
    for (;;) {
      this.#next ??= new Pending(this.#batches.next());
      const batch = await this.#next.within(this.#options.timings.heartbeatMs);
      if (batch === undefined) return idBlock(this.#stream.cursor);
      this.#next = undefined;
      if (batch.done === true) return undefined;
      const isTurn = this.#hasTurn;
      this.#hasTurn = !isTurn;
      if (isTurn) return batch.value.map(eventBlock).join('');
      // Its text is made in a turn of the account. Until then it waits in the log: it may be erased meanwhile.
      this.#stream.giveBack(batch.value[0] as LogEvent);
      await scheduler.step(this.#options.caller.account.id);
    }
  }
}

function idBlock(cursor: string): string {
  return `id: ${cursor}\n\n`;
}

function eventBlock(event: LogEvent): string {
  return `id: ${event.cursor}\nevent: ${event.type}\ndata: ${event.json}\n\n`;
}

/** A promise that can be awaited with a timeout, any number of times. */
class Pending<T> {
  readonly #promise: Promise<T>;
  #isSettled = false;
  #wake = (): void => {};

  constructor(promise: Promise<T>) {
    this.#promise = promise;
    // A single reaction: a promise holds each one until it settles, and a log may be quiet for days.
    const settle = (): void => {
      this.#isSettled = true;
      this.#wake();
    };
    promise.then(settle, settle);
  }

  /** The value of the promise, or undefined if it takes longer. */
  async within(ms: number): Promise<T | undefined> {
    if (!this.#isSettled) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.#isSettled ? this.#promise : undefined;
  }
}
