import { ServiceError } from './errors.ts';

/** The first wait after a failed connection; each next one is twice as long. */
const firstMs = 250;
const longestMs = 30_000;
/** The service asks for no more: a budget is free again after 61 minutes. Something else may ask for anything. */
const longestAskedMs = 61 * 60_000;
/** A timer of more would fire at once. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * How long to wait before another try: exponentially longer, and at random, so that clients do not come all at once.
 * @param leastSeconds what the service asks for
 */
export function backOffMs(failures: number, leastSeconds = 0): number {
  const ownMs = Math.min(longestMs, firstMs * 2 ** failures) * (0.5 + Math.random() / 2);
  return Math.max(Math.min(longestAskedMs, leastSeconds * 1_000), ownMs);
}

/** Calls whenever a browser says that its network is there again: a connection from before may be dead, and not show it. */
export function whenOnline(call: (event: Event) => void, signal: AbortSignal): void {
  (globalThis as Partial<EventTarget>).addEventListener?.('online', call, { signal });
}

/**
 * Waits for so long, or until the network is there again.
 * @returns whether it was the network
 * @throws the signal's reason, if it aborts meanwhile
 */
export async function wait(ms: number, signal?: AbortSignal): Promise<boolean> {
  signal?.throwIfAborted();
  const over = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const event = await new Promise<unknown>((resolve) => {
    timer = setTimeout(resolve, ms);
    whenOnline(resolve, over.signal);
    signal?.addEventListener('abort', resolve, over); // whose `signal` is that option
  });
  clearTimeout(timer);
  over.abort();
  signal?.throwIfAborted();
  return event !== undefined;
}

/**
 * Does what may take so long, and is then left alone.
 * @throws UNAVAILABLE if it takes longer, or the signal's reason, if it aborts meanwhile
 */
export async function within<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const limit = new AbortController();
  const stop = (): void => limit.abort(signal?.reason);
  const late = (): void => limit.abort(new ServiceError('There is no answer.', { code: 'UNAVAILABLE' }));
  const timer = setTimeout(late, Math.min(ms, longestTimerMs));
  signal?.addEventListener('abort', stop);
  try {
    const ended = new Promise<never>((_, reject) => {
      limit.signal.onabort = () => reject(limit.signal.reason);
    });
    return await Promise.race([work(limit.signal), ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}
