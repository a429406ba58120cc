import type * as z from 'zod';
import { bindingInWords, type Caller, isBound, requireScope, type Scope } from './caller.ts';
import {
  DomainError,
  type ErrorCode,
  type Fault,
  maxFaults,
  missingField,
  quoting,
  type Text,
  unknownField,
  validationFailed,
} from './errors.ts';
import { idempotencyKeyInput, Once, type Repeatable } from './idempotency.ts';
import type { Ports } from './ports.ts';
import type { Storage, Transaction } from './storage-port.ts';

/** The context in which an operation runs. */
export interface Context extends Omit<Ports, 'storage'> {
  /** Writes in the name of the caller's account. */
  readonly storage: Pick<Storage, 'read' | 'write'>;
  readonly caller: Caller;
  /** The time of this call, in epoch milliseconds. */
  readonly now: number;
  /**
   * Runs work in a transaction. If the operation takes idempotency keys and the request has one, the result is stored in the
   * same transaction, and a repeated request returns it.
   * @param work receives the partial result that an earlier attempt at the same request left, if any
   * @param about see `Storage.write`; an idempotency key is added
   */
  once<T>(work: (tx: Transaction, part?: T) => Promise<T>, about?: readonly string[]): Promise<T>;
}

/** When something happens, and where the ids of what it makes come from. */
export type Moment = Pick<Context, 'ids' | 'now'>;

/** Marks an operation that clients should stop calling. `/v1` keeps it until the sunset date. */
export interface Deprecation {
  /** Date of the deprecation, such as `2026-11-21`. */
  readonly since: string;
  /** Date from which it may be removed, at least twelve months later. */
  readonly sunset: string;
  /** One sentence: what to call instead. */
  readonly note: string;
}

export function deprecationReason({ since, sunset, note }: Deprecation): string {
  return `${note} Deprecated since ${since}; it may be gone from ${sunset} on.`;
}

/** To `all` who are bound, or only to those bound to a `visitor`. */
export type OpenTo = 'all' | 'visitor';

/** What is known of an operation without running it. */
interface Description {
  /** Its name in the documentation (OpenAPI's `operationId`), the logs and the metrics. */
  readonly name: string;
  /** One sentence that says what it does. */
  readonly summary: string;
  /** The required scope; `any` if every credential may call it. */
  readonly scope: Scope | 'any';
  /** Which bound callers may call it; by default none. */
  readonly openToBound?: OpenTo | undefined;
  /** Its specific errors, in addition to those of any operation. */
  readonly errors: readonly ErrorCode[];
  /** Set when clients should stop calling it. */
  readonly deprecated?: Deprecation | undefined;
}

interface Definition<Schema extends z.ZodType, Output> extends Description {
  /** Whether only API keys may call it, not tokens. */
  readonly keysOnly?: boolean;
  readonly input: Schema;
  /** Set if it accepts an idempotency key, which is then part of its input. */
  readonly repeatable?: Repeatable<z.output<Schema>, Output>;
  /**
   * Completes what a caller has given by what its credential says, before it is parsed.
   * @throws FORBIDDEN for what this caller may not give
   */
  completed?(caller: Caller, given: object): object;
  /** What is wrong with what a caller has given, as far as the service’s configuration says so. */
  faults?(ports: Ports, given: object): readonly Fault[];
  run(context: Context, input: z.output<Schema>): Promise<Output>;
}

/**
 * An operation that clients can call through REST or GraphQL. Its rules are implemented here only: authorise, parse,
 * then at most one transaction.
 */
export interface Operation<Input = unknown, Output = unknown> extends Description {
  readonly keysOnly: boolean;
  readonly input: z.ZodType<Input>;
  /** Whether its input holds an `idempotencyKey`. */
  readonly repeatable: boolean;
  /** @throws FORBIDDEN naming what the credential lacks */
  authorise(caller: Caller): void;
  /**
   * @param others faults already found by REST or GraphQL, to be reported together
   * @param caller who gives it, where that makes a difference
   * @param ports where the service’s configuration makes a difference: without them, an operation that depends on it takes
   *   nothing
   * @throws VALIDATION_FAILED with all faults of the input, up to `maxFaults`; FORBIDDEN for what the caller may not give
   */
  parse(input: object, others?: readonly Fault[], caller?: Caller, ports?: Ports): Input;
  /**
   * Runs with input returned by `parse`, for a caller accepted by `authorise`.
   * @param onReplay called when the result is that of an earlier request with the same idempotency key
   */
  run(ports: Ports, caller: Caller, input: Input, onReplay?: () => void): Promise<Output>;
  /** Authorises, parses and runs. For `others` see `parse`. */
  execute(ports: Ports, caller: Caller, input: object, others?: readonly Fault[]): Promise<Output>;
}

/** The key was used for another request, or the stored result was erased. */
const errorsOfRepeats: readonly ErrorCode[] = ['IDEMPOTENCY_KEY_REUSED', 'NOT_FOUND'];

