import { type ExecutionResult, type FieldNode, type GraphQLError, type getVariableValues, locatedError } from 'graphql';
import { DomainError } from '../domain/errors.ts';
import { LogEvent } from '../domain/events.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { type AnswerBudget, maxErrors } from './answer-budget.ts';
import type { OperationContext } from './context.ts';
import { asGraphQLError } from './requests.ts';

/** What is computed in one turn of the account, in values: a few milliseconds. */
const valuesInTurn = 10_000;
/** What a value counts as that has to be waited for: it takes microseconds, some more if it fails. */
const valuesOfPromise = 20;

export type VariableValues = NonNullable<ReturnType<typeof getVariableValues>['variableValues']>;

/** A position in a response: the key of a field or the index of an item, and what it lies in. */
export interface Path {
  readonly before: Path | undefined;
  readonly key: string | number;
}

/** What an operation is executed with. */
export interface ExecutionInput {
  readonly context: OperationContext;
  readonly variables: VariableValues;
  /** Of a subscription, the event. */
  readonly rootValue?: unknown;
}

/** What one execution of an operation has come to so far: its errors, and the positions that they have made null. */
export class Execution {
  readonly context: OperationContext;
  readonly variables: VariableValues;
  readonly budget: AnswerBudget;
  readonly #isMutation: boolean;
  readonly #errors: GraphQLError[] = [];
  /** Of the event that is answered: its reader can go on after it. */
  readonly #cursor: string | undefined;
  #moreErrors = 0;
  readonly #nulled = new Set<Path>();
  /** The values of this turn. */
  #values = 0;
  /** What waits for another turn. */
  #waiting: (() => void)[] = [];
  /** Why there is no response: nothing more is computed for it. */
  #refusal: DomainError | undefined;

  constructor({ context, variables, rootValue }: ExecutionInput, isMutation: boolean) {
    this.context = context;
    this.variables = variables;
    this.budget = context.budget;
    this.#isMutation = isMutation;
    this.#cursor = rootValue instanceof LogEvent ? rootValue.cursor : undefined;
  }

  /** Counts a value that has to be waited for. */
  waits(): void {
    this.#values += valuesOfPromise;
  }

  /** Whether an object of so many values can be computed in this turn. Then they count. */
  begins(values: number): boolean {
    if (this.#values >= valuesInTurn) return false;
    this.#values += values;
    return true;
  }

  /** Computes an object of so many values in another turn. */
  later<T>(values: number, compute: () => T): Promise<Awaited<T>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        this.#values += values;
        try {
          resolve(compute() as Awaited<T>);
        } catch (error) {
          reject(error);
        }
      });
      if (this.#waiting.length === 1) void this.#nextTurns();
    });
  }

  async #nextTurns(): Promise<void> {
    for (let next = 0; next < this.#waiting.length; ) {
      await scheduler.step(this.context.caller.account.id);
      this.#values = 0;
      while (this.#values < valuesInTurn && next < this.#waiting.length) this.#waiting[next++]?.();
    }
    this.#waiting = [];
  }

  /** @throws QUERY_TOO_COMPLEX when there will be no response: nothing more need be computed for it */
  refuseMore(): void {
    if (this.#refusal !== undefined) throw this.#refusal;
  }

  /**
   * Ends the execution, or this part of a mutation's response, when the response has become too long.
   * @throws QUERY_TOO_COMPLEX
   */
  refuseLong(): never {
    const error = this.#tooComplex(this.budget.tooLong);
    if (!this.#isMutation) this.#refusal ??= error;
    throw error;
  }

  /**
   * Handles an error at a position: it becomes null if it may, with the error beside it.
   * @throws the error with its position, if that must not be null, or whatever has ended the execution
   */
  fail(error: unknown, { nodes, mayBeNull }: Position, path: Path): null {
    this.refuseMore();
    const located = locatedError(error, nodes, keysOf(path));
    if (!mayBeNull) throw located;
    this.budget.bytes += nullLength;
    this.#report(located, path);
    return null;
  }

  result(data: Record<string, unknown>): ExecutionResult {
    // The last fields may have been the ones too many.
    if (!this.#isMutation && this.budget.isSpent) this.#refusal ??= this.#tooComplex(this.budget.tooLong);
    if (this.#refusal !== undefined) return this.failure(this.#refusal);
    return this.#errors.length === 0 ? { data } : { data, errors: this.#errors, ...this.#extensions() };
  }

  /** The result when the error has made everything null. */
  failure(error: unknown): ExecutionResult {
    const known = asGraphQLError(this.#refusal ?? error);
    const errors = this.#refusal === undefined ? [...this.#errors, known] : [known];
    return { data: null, errors, ...this.#extensions() };
  }

  #report(error: GraphQLError, path: Path): void {
    // What lies within a position that is null already needs no error of its own.
    for (let place: Path | undefined = path; place !== undefined; place = place.before) {
      if (this.#nulled.has(place)) return;
    }
    this.#nulled.add(path);
    if (this.#errors.length < maxErrors) {
      this.#errors.push(error);
    } else if (this.#isMutation) {
      this.#moreErrors++;
    } else {
      this.#refusal = this.#tooComplex(`The answer would hold more than ${maxErrors} errors.`);
      throw this.#refusal;
    }
  }

  #tooComplex(detail: string): DomainError {
    return new DomainError('QUERY_TOO_COMPLEX', detail, this.#cursor === undefined ? {} : { cursor: this.#cursor });
  }

  #extensions(): { extensions?: { moreErrors: number } } {
    return this.#moreErrors === 0 ? {} : { extensions: { moreErrors: this.#moreErrors } };
  }
}

/** What is known of a position beforehand. */
export interface Position {
  /** The field's nodes in the document. */
  readonly nodes: readonly FieldNode[];
  readonly mayBeNull: boolean;
}

/** The length of `null` in JSON. */
export const nullLength = 4;

function keysOf(path: Path): (string | number)[] {
  const keys: (string | number)[] = [];
  for (let place: Path | undefined = path; place !== undefined; place = place.before) keys.push(place.key);
  return keys.reverse();
}
