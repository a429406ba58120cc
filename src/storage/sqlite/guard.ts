import { asDomainError, isBusy } from './errors.ts';
import type { Connection } from './open.ts';
import { type Lease, pause, retryDelayMs } from './writer.ts';

type Method = (...args: never[]) => unknown;
type Section = object;

/**
 * Makes, from a group of queries, the form of it that a work is given: every call first looks
 * whether the work may still use its transaction.
 */
export function leased<S extends Section>(section: S, connection: Connection): (lease: Lease) => S {
  // A class, so that a work costs one small object for each group and no closures.
  class Leased {
    readonly lease: Lease;
    constructor(lease: Lease) {
      this.lease = lease;
    }
  }
  for (const [name, method] of Object.entries(section) as [string, Method][]) {
    Object.defineProperty(Leased.prototype, name, {
      value(this: Leased, ...args: never[]): unknown {
        if (this.lease.revoked) throw new Error('A storage transaction was used after it had ended');
        try {
          return method(...args);
        } catch (error) {
          // With some errors SQLite rolls everything back. A work that goes on after one must not write
          // outside of any transaction.
          if (!connection.inTransaction) this.lease.revoked = true;
          throw error;
        }
      },
    });
  }
  return (lease) => new Leased(lease) as unknown as S;
}

/**
 * Makes, from a group of queries, the form of it that readers are given: a lock of another process
 * is waited for by a timer, and trouble has the domain's words.
 */
export function patient<S extends Section>(section: S, busyTimeoutMs: number): S {
  const entries = Object.entries(section) as [string, Method][];
  return Object.fromEntries(
    entries.map(([name, method]) => [
      name,
      (...args: never[]): unknown => {
        const again = (error: unknown): unknown => {
          if (isBusy(error)) return retry(() => method(...args), performance.now() + busyTimeoutMs);
          throw asDomainError(error);
        };
        try {
          const result = method(...args);
          return result instanceof Promise ? result.catch(again) : result;
        } catch (error) {
          return again(error);
        }
      },
    ]),
  ) as S;
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
