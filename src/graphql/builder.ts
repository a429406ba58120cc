import SchemaBuilder, {
  type FieldMap,
  type InputRef,
  type ObjectRef,
  type ShapeFromTypeParam,
  type TypeParam,
} from '@pothos/core';
import { fieldIn, type ObjectShape } from '../domain/descriptions.ts';
import type { MetadataPatch } from '../domain/metadata.ts';
import type { Operation } from '../domain/operation.ts';
import type { Timestamp } from '../domain/time.ts';
import type { OperationContext } from './context.ts';

export const builder = new SchemaBuilder<{
  Context: OperationContext;
  DefaultFieldNullability: false;
  Scalars: {
    ID: { Input: string; Output: string };
    DateTime: { Input: string; Output: Timestamp };
    Metadata: { Input: MetadataPatch; Output: MetadataPatch };
    JSON: { Input: never; Output: unknown };
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

/** Records which operation a field calls, for the schema's descriptions and the test that each has a field. */
export function calls(operation: { readonly name: string }): { operation: string } {
  return { operation: operation.name };
}

/**
 * Marks a field that a query answers before it begins with others, which are read from several connections at once: so a
 * cursor stands before whatever is shown beside it.
 */
export const answeredFirst = { isAnsweredFirst: true } as const;

/** The options of a field that answers with what an operation does: it is null if that fails. */
export function answering(operation: { readonly name: string; readonly summary: string }) {
  return { nullable: true, description: operation.summary, extensions: calls(operation) } as const;
}

/** What an operation of the domain returns. */
export type ResultOf<Called extends Pick<Operation<never>, 'run'>> = Awaited<ReturnType<Called['run']>>;

/** For each field the given type, if it can show what the object has under the field’s name; `never` for others. */
type Fitting<Shown, Types> = {
  readonly [Name in keyof Types]: Name extends keyof Shown
    ? Shown[Name] extends ShapeFromTypeParam<SchemaTypes, Types[Name] & TypeParam<SchemaTypes>, true>
      ? Types[Name]
      : never
    : never;
};

/**
 * Fields of an object that are those of a shape of the domain: they are described as it says, and nullable where it is.
 * @param types the type of each
 */
export function fieldsOf<
  Shown extends object,
  Shape extends ObjectShape,
  const Types extends { readonly [Name in keyof Shape['shape']]?: TypeParam<SchemaTypes> },
>(
  t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, Shown>,
  shape: Shape,
  types: Types & Fitting<Shown, Types>,
): FieldMap {
  const fields = Object.entries(types).map(([name, type]) => {
    const options = { type, ...fieldIn(shape, name) };
    return [name, t.expose(name as never, options as never)];
  });
  return Object.fromEntries(fields);
}

/** Defines the payload type of a mutation: its own fields, and the end of the event log after the change. */
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

/** What differs in a mutation that is not named after its operation: it gives a part of the input itself. */
interface OwnMutation {
  readonly name: string;
  readonly description: string;
  readonly gives: object;
}

/**
 * Adds the mutation that calls an operation of the domain, whose input is its one argument. Those of a document run one
 * after the other, and each can change what was loaded before: so it loads anew.
 * @param described what the argument says
 */
export function addMutation<Result>(
  operation: Operation<unknown, Result>,
  payload: ObjectRef<SchemaTypes, Result>,
  input: InputRef<object>,
  described: string,
  own?: OwnMutation,
): void {
  builder.mutationField(own?.name ?? operation.name, (t) =>
    t.field({
      type: payload,
      nullable: true,
      description: own?.description ?? operation.summary,
      extensions: calls(operation),
      args: { input: t.arg({ type: input, required: true, description: described }) },
      resolve(_, { input: given }, context) {
        context.forgetLoaded();
        return context.change(operation, own === undefined ? given : { ...given, ...own.gives }) as never;
      },
    }),
  );
}

export const expectedVersionDescription =
  'The `version` that you last saw. If it is no longer current, nothing is changed and the error is `VERSION_CONFLICT`.';

/** Removes arguments that are null, which mean the same as absent ones. */
export function withoutNulls<T extends object>(args: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const given: { [K in keyof T]?: NonNullable<T[K]> } = {};
  for (const name in args) {
    if (args[name] != null) given[name] = args[name];
  }
  return given;
}
