import * as z from 'zod';
import type { Awaitable } from './awaitable.ts';
import { quoting, type Text, validationFailed } from './errors.ts';
import { exampleId, type IdKind, isId } from './ids.ts';
import { evenWithOtherFaults } from './operation.ts';

export const maxPageSize = 100;
export const defaultPageSize = 20;
const maxOffset = 2 ** 31 - 1;

export const limitInput = z
  .int({ error: 'must be an integer' })
  .min(1, { error: `must be between 1 and ${maxPageSize}` })
  .max(maxPageSize, { error: `must be between 1 and ${maxPageSize}` })
  .default(defaultPageSize)
  .describe('Maximum number of items to return, 1 to 100.');

const offsetInput = z
  .int({ error: 'must be an integer' })
  .min(0, { error: 'must be 0 or more' })
  .max(maxOffset, { error: `must be at most ${maxOffset}` })
  .optional()
  .describe('Number of items to skip. The cost grows with it; that of a cursor does not.')
  .meta({ examples: [40] });

/** @param position the contents of the example cursor */
export function cursorInput(...position: Parameters<typeof encodeCursor>) {
  return z
    .string({ error: 'must be a string' })
    .optional()
    .describe('Continue after this cursor: a `nextCursor` or an edge’s `cursor` from a list with the same sort.')
    .meta({ examples: [encodeCursor(...position)] });
}

export const totalInput = z
  .enum(['none'])
  .optional()
  .describe('`none` leaves the total out, which a list with filters otherwise has to count.');

/** The paging input of every list. */
export function pageInput(...position: Parameters<typeof encodeCursor>) {
  return { limit: limitInput, offset: offsetInput, after: cursorInput(...position), total: totalInput };
}

/** One page of a list, and how to continue from it. */
export interface List<T> {
  readonly items: readonly T[];
  readonly limit: number;
  readonly offset: number;
  readonly hasMore: boolean;
  /** Whether the total is part of the response. */
  readonly wantsTotal: boolean;
  /** The number of items in the whole list. Where it is not wanted, it is queried only when called. */
  total(): Awaitable<number>;
  /** Whether the whole list has no items. Queried only when called; it costs no more than the first page. */
  isEmpty(): Awaitable<boolean>;
  /** The cursor to continue after an item. */
  cursorOf(item: T): string;
}

/** The cursor of the next page, or null at the end. */
export function nextCursor<T>(list: List<T>): string | null {
  const last = list.items.at(-1);
  return list.hasMore && last !== undefined ? list.cursorOf(last) : null;
}

/** A page as returned by a storage. */
export interface Slice<T> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
}

/**
 * Reads a page, and its list's total if that is wanted: both are asked for at once, so that they take no longer than one
 * where each question is a way to the database and back.
 * @returns the page, and what its list says of the total
 */
export async function pageWithTotal<Page>(
  page: () => Awaitable<Page>,
  count: () => Awaitable<number>,
  total: z.output<typeof totalInput>,
): Promise<[Page, Pick<List<unknown>, 'wantsTotal' | 'total'>]> {
  const wantsTotal = total === undefined;
  const [read, counted] = await Promise.all([Promise.try(page), wantsTotal ? Promise.try(count) : undefined]);
  return [read, { wantsTotal, total: () => counted ?? count() }];
}

type CursorPart = string | number;
type CursorShape = readonly ('number' | IdKind)[];
/** The types of the parts of a list's cursors, by sort: a number, or an id of a kind. */
export type CursorShapes = Readonly<Record<string, CursorShape>>;

/** Encodes a cursor. Opaque to clients, it holds the sort and the sort values of one item. */
export function encodeCursor(sort: string, parts: readonly CursorPart[]): string {
  return Buffer.from(JSON.stringify([sort, ...parts])).toString('base64url');
}

/**
 * Decodes a cursor.
 * @param argument the name under which the client gave it
 * @throws VALIDATION_FAILED for text that is not a cursor, or one of another sort
 */
export function decodeCursor(cursor: string, sort: string, shape: CursorShape, argument = 'after'): CursorPart[] {
  const detail = cursorFault(cursor, sort, shape);
  if (detail !== undefined) throw validationFailed([{ path: [argument], detail }]);
  return parseListCursor(cursor)?.parts as CursorPart[];
}

