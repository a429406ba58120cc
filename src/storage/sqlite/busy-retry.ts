import { asDomainError, isBusy } from './errors.ts';

// SQLite would wait for another process's lock by blocking the event loop, so retries wait for timers instead.

/**
 * Wraps a group of queries for readers: a query that finds the database locked is retried until the busy timeout has
 * passed, and SQLite's errors become the domain's.
 */
export function patient<Group extends object>(group: Group, busyTimeoutMs: number): Group {
  const entries = Object.entries(group) as [string, (...args: never[]) => unknown][];
  return Object.fromEntries(
    entries.map(([name, method]) => [
      name,
      (...args: never[]): unknown => {
        const handle = (error: unknown): unknown => {
          if (isBusy(error)) return retry(() => method(...args), performance.now() + busyTimeoutMs);
          throw asDomainError(error);
        };
        try {
          const result = method(...args);
          return result instanceof Promise ? result.catch(handle) : result;
        } catch (error) {
          return handle(error);
        }
      },
    ]),
  ) as Group;
}

async function retry(read: () => unknown, deadlineMs: number): Promise<unknown> {
  for (let attempt = 0; ; attempt++) {
    await pause(retryDelayMs(attempt));
    try {
      return await read();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadlineMs) throw asDomainError(error);
    }
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Exponential backoff from 1 ms up to 50 ms. Half of it is random, so that processes do not retry in step. */
export function retryDelayMs(attempt: number): number {
  const ceiling = Math.min(50, 2 ** attempt);
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}
