import type { ServerResponse } from 'node:http';
import type { Sessions } from '../access/sessions.ts';
import { PullWatch, type StreamTimings } from '../access/timings.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { EventStream, EventSubscription, LogEvent } from '../domain/events.ts';

/** How long an EventSource waits before it connects again. */
export const retryMs = 1_000;

export const eventStreamHeaders: Record<string, string> = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-store',
  // Asks proxies to pass blocks on as they come.
  'X-Accel-Buffering': 'no',
};

interface StreamOptions {
  readonly caller: Caller;
  readonly res: ServerResponse;
  readonly sessions: Sessions;
  readonly timings: StreamTimings;
  /** Told why a stream could not go on. */
  readonly onError: (error: unknown) => void;
}

/**
 * Follows the log for a response, until its client goes, its credential ends or the service stops.
 * @throws QUOTA_EXCEEDED when the account has as many streams and sockets as it may
 */
export function openEventStream(subscription: EventSubscription, options: StreamOptions): AsyncIterable<string> {
  const ended = options.sessions.openDuring(options.res, options.caller);
  const stream = subscription.follow();
  if (ended.aborted) stream.end();
  else ended.addEventListener('abort', () => stream.end());
  return eventStreamText(stream, options);
}

/**
 * Server-Sent Events (html.spec.whatwg.org, section 9.2) of a stream: `id` is the cursor, `event` the
 * type. A block with an `id` alone moves the cursor of a reader that waits, without any event.
 *
 * The reader sets the pace: the next block is made when the last one was taken by its socket.
 */
async function* eventStreamText(
  stream: EventStream,
  { res, timings, onError }: StreamOptions,
): AsyncGenerator<string, void> {
  const { heartbeatMs, slowReaderMs } = timings;
  const watch = new PullWatch(slowReaderMs, () => res.destroy());
  const batches = stream[Symbol.asyncIterator]();
  try {
    watch.given();
    yield `retry: ${retryMs}\n${idBlock(stream.cursor)}`;
    for (let next = new Pending(batches.next()); ; ) {
      watch.taken();
      const batch = await next.within(heartbeatMs);
      if (batch === undefined) {
        watch.given();
        yield idBlock(stream.cursor);
      } else {
        if (batch.done === true) return;
        watch.given();
        yield batch.value.map(eventBlock).join('');
        next = new Pending(batches.next());
      }
    }
  } catch (error) {
    // The reader comes back with its last cursor, and is told then what it can be told.
    if (!(error instanceof DomainError && error.code === 'CURSOR_EXPIRED')) onError(error);
  } finally {
    watch.taken();
    await batches.return?.();
  }
}

function idBlock(cursor: string): string {
  return `id: ${cursor}\n\n`;
}

function eventBlock(event: LogEvent): string {
  return `id: ${event.cursor}\nevent: ${event.type}\ndata: ${event.json}\n\n`;
}

/** Something that is waited for, for a while and again for a while, any number of times. */
class Pending<T> {
  readonly #promise: Promise<T>;
  #isSettled = false;
  #wake = (): void => {};

  constructor(promise: Promise<T>) {
    this.#promise = promise;
    // Once for all: a promise holds each reaction until it is settled, and a log may be quiet for days.
    const settle = (): void => {
      this.#isSettled = true;
      this.#wake();
    };
    promise.then(settle, settle);
  }

  /** What has come of it, or undefined when it takes longer. */
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
