import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PageQuery, Slice } from '../../domain/paging.ts';
import { scheduler } from '../../runtime/scheduler.ts';

// Pages and counts of lists. What a page skips, or what is counted, can be all that an account has: that is done in
// steps, and the event loop turns in between, so that a request for a small part of a long list holds up nobody.

/** How many entries of an index are walked in one step, which takes a millisecond or two. */
export const entriesPerStep = 5_000;

/** Up to so many entries are skipped or counted without waiting for a turn. */
export const maxEntriesAtOnce = 500;

/** Resolves when the account may take another step, in a later turn of the event loop. */
export async function nextStep(accountId: string): Promise<void> {
  await nextTurn();
  await scheduler.step(accountId);
}

/** Sorts after every id: a list that has the newest entries first begins below it. */
export const aboveAllIds = '~';

/** A page from rows that were read with one more than its limit. */
export function sliceOf<Row, T>(rows: readonly Row[], limit: number, map: (row: Row) => T): Slice<T> {
  const hasMore = rows.length > limit;
  return { items: (hasMore ? rows.slice(0, limit) : rows).map(map), hasMore };
}

/**
 * Skips `offset` entries in steps. The last of them, a step at most, are left to the query itself.
 * @param placeAfter finds the place so many entries after a place, or after the beginning; undefined if there are fewer
 * @returns where to go on, and how many entries are still to be skipped
 */
export async function skipInSteps<Place>(
  accountId: string,
  after: Place | undefined,
  offset: number,
  placeAfter: (after: Place | undefined, entries: number) => Place | undefined,
): Promise<{ after: Place | undefined; offset: number }> {
  await scheduler.step(accountId);
  while (offset > entriesPerStep) {
    const next = placeAfter(after, entriesPerStep);
    if (next === undefined) break; // fewer than that are left, so the page is empty
    after = next;
    offset -= entriesPerStep;
    await nextStep(accountId);
  }
  return { after, offset };
}

/** Reads a page whose places are ids, after skipping what its offset leaves out; for `placeAfter` see `skipInSteps`. */
export function pageAfterSkipping<T>(
  accountId: string,
  query: PageQuery,
  read: (query: PageQuery) => T,
  placeAfter: (after: string | undefined, entries: number) => string | undefined,
): T | Promise<T> {
  if (query.offset <= maxEntriesAtOnce) return read(query);
  return skipInSteps(accountId, query.after, query.offset, placeAfter).then((rest) => read({ ...query, ...rest }));
}

type CountUpTo = (limit: number, afterId?: string) => { readonly count: number; readonly lastId: string | null };

/**
 * Counts entries: a few at once, more of them in steps.
 * @param countUpTo counts the entries after an id, or from the beginning, up to a limit; and gives the last of them
 */
export function countInSteps(accountId: string, countUpTo: CountUpTo): number | Promise<number> {
  const { count, lastId } = countUpTo(maxEntriesAtOnce);
  return count < maxEntriesAtOnce || lastId === null ? count : countFurther(accountId, count, lastId, countUpTo);
}

async function countFurther(accountId: string, first: number, lastId: string, countUpTo: CountUpTo): Promise<number> {
  await scheduler.step(accountId);
  for (let total = first, afterId = lastId; ; await nextStep(accountId)) {
    const next = countUpTo(entriesPerStep, afterId);
    total += next.count;
    if (next.count < entriesPerStep || next.lastId === null) return total;
    afterId = next.lastId;
  }
}
