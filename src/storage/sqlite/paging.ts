import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PageQuery } from '../../domain/paging.ts';
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

/** Of long texts, so many bytes are read in one step, which takes 7 ms: those of twenty messages at least. */
const bytesPerStep = 1.5 * 1024 * 1024;
/** So few rows are read by one call, which takes half as long as a call for each; the longest would take 12 ms. */
const fewRows = 50;

/** What is numbered without gaps: from one number to another, both included. */
interface NumberedRange {
  readonly from: number;
  readonly to: number;
}

/** What ranges are read with. */
export interface RangeReader<Range, Row, Item> {
  /**
   * The rows of ranges, one range after the other, by ascending number; `range` is the place of each among these.
   * @param areFew whether they are to be read at once, instead of as they are asked for
   */
  rows(ranges: readonly Range[], areFew: boolean): Iterable<Row & { readonly range: number }>;
  numberOf(row: Row): number;
  /** The texts of a row that can be long. */
  textsOf(row: Row): readonly (string | null)[];
  toItem(row: Row, range: Range): Item;
}

/**
 * Reads the rows of ranges: at once, or in steps where their texts are long.
 * @param onRead called with the bytes of texts that a step has read; what it throws ends the reading
 */
export function readRanges<Range extends NumberedRange, Row, Item>(
  accountId: string,
  ranges: readonly Range[],
  reader: RangeReader<Range, Row, Item>,
  onRead: (bytes: number) => void = () => {},
): Item[][] | Promise<Item[][]> {
  const found: Item[][] = ranges.map(() => []);
  let left = ranges;
  const isComplete = (): boolean => {
    let bytes = 0;
    const count = left.reduce((sum, { from, to }) => sum + to - from + 1, 0);
    for (const row of reader.rows(left, count <= fewRows)) {
      const range = left[row.range] as Range;
      found.at(row.range - left.length)?.push(reader.toItem(row, range));
      for (const text of reader.textsOf(row)) bytes += text === null ? 0 : Buffer.byteLength(text);
      if (bytes < bytesPerStep) continue;
      left = [{ ...range, from: reader.numberOf(row) + 1 }, ...left.slice(row.range + 1)];
      break;
    }
    onRead(bytes);
    return bytes < bytesPerStep;
  };
  if (isComplete()) return found;
  const further = async (): Promise<Item[][]> => {
    for (await nextStep(accountId); !isComplete(); ) await nextStep(accountId);
    return found;
  };
  return further();
}

/** Rows are tested in steps of so many, and so few are sorted: that takes a few milliseconds. */
export const rowsPerStep = 1_000;
/** Of a walk whose end is not known, so many entries are tested at once: often they have all of a page. */
const entriesAtOnce = 200;

interface Stretch<Place> {
  readonly after: Place | undefined;
  /** Included; undefined for the end of the list. */
  readonly until: Place | undefined;
}

interface Window {
  readonly limit: number;
  readonly offset: number;
}

/** A list that is found by testing entry by entry of an index in its order. */
export interface Walk<Place, Row> {
  /** How many entries are tested in a step. */
  readonly perStep: number;
  /** The place that lies so many entries after another one, or after the beginning; undefined if there are fewer. */
  placeAfter(after: Place | undefined, entries: number): Place | undefined;
  /** The rows found between two places, and one more if there is one. */
  rows(stretch: Stretch<Place>, window: Window): Row[];
  /** How many are found between two places. */
  count(stretch: Stretch<Place>): number;
}

/** A page of such a list, and more rows if there are more: what takes long is done in steps. */
export function pageOfWalk<Place, Row extends { readonly id: string }>(
  accountId: string,
  query: Window & { readonly after?: Place | undefined },
  walk: Walk<Place, Row>,
): Row[] | Promise<Row[]> {
  const rows: Row[] = [];
  let { after, offset } = query;
  const isComplete = (entries: number): boolean => {
    const stretch = { after, until: walk.placeAfter(after, entries) };
    if (offset >= entries && stretch.until !== undefined) {
      offset -= walk.count(stretch); // it cannot have more
      after = stretch.until;
      return false;
    }
    const some = walk.rows(stretch, { limit: query.limit, offset });
    // One that has been found before was moved on meanwhile.
    rows.push(...some.filter(({ id }) => !rows.some((row) => row.id === id)));
    if (rows.length > query.limit || stretch.until === undefined) return true;
    // Rows are found only after the offset is used up; if none were, all that this stretch has was skipped.
    if (some.length > 0) offset = 0;
    else if (offset > 0) offset -= walk.count(stretch);
    after = stretch.until;
    return false;
  };
  return isComplete(entriesAtOnce) ? rows : inSteps(accountId, () => isComplete(walk.perStep)).then(() => rows);
}

/** How many such a list has in all: few are counted at once, more of them in steps. */
export function countOfWalk<Place>(accountId: string, walk: Walk<Place, unknown>): number | Promise<number> {
  let number = 0;
  let after: Place | undefined;
  const isComplete = (entries: number): boolean => {
    const stretch = { after, until: walk.placeAfter(after, entries) };
    number += walk.count(stretch);
    after = stretch.until;
    return after === undefined;
  };
  return isComplete(entriesAtOnce) ? number : inSteps(accountId, () => isComplete(walk.perStep)).then(() => number);
}

/** Takes step after step, each in a turn of the account, until nothing is left to do. */
async function inSteps(accountId: string, isComplete: () => boolean): Promise<void> {
  for (await scheduler.step(accountId); !isComplete(); ) await nextStep(accountId);
}
