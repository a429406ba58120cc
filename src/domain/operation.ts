import type { z } from 'zod';
import { type Caller, requireScope, type Scope } from './caller.ts';
import { checkDeprecatedInput, checkDeprecation, type Deprecation } from './deprecation.ts';
import { DomainError, type ErrorCode, type Fault, maxFaults, pointer, validationFailed } from './errors.ts';
import { idempotencyKeyInput, Once, type Repeatable } from './idempotency.ts';
import type { World } from './ports.ts';
import type { Transaction } from './storage-port.ts';

/** What an operation has at hand while it runs. */
export interface Context extends World {
  readonly caller: Caller;
  /** The time of this call, in epoch milliseconds. */
  readonly now: number;
  /**
   * Runs a work in a transaction. If the request has an idempotency key, its result is kept with its effect,
   * and the same request again gets that result.
   * @param work is given the result of a part, if the same request has one already that was not the whole
   */
  once<T>(work: (tx: Transaction, part?: T) => Promise<T>): Promise<T>;
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
  /** Given where it can be sent again under an idempotency key, which is then a part of its input. */
  readonly repeatable?: Repeatable<z.output<Schema>, Output>;
  readonly deprecated?: Deprecation;
  /** Whether nothing else comes into its result than its input, its caller and what is stored: no clock, no limiter. */
  readonly hangsOnStorageAlone?: boolean;
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
  /** Whether its input holds an `idempotencyKey`. */
  readonly repeatable: boolean;
  /** Whether its result stays what it is as long as nothing is written. */
  readonly hangsOnStorageAlone: boolean;
  /** Set when clients should stop calling it. */
  readonly deprecated: Deprecation | undefined;
  /** @throws FORBIDDEN naming what is missing */
  authorise(caller: Caller): void;
  /**
   * @param others faults that the face has found already, to be reported together
   * @throws VALIDATION_FAILED with every fault of the input
   */
  parse(input: unknown, others?: readonly Fault[]): Input;
  /**
   * Runs with an input that `parse` has returned, for a caller that `authorise` has passed.
   * @param onReplay called when the result is that of the same request before
   */
  run(world: World, caller: Caller, input: Input, onReplay?: () => void): Promise<Output>;
  /** Authorises, parses and runs. */
  execute(world: World, caller: Caller, input: unknown): Promise<Output>;
}

/** A key that came with another request, and a result that was erased since. */
const errorsOfRepeats: readonly ErrorCode[] = ['IDEMPOTENCY_KEY_REUSED', 'NOT_FOUND'];

/** @throws Error for a deprecation that leaves clients too little time, or could not be shown on both faces */
export function operation<Schema extends z.ZodType, Output>(
  definition: Definition<Schema, Output>,
): Operation<z.output<Schema>, Output> {
  if (definition.deprecated !== undefined) checkDeprecation(definition.deprecated);
  checkDeprecatedInput(definition.input);
  const { name, repeatable } = definition;
  const schema = repeatable === undefined ? definition.input : withIdempotencyKey(definition.input);
  const self: Operation<z.output<Schema>, Output> = {
    name,
    summary: definition.summary,
    scope: definition.scope,
    openToBound: definition.openToBound ?? false,
    keysOnly: definition.keysOnly ?? false,
    input: schema as z.ZodType<z.output<Schema>>,
    errors: repeatable === undefined ? definition.errors : [...new Set([...definition.errors, ...errorsOfRepeats])],
    repeatable: repeatable !== undefined,
    hangsOnStorageAlone: definition.hangsOnStorageAlone ?? false,
    deprecated: definition.deprecated,
    authorise(caller) {
      if (caller.conversationId !== undefined && !self.openToBound) {
        throw new DomainError('FORBIDDEN', `A token bound to one conversation cannot call ${name}.`);
      }
      if (caller.credential !== 'key' && self.keysOnly) {
        throw new DomainError('FORBIDDEN', `Only an API key can call ${name}, not a token.`);
      }
      if (self.scope !== 'any') requireScope(caller, self.scope);
    },
    parse: (input, others) => parseInput(schema, input, others) as z.output<Schema>,
    run(world, caller, parsed, onReplay = () => {}) {
      const context = contextOf(world, caller);
      if (repeatable === undefined) return definition.run(context, parsed);
      const { idempotencyKey: key, ...rest } = parsed as { idempotencyKey?: string | null };
      const input = rest as z.output<Schema>;
      if (key == null) return definition.run(context, input);
      const asked = repeatable.asked?.(input) ?? rest;
      const once = new Once({ ...context, operation: name, asked, key, repeatable, onReplay });
      return definition.run(
        {
          ...context,
          // What was kept under this key is a result of this operation: its fingerprint says so.
          once: <T>(work: (tx: Transaction, part?: T) => Promise<T>) =>
            once.run(world.storage, work as () => Promise<never>) as Promise<unknown> as Promise<T>,
        },
        input,
      );
    },
    async execute(world, caller, input) {
      self.authorise(caller);
      return await self.run(world, caller, self.parse(input));
    },
  };
  return self;
}

function withIdempotencyKey(schema: z.ZodType): z.ZodType {
  return (schema as z.ZodObject).safeExtend({ idempotencyKey: idempotencyKeyInput });
}

/** The context of a request without an idempotency key: its work is run, and nothing is kept. */
function contextOf(world: World, caller: Caller): Context {
  return {
    ...world,
    caller,
    now: world.clock.now(),
    once: (work) => world.storage.write((tx) => work(tx)),
  };
}

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

/**
 * For a check of several fields of an input: it is made beside faults of single ones too, since all are told at
 * once. So any of them may be anything.
 */
export const evenWithOtherFaults = {
  when: ({ value }: { value: unknown }): boolean => typeof value === 'object' && value !== null,
};

const typeNames: Record<string, string> = {
  string: 'a string',
  number: 'an integer', // each number that an input has is one
  int: 'an integer',
  boolean: 'a boolean',
  object: 'an object',
  array: 'a list',
};

/** One fault for each thing that is wrong: an unknown key is one, and names itself. */
function faultsOf(issue: z.core.$ZodIssue): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys
      .slice(0, maxFaults)
      .map((key) => ({ pointer: pointer([...issue.path, key]), detail: 'is not known here' }));
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
