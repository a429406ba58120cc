import type { Slice } from '../../domain/paging.ts';
import { type Timestamp, timestamp } from '../../domain/time.ts';

// Between rows, where a time is epoch milliseconds, and the domain, where it is RFC 3339.

export function toTimestamp<T extends number | null>(epochMs: T): T extends number ? Timestamp : Timestamp | null {
  return (epochMs === null ? null : timestamp(epochMs)) as T extends number ? Timestamp : Timestamp | null;
}

export function toMs<T extends Timestamp | null>(time: T): T extends Timestamp ? number : number | null {
  return (time === null ? null : Date.parse(time)) as T extends Timestamp ? number : number | null;
}

/** A page from rows of which one more than the limit was asked for. */
export function sliceOf<Row, T>(rows: readonly Row[], limit: number, map: (row: Row) => T): Slice<T> {
  const hasMore = rows.length > limit;
  return { items: (hasMore ? rows.slice(0, limit) : rows).map(map), hasMore };
}

/** What was found of the things asked for by id, in the order of the ids; undefined where there is none. */
export function alignToIds<T extends { readonly id: string }>(
  ids: readonly string[],
  found: readonly T[],
): (T | undefined)[] {
  const byId = new Map(found.map((item) => [item.id, item]));
  return ids.map((id) => byId.get(id));
}
