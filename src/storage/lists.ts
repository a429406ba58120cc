import type { Slice } from '../domain/paging.ts';

/** Sorts after every id: a list that has the newest entries first begins below it. */
export const aboveAllIds = '~';

/** A page behind the end of a list. */
export const emptySlice: Slice<never> = { items: [], hasMore: false };

/** A page from rows that were read with one more than its limit. */
export function sliceOf<Row, T>(rows: readonly Row[], limit: number, map: (row: Row) => T): Slice<T> {
  const hasMore = rows.length > limit;
  return { items: (hasMore ? rows.slice(0, limit) : rows).map(map), hasMore };
}
