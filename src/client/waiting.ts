/** The first wait after a failed connection; each next one is twice as long. */
const firstMs = 250;
const longestMs = 30_000;

/**
 * How long to wait before another try: exponentially longer, and at random, so that clients do not come all at once.
 * @param leastSeconds what the service asks for
 */
export function backOffMs(failures: number, leastSeconds = 0): number {
  return Math.max(leastSeconds * 1_000, Math.min(longestMs, firstMs * 2 ** failures) * (0.5 + Math.random() / 2));
}

/** @throws the signal's reason, if it aborts meanwhile */
export async function wait(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      signal?.removeEventListener('abort', aborted);
      resolve();
    }
    function aborted(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener('abort', aborted, { once: true });
  });
}
