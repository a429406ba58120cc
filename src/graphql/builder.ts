import SchemaBuilder, { type FieldMap } from '@pothos/core';
import type { StreamTimings } from '../access/timings.ts';
import type { Caller } from '../domain/caller.ts';
import type { MetadataPatch } from '../domain/metadata.ts';
import type { Operation } from '../domain/operation.ts';
import type { Timestamp } from '../domain/time.ts';
import type { AnswerBudget } from './answer-budget.ts';
import type { Loaders } from './loaders.ts';

/** What every resolver has at hand. */
export interface GraphQLContext {
  readonly caller: Caller;
  readonly loaders: Loaders;
  readonly timings: StreamTimings;
  /** Ends the connection of a subscriber that leaves what it was sent lying; a socket sees to that itself. */
  readonly onSlowReader?: (() => void) | undefined;
  /** What the answer may still hold of long texts; shared by the operations of a batch. */
  readonly budget: AnswerBudget;
  /** Aborts when the connection of a subscription has ended. */
  readonly closed?: AbortSignal | undefined;
  /** Calls an operation of the domain as this caller: the only way to it. */
  call<Output>(operation: Operation<never, Output> | Operation<unknown, Output>, input: object): Promise<Output>;
  /** Does the work of an operation by a loader, which is then known and counted as a call of it. */
  countAsCall<Output>(operation: { readonly name: string }, work: () => Promise<Output>): Promise<Output>;
}

export const builder = new SchemaBuilder<{
  Context: GraphQLContext;
  DefaultFieldNullability: false;
  Scalars: {
    ID: { Input: string; Output: string };
    DateTime: { Input: string; Output: Timestamp };
    Metadata: { Input: MetadataPatch; Output: MetadataPatch };
  };
}>({ defaultFieldNullability: false });

export type SchemaTypes = typeof builder extends PothosSchemaTypes.SchemaBuilder<infer Types> ? Types : never;

builder.queryType({
  description:
    'Reads data. A field that can fail on its own is nullable: it alone is then null, and the fields beside it are still returned.',
});
builder.mutationType({
  description:
    'Changes data. Each mutation takes one `input` and returns what it changed, with the end of the event log after the change.',
});

/** Notes on a field which operation it calls: both faces must have each, and a test looks here for this one. */
export function calls(operation: { readonly name: string }): { operation: string } {
  return { operation: operation.name };
}

/** What an operation of the domain returns. */
export type ResultOf<Called extends Pick<Operation<never>, 'run'>> = Awaited<ReturnType<Called['run']>>;

/** Makes the payload type of a mutation: its own fields, and the end of the event log after the change. */
export function payloadType<Result extends { readonly eventCursor: string }>(
  mutation: string,
  ownFields: (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, Result>) => FieldMap,
) {
  const name = `${mutation.charAt(0).toUpperCase()}${mutation.slice(1)}Payload`;
  return builder.objectRef<Result>(name).implement({
    description: `The result of \`${mutation}\`.`,
    fields: (t) => ({
      ...ownFields(t),
      eventCursor: t.string({
        description: 'The end of the event log after the change.',
        resolve: ({ eventCursor }) => eventCursor,
      }),
    }),
  });
}

export const expectedVersionDescription =
  'The `version` that you last saw. If it is no longer current, nothing is changed and the error is `VERSION_CONFLICT`.';

/** An argument that is null says the same as one that is left out. */
export function withoutNulls<T extends object>(args: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const given: { [K in keyof T]?: NonNullable<T[K]> } = {};
  for (const name in args) {
    if (args[name] != null) given[name] = args[name];
  }
  return given;
}
