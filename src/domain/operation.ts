import type { z } from 'zod';
import { type Caller, requireScope, type Scope } from './caller.ts';
import { checkDeprecation, type Deprecation } from './deprecation.ts';
import { DomainError, type ErrorCode, type Fault, pointer, validationFailed } from './errors.ts';
import type { World } from './ports.ts';

/** What an operation has at hand while it runs. */
export interface Context extends World {
  readonly caller: Caller;
  /** The time of this call, in epoch milliseconds. */
  readonly now: number;
}

interface Definition<Schema extends z.ZodType, Output> {
  /** The name that it has on every face, in the documentation and in the logs. */
  readonly name: string;
  /** One sentence in the indicative: what it does. */
  readonly summary: string;
  /** The scope that it needs; `any` if every credential may call it. */
  readonly scope: Scope | 'any';
  /** Whether a caller that is bound to one conversation may call it. */
  readonly openToBound?: boolean;
  /** Whether only an API key may call it, and no token. */
  readonly keysOnly?: boolean;
  readonly input: Schema;
  /** The errors of its own, beside those that any operation can give. */
  readonly errors: readonly ErrorCode[];
  readonly deprecated?: Deprecation;
  run(context: Context, input: z.output<Schema>): Promise<Output>;
}

/**
 * Something that a client can ask of the service, whichever face it comes through.
 * Its rule is here and nowhere else: authorise, parse, then at most one transaction.
 */
export interface Operation<Input = unknown, Output = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly scope: Scope | 'any';
  readonly openToBound: boolean;
  readonly keysOnly: boolean;
  readonly input: z.ZodType<Input>;
  readonly errors: readonly ErrorCode[];
  /** Set when clients should stop calling it. */
  readonly deprecated: Deprecation | undefined;
  /** @throws FORBIDDEN naming what is missing */
  authorise(caller: Caller): void;
  /**
   * @param others faults that the face has found already, to be reported together
   * @throws VALIDATION_FAILED with every fault of the input
   */
  parse(input: unknown, others?: readonly Fault[]): Input;
  /** Runs with an input that `parse` has returned, for a caller that `authorise` has passed. */
  run(world: World, caller: Caller, input: Input): Promise<Output>;
  /** Authorises, parses and runs. */
  execute(world: World, caller: Caller, input: unknown): Promise<Output>;
}

/** @throws Error for a deprecation that leaves clients too little time */
export function operation<Schema extends z.ZodType, Output>(
  definition: Definition<Schema, Output>,
): Operation<z.output<Schema>, Output> {
  if (definition.deprecated !== undefined) checkDeprecation(definition.deprecated);
  const self: Operation<z.output<Schema>, Output> = {
    name: definition.name,
    summary: definition.summary,
    scope: definition.scope,
    openToBound: definition.openToBound ?? false,
    keysOnly: definition.keysOnly ?? false,
    input: definition.input as z.ZodType<z.output<Schema>>,
    errors: definition.errors,
    deprecated: definition.deprecated,
    authorise(caller) {
      if (caller.conversationId !== undefined && !self.openToBound) {
        throw new DomainError('FORBIDDEN', `A token bound to one conversation cannot call ${self.name}.`);
      }
      if (caller.credential !== 'key' && self.keysOnly) {
        throw new DomainError('FORBIDDEN', `Only an API key can call ${self.name}, not a token.`);
      }
      if (self.scope !== 'any') requireScope(caller, self.scope);
    },
    parse: (input, others) => parseInput(definition.input, input, others),
    run(world, caller, input) {
      return definition.run({ ...world, caller, now: world.clock.now() }, input);
    },
    async execute(world, caller, input) {
      self.authorise(caller);
      return await self.run(world, caller, self.parse(input));
    },
  };
  return self;
}

/** More than a person mends at once: what a body of a megabyte can get wrong must not become an answer of forty. */
export const maxFaults = 100;

/** @throws VALIDATION_FAILED with every fault of the input up to a bound, those found already included */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  others: readonly Fault[] = [],
): z.output<Schema> {
  const result = schema.safeParse(input, { reportInput: true });
  if (!result.success) {
    throw validationFailed([...others, ...result.error.issues.flatMap(faultsOf)].slice(0, maxFaults));
  }
  if (others.length > 0) throw validationFailed(others);
  return result.data;
}

const typeNames: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'an integer',
  boolean: 'a boolean',
  object: 'an object',
  array: 'a list',
};

/** One fault for each thing that is wrong: an unknown key is one, and names itself. */
function faultsOf(issue: z.core.$ZodIssue): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ pointer: pointer([...issue.path, key]), detail: 'is not known here' }));
  }
  return [{ pointer: pointer(issue.path), detail: detailOf(issue) }];
}

function detailOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'custom') return issue.message;
  if (issue.input === undefined) return 'is required';
  if (issue.code === 'invalid_type') return `must be ${typeNames[issue.expected] ?? issue.expected}`;
  if (issue.code === 'invalid_value')
    return `must be one of ${issue.values.map((value) => `\`${String(value)}\``).join(', ')}`;
  return issue.message;
}
