import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PageQuery } from '../../domain/paging.ts';

export { nextTurn };

/**
 * How many entries of an index are walked at once, which takes a millisecond or two. Then the event loop turns, so that
 * other requests are answered: however much an account has, a request for a small part of it holds up nobody.
 */
export const span = 5_000;

/** Where a list begins that has the newest entries first: every id sorts below a tilde. */
export const firstId = '~';

/**
 * Skips `offset` entries span by span, and yields to the event loop in between. The last of them, a span at most, are
 * left to the query itself.
 * @param edge finds the place so many entries after a place, or after the beginning; undefined if there are fewer
 * @returns where to go on, and how many entries are still to be skipped
 */
export async function skip<Place>(
  after: Place | undefined,
  offset: number,
  edge: (after: Place | undefined, entries: number) => Place | undefined,
): Promise<{ after: Place | undefined; offset: number }> {
  while (offset > span) {
    const next = edge(after, span);
    if (next === undefined) break; // fewer than that are left, so the page is empty
    after = next;
    offset -= span;
    await nextTurn();
  }
  return { after, offset };
}

/** Reads a page whose places are ids, after skipping what its offset leaves out; for `edge` see `skip`. */
export function pageFrom<T>(
  query: PageQuery,
  read: (query: PageQuery) => T,
  edge: (after: string | undefined, entries: number) => string | undefined,
): T | Promise<T> {
  if (query.offset <= span) return read(query);
  return skip(query.after, query.offset, edge).then((rest) => read({ ...query, ...rest }));
}

/**
 * Counts entries span by span, and yields to the event loop in between.
 * @param countSome counts the entries after an id, or from the beginning: a span at most; and gives the last of them
 */
export function countInSpans(
  countSome: (afterId?: string) => { count: number; lastId: string | null },
): number | Promise<number> {
  const { count, lastId } = countSome();
  return count < span || lastId === null ? count : countFurther(count, lastId, countSome);
}

async function countFurther(
  first: number,
  lastId: string,
  countSome: (afterId: string) => { count: number; lastId: string | null },
): Promise<number> {
  for (let total = first, afterId = lastId; ; ) {
    await nextTurn();
    const next = countSome(afterId);
    total += next.count;
    if (next.count < span || next.lastId === null) return total;
    afterId = next.lastId;
  }
}
