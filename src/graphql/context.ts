import type { Exchange } from '../access/exchange.ts';
import type { StreamTimings } from '../access/timings.ts';
import type { Caller } from '../domain/caller.ts';
import { codeOf } from '../domain/errors.ts';
import type { CallCode, Telemetry, World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { AnswerBudget } from './limits.ts';
import { Loaders } from './loaders.ts';

export interface ContextOptions {
  readonly exchange?: Exchange | undefined;
  readonly timings: StreamTimings;
  readonly telemetry: Pick<Telemetry, 'called'>;
  readonly onSlowReader?: (() => void) | undefined;
  readonly closed?: AbortSignal | undefined;
  readonly budget?: AnswerBudget | undefined;
  /** Whether the operation is a subscription, which outlives what it has loaded. */
  readonly isSubscription: boolean;
}

/** The context of one operation, whichever way it came. */
export function createContext(world: World, caller: Caller, options: ContextOptions): GraphQLContext {
  const { exchange, timings, telemetry, onSlowReader, closed, isSubscription, budget = new AnswerBudget() } = options;
  const face = exchange === undefined ? 'socket' : 'graphql';
  const standIn: GraphQLContext['standIn'] = ({ name }, work) => {
    if (exchange !== undefined) exchange.operation = name;
    const startedMs = performance.now();
    const tell = (code: CallCode): void => telemetry.called(face, name, code, performance.now() - startedMs);
    const called = work();
    void called.then(
      () => tell('OK'),
      (error: unknown) => tell(codeOf(error)),
    );
    return called;
  };
  return {
    caller,
    exchange,
    timings,
    onSlowReader,
    closed,
    budget,
    loaders: new Loaders(world, caller, { cache: !isSubscription }),
    call: (operation, input) => standIn(operation, () => operation.execute(world, caller, input)),
    standIn,
  };
}
