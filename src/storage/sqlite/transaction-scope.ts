import type { Connection } from './open.ts';

/** Whether a unit of work may still use its transaction: once the scope has ended, every further call throws. */
export interface WorkScope {
  ended: boolean;
}

/**
 * Wraps a group of queries for writers: every call first checks whether the work may still use its transaction.
 * @returns makes the wrapped group for one work
 */
export function scoped<Group extends object>(group: Group, connection: Connection): (scope: WorkScope) => Group {
  // A class, so that a work costs one small object per group and no closures.
  class Scoped {
    readonly scope: WorkScope;
    constructor(scope: WorkScope) {
      this.scope = scope;
    }
  }
  for (const [name, method] of Object.entries(group) as [string, (...args: never[]) => unknown][]) {
    Object.defineProperty(Scoped.prototype, name, {
      value(this: Scoped, ...args: never[]): unknown {
        if (this.scope.ended) throw new Error('A storage transaction was used after it had ended');
        try {
          return method(...args);
        } catch (error) {
          // Some errors make SQLite roll back the whole transaction. A work that carries on after one of them must
          // not write outside a transaction.
          if (!connection.inTransaction) this.scope.ended = true;
          throw error;
        }
      },
    });
  }
  return (scope) => new Scoped(scope) as unknown as Group;
}
