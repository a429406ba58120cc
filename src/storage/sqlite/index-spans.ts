import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PageQuery } from '../../domain/paging.ts';

export { nextTurn };

/**
 * So many entries of an index are walked over at once, which takes a millisecond or two. Then the loop turns, so that
 * others are answered: however much an account has, one request for a bit of it holds up nobody.
 */
export const span = 5_000;

/** Where a list begins that has the newest first: every id sorts below a tilde. */
export const firstId = '~';

/**
 * Passes over what an offset leaves out.
 * @param edge the place of the entry that is so many after a place, or after the beginning; undefined if there are fewer
 * @returns where to go on, and how many are still to be left out
 */
export async function passOver<Place>(
  after: Place | undefined,
  offset: number,
  edge: (after: Place | undefined, entries: number) => Place | undefined,
): Promise<{ after: Place | undefined; offset: number }> {
  while (offset > span) {
    const next = edge(after, span);
    if (next === undefined) break; // fewer than that are left, and none is shown
    after = next;
    offset -= span;
    await nextTurn();
  }
  return { after, offset };
}

/** A page by ids, once what its offset leaves out is passed over: see passOver. */
export function pageFrom<T>(
  query: PageQuery,
  read: (query: PageQuery) => T,
  edge: (after: string | undefined, entries: number) => string | undefined,
): T | Promise<T> {
  if (query.offset <= span) return read(query);
  return passOver(query.after, query.offset, edge).then((rest) => read({ ...query, ...rest }));
}

/**
 * Counts entries.
 * @param countSome counts the first of those after one, as many as a span at most, and says which the last of them is
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
