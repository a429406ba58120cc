import type { FieldMap, ObjectRef } from '@pothos/core';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Fault } from '../domain/errors.ts';
import type { Operation } from '../domain/operation.ts';
import type { List } from '../domain/paging.ts';
import { lazily } from '../runtime/lazily.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { builder, type SchemaTypes, withoutNulls } from './builder.ts';
import type { FieldInfo } from './compile.ts';
import type { OperationContext } from './context.ts';

/** One page of a list, as the Relay cursor connections specification defines it. */
export interface Connection<T> {
  readonly nodes: readonly T[];
  cursorOf(node: T): string;
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: () => Awaitable<boolean>;
  readonly total: () => Awaitable<number>;
}

/** An item of a list with its cursor. */
interface EdgeOf<T> {
  readonly node: T;
  readonly cursor: string;
}

interface PageInfoShape {
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: () => Awaitable<boolean>;
  readonly startCursor: string | null;
  readonly endCursor: string | null;
}

export const PageInfo = builder.objectRef<PageInfoShape>('PageInfo').implement({
  description: 'The position of a page in its list.',
  fields: (t) => ({
    hasNextPage: t.exposeBoolean('hasNextPage', { description: 'Whether there are items after this page.' }),
    hasPreviousPage: t.boolean({
      description: 'Whether there are items before this page.',
      resolve: ({ hasPreviousPage }) => hasPreviousPage(),
    }),
    startCursor: t.exposeString('startCursor', {
      nullable: true,
      description: 'The cursor of the first edge; null on an empty page.',
    }),
    endCursor: t.exposeString('endCursor', {
      nullable: true,
      description: 'The cursor of the last edge, to continue from with `after`; null on an empty page.',
    }),
  }),
});

/**
 * Defines the types of a list: its connection, and its edges. Edges and nodes are never null.
 * @param countFields fields in place of `totalCount`, for a list that is not counted exactly
 */
export function connectionType<T, C extends Connection<T> = Connection<T>>(
  name: string,
  node: ObjectRef<SchemaTypes, T>,
  countFields?: (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, C>) => FieldMap,
) {
  const Edge = builder.objectRef<EdgeOf<T>>(`${name}Edge`).implement({
    description: `One ${name} of a list, with its cursor.`,
    fields: (t) => ({
      cursor: t.exposeString('cursor', { description: 'The opaque position in the list, for `after` or `before`.' }),
      node: t.field({ type: node, description: `The ${name}.`, resolve: (edge) => edge.node as never }),
    }),
  });
  const Connection = builder.objectRef<C>(`${name}Connection`).implement({
    description: `A page of a list of ${name} objects.`,
    fields: (t) => ({
      edges: t.field({
        type: [Edge],
        description: 'The items of the page, each with its cursor.',
        resolve: ({ nodes, cursorOf }) => nodes.map((item) => ({ node: item, cursor: cursorOf(item) })),
      }),
      nodes: t.field({ type: [node], description: 'The items of the page.', resolve: ({ nodes }) => nodes as never }),
      pageInfo: t.field({
        type: PageInfo,
        description: 'The position of the page in the list.',
        resolve: ({ nodes, cursorOf, hasNextPage, hasPreviousPage }) => {
          const first = nodes.at(0);
          const last = nodes.at(-1);
          return {
            hasNextPage,
            hasPreviousPage,
            startCursor: first === undefined ? null : cursorOf(first),
            endCursor: last === undefined ? null : cursorOf(last),
          };
        },
      }),
      ...(countFields?.(t) ?? {
        totalCount: t.int({
          description: 'Exact number of items on all pages. Counted only if it is selected.',
          resolve: ({ total }) => total(),
        }),
      }),
    }),
  });
  return { Connection, Edge };
}

/**
 * The field of a payload with what a mutation has added to a list, as an edge of that list. It is no more than what the
 * payload shows of it anyway, so it is never null.
 * @param list the field with the list, by its default order
 */
export function edgeField<Result, T>(
  t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, Result>,
  edge: ObjectRef<SchemaTypes, EdgeOf<T>>,
  list: string,
  edgeOf: (result: Result) => EdgeOf<T>,
) {
  return t.field({
    type: edge,
    description: `The same as an edge of \`${list}\` in its default order, for clients that add it to the list in their cache.`,
    resolve: (result) => edgeOf(result as Result) as never,
  });
}

/**
 * Calls an operation that lists something. That takes up to some milliseconds, also if nothing is found, and a query can
 * ask for a hundred lists: the first is read at once, as over REST, and each other in a turn of its own.
 */
export async function connectionOf<T>(
  context: OperationContext,
  operation: Operation<unknown, List<T>>,
  info: FieldInfo,
  input: object,
  faults?: readonly Fault[],
): Promise<Connection<T>> {
  const { budget, caller } = context;
  if (budget.hasListed) await scheduler.step(caller.account.id);
  budget.hasListed = true;
  const list = await context.call(operation, { ...input, ...totalFor(info) }, faults);
  return forwards(list, (input as { after?: unknown }).after);
}

/** A total that is selected is counted while the page is read; if nobody says what is selected, once it is asked for. */
export function totalFor({ selected }: FieldInfo): { total?: 'none' } {
  return selected?.includes('totalCount') || selected?.includes('totalIsMore') ? {} : { total: 'none' };
}

/** The connection of a list that is paged forwards. */
export function forwards<T>(list: List<T>, after: unknown): Connection<T> {
  return {
    nodes: list.items,
    cursorOf: (item) => list.cursorOf(item),
    hasNextPage: list.hasMore,
    // All that there is comes before an empty page, which may be nothing. To find out can take as long as the page.
    hasPreviousPage: lazily(
      async () => (after != null || list.offset > 0) && (list.items.length > 0 || !(await list.isEmpty())),
    ),
    total: () => list.total(),
  };
}

/** The arguments of a list that is paged forwards. */
export const pageArgs = builder.args((t) => ({
  first: t.int({ description: 'Number of items to return: 1 to 100, by default 20.' }),
  after: t.string({
    description: 'Continue after this cursor, from an edge or the `pageInfo` of a list with the same sort.',
  }),
  offset: t.int({
    description:
      'Number of items to skip; not together with `after`. Its cost grows with its size, unlike that of a cursor.',
  }),
}));

/**
 * The arguments of a list as the input of its operation, which takes several statuses by the name of one; and what is
 * wrong with them.
 */
export function filteredInput<
  Args extends {
    first?: number | null | undefined;
    status?: unknown;
    statuses?: readonly unknown[] | null | undefined;
  },
>(args: Args): [input: object, faults: readonly Fault[]] {
  const { status, statuses, ...others } = args;
  if (status == null) return [listInput({ ...others, status: statuses }), []];
  const faults = statuses == null ? [] : [{ path: ['statuses'], detail: 'cannot be used together with `status`' }];
  return [listInput({ ...others, status: [status] }), faults];
}

/** The arguments of a list as the input of its operation, where `first` is named `limit`. */
export function listInput<Args extends { first?: number | null | undefined }>(args: Args) {
  const { first, ...input } = withoutNulls(args);
  return first === undefined ? input : { ...input, limit: first };
}