/** What is wrong with a text as a cursor of this sort and shape, or undefined. */
export function cursorFault(cursor: string, sort: string, shape: CursorShape | undefined): Text | undefined {
  const parsed = parseListCursor(cursor);
  if (parsed !== undefined && parsed.sort !== sort) {
    return quoting`is a cursor of the sort ${parsed.sort}, not of ${sort}`;
  }
  const isWhole =
    parsed?.parts.length === shape?.length && parsed?.parts.every((part, index) => isPart(part, shape?.[index]));
  return isWhole ? undefined : 'is not a cursor of this list';
}

/** Numbers in cursors are sequences or times, so never negative. */
function isPart(part: unknown, kind: CursorShape[number] | undefined): part is CursorPart {
  if (kind === undefined) return false;
  if (kind === 'number') return Number.isSafeInteger(part) && Number(part) >= 0;
  return typeof part === 'string' && isId(kind, part);
}

/** More than any cursor has. One request can give thousands of them, and each is decoded. */
const maxCursorLength = 512;

/** Decodes the form of a cursor; whether its parts fit a list is for `cursorFault` to check. */
function parseListCursor(cursor: string): { sort: string; parts: readonly unknown[] } | undefined {
  if (cursor.length > maxCursorLength) return undefined;
  const bytes = Buffer.from(cursor, 'base64url');
  if (bytes.toString('base64url') !== cursor) return undefined; // decoding passes over what is not base64url
  try {
    const value: unknown = JSON.parse(bytes.toString());
    const [sort, ...parts]: unknown[] = Array.isArray(value) ? value : [];
    return typeof sort === 'string' && /^-?[A-Za-z]{1,32}$/.test(sort) ? { sort, parts } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Checks that a list starts in one way only, and that a cursor belongs to the list's sort. A cursor and an offset
 * together are a mistake.
 */
export function checkStart(cursors: CursorShapes) {
  const shapes = new Map(Object.entries(cursors));
  const [onlySort] = shapes.keys();
  return z.superRefine<object>((input, { issues }) => {
    const { offset, after, sort = onlySort } = input as Record<string, unknown>;
    if (typeof after !== 'string') return;
    const refuse = (detail: Text) =>
      void issues.push({ code: 'custom', path: ['after'], input: after, params: { detail } });
    if (offset !== undefined) refuse('cannot be used together with `offset`');
    // An unknown sort is reported by its own field: the cursor is then checked against the sort that it names.
    const expected = typeof sort === 'string' && shapes.has(sort) ? sort : (parseListCursor(after)?.sort ?? '');
    const fault = cursorFault(after, expected, shapes.get(expected));
    if (fault !== undefined) refuse(fault);
  }, evenWithOtherFaults);
}

/** A storage query for a page of a list that is always newest first, by id. */
export interface PageQuery {
  readonly limit: number;
  readonly offset: number;
  readonly after?: string | undefined;
}

export interface NewestFirstReads<T> {
  page(accountId: string, query: PageQuery): Awaitable<Slice<T>>;
  count(accountId: string): Awaitable<number>;
}

/** The input of such a list. */
export function newestFirstInput(kind: IdKind) {
  return z.strictObject(pageInput('-createdAt', [exampleId(kind)])).check(checkStart({ '-createdAt': [kind] }));
}

/** One page of a list that is always newest first. */
export async function newestFirst<T extends { readonly id: string }>(
  kind: IdKind,
  reads: NewestFirstReads<T>,
  accountId: string,
  { limit, offset = 0, after, total }: z.output<ReturnType<typeof newestFirstInput>>,
): Promise<List<T>> {
  const sort = '-createdAt';
  const [afterId] = after === undefined ? [] : decodeCursor(after, sort, [kind]);
  const query = { limit, offset, ...(afterId === undefined ? {} : { after: String(afterId) }) };
  const [slice, totals] = await pageWithTotal(
    () => reads.page(accountId, query),
    () => reads.count(accountId),
    total,
  );
  return {
    ...slice,
    ...totals,
    limit,
    offset,
    isEmpty: async () => (await reads.page(accountId, { limit: 1, offset: 0 })).items.length === 0,
    cursorOf: newestFirstCursor,
  };
}

/** The cursor of an item in such a list. */
export function newestFirstCursor({ id }: { readonly id: string }): string {
  return encodeCursor('-createdAt', [id]);
}