export function operation<Schema extends z.ZodType, Output>(
  definition: Definition<Schema, Output>,
): Operation<z.output<Schema>, Output> {
  const { name, repeatable } = definition;
  const schema = repeatable === undefined ? definition.input : withIdempotencyKey(definition.input);

  function configuredFaults(given: object, ports: Ports | undefined): readonly Fault[] {
    if (definition.faults === undefined) return [];
    if (ports === undefined) throw new Error(`What ${name} takes depends on the configuration`);
    return definition.faults(ports, given);
  }

  const self: Operation<z.output<Schema>, Output> = {
    name,
    summary: definition.summary,
    scope: definition.scope,
    openToBound: definition.openToBound,
    keysOnly: definition.keysOnly ?? false,
    input: schema as z.ZodType<z.output<Schema>>,
    errors: repeatable === undefined ? definition.errors : [...new Set([...definition.errors, ...errorsOfRepeats])],
    repeatable: repeatable !== undefined,
    deprecated: definition.deprecated,
    authorise(caller) {
      const isOpen = self.openToBound === 'all' || (self.openToBound === 'visitor' && caller.visitor !== undefined);
      if (isBound(caller) && !isOpen) {
        throw new DomainError('FORBIDDEN', `A token bound to ${bindingInWords(caller)} cannot call ${name}.`);
      }
      if (caller.credential === 'token' && self.keysOnly) {
        throw new DomainError('FORBIDDEN', `Only an API key can call ${name}, not a token.`);
      }
      if (self.scope !== 'any') requireScope(caller, self.scope);
    },
    parse(input, others = [], caller, ports) {
      const completed = caller && definition.completed?.(caller, input);
      return parseInput(schema, completed ?? input, [...others, ...configuredFaults(input, ports)]) as z.output<Schema>;
    },
    run(ports, caller, parsed, onReplay = () => {}) {
      const context = contextOf(ports, caller);
      if (repeatable === undefined) return definition.run(context, parsed);
      const { idempotencyKey: key, ...rest } = parsed as { idempotencyKey?: string | null };
      const input = rest as z.output<Schema>;
      if (key == null) return definition.run(context, input);
      const asked = repeatable.asked?.(input) ?? rest;
      const once = new Once({ ...context, operation: name, asked, key, repeatable, onReplay });
      return definition.run(
        {
          ...context,
          // The fingerprint guarantees that a result stored under this key is of this operation's type.
          once: <T>(work: (tx: Transaction, part?: T) => Promise<T>, about?: readonly string[]) => {
            const withKey = about && [...about, key];
            const write: Context['storage']['write'] = (work) => ports.storage.write(work, caller.account.id, withKey);
            return once.run({ write }, work as () => Promise<never>) as Promise<unknown> as Promise<T>;
          },
        },
        input,
      );
    },
    async execute(ports, caller, input, others) {
      self.authorise(caller);
      return await self.run(ports, caller, self.parse(input, others, caller, ports));
    },
  };
  return self;
}

function withIdempotencyKey(schema: z.ZodType): z.ZodType {
  const extended = (schema as z.ZodObject).safeExtend({ idempotencyKey: idempotencyKeyInput });
  const meta = schema.meta(); // which the extension lacks
  return meta === undefined ? extended : extended.meta(meta);
}

/** The context of a request without an idempotency key: its result is not stored. */
function contextOf(ports: Ports, caller: Caller): Context {
  const { read } = ports.storage;
  const storage: Context['storage'] = { read, write: (work) => ports.storage.write(work, caller.account.id) };
  const once: Context['once'] = (work, about) => ports.storage.write((tx) => work(tx), caller.account.id, about);
  return { ...ports, storage, caller, now: ports.clock.now(), once };
}

/** @throws VALIDATION_FAILED with the faults of the input, after those already found; at most `maxFaults` in all */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  others: readonly Fault[] = [],
): z.output<Schema> {
  const result = schema.safeParse(input, { reportInput: true });
  const found = result.success ? [] : result.error.issues.flatMap(faultsOf);
  const faults = [...others, ...found].slice(0, maxFaults);
  if (!result.success || faults.length > 0) throw validationFailed(faults);
  return result.data;
}

/** The faults of one value of an input, at its place there. */
export function valueFaults(schema: z.ZodType, value: unknown, path: readonly PropertyKey[]): readonly Fault[] {
  const issues = schema.safeParse(value, { reportInput: true }).error?.issues ?? [];
  return issues.flatMap(faultsOf).map((fault) => ({ ...fault, path: [...path, ...fault.path] }));
}

/**
 * Options for a cross-field check: it runs even if single fields are wrong, so that all faults are reported together.
 * The fields may then have any type.
 */
export const evenWithOtherFaults = {
  when: ({ value }: { value: unknown }): boolean => typeof value === 'object' && value !== null,
};

const typeNames: Record<string, string> = {
  string: 'a string',
  number: 'an integer', // all numbers in inputs are integers
  int: 'an integer',
  boolean: 'a boolean',
  object: 'an object',
  array: 'a list',
};

/** One fault per issue, and one for each unknown key. */
function faultsOf(issue: z.core.$ZodIssue): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, maxFaults).map((key) => ({ path: [...issue.path, key], detail: unknownField }));
  }
  return [{ path: issue.path, detail: detailOf(issue) }];
}

function detailOf(issue: z.core.$ZodIssue): Text {
  if (issue.code === 'custom') return (issue.params?.['detail'] as Text | undefined) ?? issue.message;
  if (issue.input === undefined) return missingField;
  if (issue.code === 'invalid_type') return `must be ${typeNames[issue.expected] ?? issue.expected}`;
  if (issue.code === 'invalid_value') return quoting`must be one of ${issue.values.map(String)}`;
  return issue.message;
}
