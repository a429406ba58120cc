import type { components, operations as Rest } from './openapi.ts';
import type { OperationName } from './operations.ts';

/** Nothing, where there is none. */
type IfAny<Given> = [Given] extends [never] ? unknown : Given;

type Parameters<Name extends OperationName, Place extends 'path' | 'query'> = IfAny<
  NonNullable<Rest[Name]['parameters'][Place]>
>;

type Body<Name extends OperationName> = IfAny<
  NonNullable<Rest[Name]['requestBody']> extends { content: { 'application/json': infer Given } }
    ? Fields<Given>
    : never
>;

/** A body that has no fields is a record of nothing, which no parameter of the path would fit into. */
type Fields<Given> = string extends keyof Given ? never : Given;

type Flat<T> = { [Key in keyof T]: T[Key] } & {};

/** What an operation takes: the parameters of its path, its query and its body, together. */
export type Input<Name extends OperationName> = Flat<Parameters<Name, 'path'> & Parameters<Name, 'query'> & Body<Name>>;

type Successes = 200 | 201 | 202;

/** What an operation answers. */
export type Output<Name extends OperationName> = Rest[Name]['responses'] extends infer Responses
  ? { [Status in keyof Responses & Successes]: Responses[Status] }[keyof Responses & Successes] extends {
      content: { 'application/json': infer Answer };
    }
    ? Answer
    : undefined
  : never;

/** The operations that answer a list. */
export type ListName = {
  [Name in OperationName]: Output<Name> extends { data: readonly unknown[]; pagination: object } ? Name : never;
}[OperationName];

/** An item of a list. */
export type Item<Name extends ListName> = Output<Name> extends { data: readonly (infer Each)[] } ? Each : never;

/** An event of the log, as REST, streams and webhooks show it. */
export type Event = components['schemas']['Event'];
export type EventType = Event['type'];
