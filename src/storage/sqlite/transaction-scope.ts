import type { Connection } from './open.ts';
import type { Lease } from './writer.ts';

/**
 * Wraps a group of queries for writers: every call first checks whether the work may still use its transaction.
 * @returns makes the wrapped group for one work
 */
export function leased<Group extends object>(group: Group, connection: Connection): (lease: Lease) => Group {
  // A class, so that a work costs one small object per group and no closures.
  class Leased {
    readonly lease: Lease;
    constructor(lease: Lease) {
      this.lease = lease;
    }
  }
  for (const [name, method] of Object.entries(group) as [string, (...args: never[]) => unknown][]) {
    Object.defineProperty(Leased.prototype, name, {
      value(this: Leased, ...args: never[]): unknown {
        if (this.lease.revoked) throw new Error('A storage transaction was used after it had ended');
        try {
          return method(...args);
        } catch (error) {
          // Some errors make SQLite roll back the whole transaction. A work that carries on after one of them must
          // not write outside a transaction.
          if (!connection.inTransaction) this.lease.revoked = true;
          throw error;
        }
      },
    });
  }
  return (lease) => new Leased(lease) as unknown as Group;
}
