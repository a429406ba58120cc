import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PageQuery } from '../../domain/paging.ts';
import { turns } from '../../runtime/turns.ts';

/**
 * How many entries of an index are walked at once, which takes a millisecond or two. Then the event loop turns, so that
 * other requests are answered: however much an account has, a request for a small part of it holds up nobody.
 */
export const span = 5_000;

/** Up to so many entries are skipped or counted without waiting for a turn. */
export const few = 500;

/** Resolves when another span may be walked, in a later turn of the event loop. */
export async function laterTurn(accountId: string): Promise<void> {
  await nextTurn();
  await turns.next(accountId);
}

/** Where a list begins that has the newest entries first: every id sorts below a tilde. */
export const firstId = '~';

/**
 * Skips `offset` entries span by span, and yields to the event loop in between. The last of them, a span at most, are
 * left to the query itself.
 * @param edge finds the place so many entries after a place, or after the beginning; undefined if there are fewer
 * @returns where to go on, and how many entries are still to be skipped
 */
export async function skip<Place>(
  accountId: string,
  after: Place | undefined,
  offset: number,
  edge: (after: Place | undefined, entries: number) => Place | undefined,
): Promise<{ after: Place | undefined; offset: number }> {
  await turns.next(accountId);
  while (offset > span) {
    const next = edge(after, span);
    if (next === undefined) break; // fewer than that are left, so the page is empty
    after = next;
    offset -= span;
    await laterTurn(accountId);
  }
  return { after, offset };
}

/** Reads a page whose places are ids, after skipping what its offset leaves out; for `edge` see `skip`. */
export function pageFrom<T>(
  accountId: string,
  query: PageQuery,
  read: (query: PageQuery) => T,
  edge: (after: string | undefined, entries: number) => string | undefined,
): T | Promise<T> {
  if (query.offset <= few) return read(query);
  return skip(accountId, query.after, query.offset, edge).then((rest) => read({ ...query, ...rest }));
}

type CountSome = (limit: number, afterId?: string) => { readonly count: number; readonly lastId: string | null };

/**
 * Counts entries: a few at once, more of them span by span, and yields to the event loop in between.
 * @param countSome counts the entries after an id, or from the beginning, up to a limit; and gives the last of them
 */
export function countInSpans(accountId: string, countSome: CountSome): number | Promise<number> {
  const { count, lastId } = countSome(few);
  return count < few || lastId === null ? count : countFurther(accountId, count, lastId, countSome);
}

async function countFurther(accountId: string, first: number, lastId: string, countSome: CountSome): Promise<number> {
  await turns.next(accountId);
  for (let total = first, afterId = lastId; ; await laterTurn(accountId)) {
    const next = countSome(span, afterId);
    total += next.count;
    if (next.count < span || next.lastId === null) return total;
    afterId = next.lastId;
  }
}
