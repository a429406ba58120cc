import type { Exchange } from '../access/exchange.ts';
import type { StreamTimings } from '../access/timings.ts';
import type { Caller } from '../domain/caller.ts';
import type { World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { AnswerBudget } from './limits.ts';
import { createLoaders } from './loaders.ts';

export interface ContextOptions {
  readonly exchange?: Exchange | undefined;
  readonly timings: StreamTimings;
  readonly onSlowReader?: (() => void) | undefined;
  readonly closed?: AbortSignal | undefined;
  readonly budget?: AnswerBudget | undefined;
  /** Whether the operation is a subscription, which outlives what it has loaded. */
  readonly isSubscription: boolean;
}

/** The context of one operation, whichever way it came. */
export function createContext(world: World, caller: Caller, options: ContextOptions): GraphQLContext {
  const { exchange, timings, onSlowReader, closed, isSubscription, budget = new AnswerBudget() } = options;
  return {
    caller,
    exchange,
    timings,
    onSlowReader,
    closed,
    budget,
    loaders: createLoaders(world, caller, { cache: !isSubscription }),
    call(operation, input) {
      if (exchange !== undefined) exchange.operation = operation.name;
      return operation.execute(world, caller, input);
    },
  };
}
