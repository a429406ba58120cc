import { z } from 'zod';
import { pointer, validationFailed } from './errors.ts';
import { exampleId, type IdKind, isId } from './ids.ts';
import type { Awaitable } from './ports.ts';

export const maxPageSize = 100;
export const defaultPageSize = 20;
const maxOffset = 2 ** 31 - 1;

/** How many a page is to have. */
export const limitInput = z
  .int({ error: 'must be an integer' })
  .min(1, { error: `must be between 1 and ${maxPageSize}` })
  .max(maxPageSize, { error: `must be between 1 and ${maxPageSize}` })
  .default(defaultPageSize)
  .describe('How many to return, 1 to 100.');

const offsetInput = z
  .int({ error: 'must be an integer' })
  .min(0, { error: 'must be 0 or more' })
  .max(maxOffset, { error: `must be at most ${maxOffset}` })
  .optional()
  .describe('How many to skip. Its cost grows with its size; a cursor does not have that.')
  .meta({ examples: [40] });

/** @param place what an example of a cursor holds */
export function cursorInput(...place: Parameters<typeof encodeCursor>) {
  return z
    .string({ error: 'must be a string' })
    .optional()
    .describe('Continue after this cursor: a `nextCursor` or an edge’s `cursor` of a list with the same sort.')
    .meta({ examples: [encodeCursor(...place)] });
}

/** The input that every list takes: how many, and from where. */
export function pageInput(...place: Parameters<typeof encodeCursor>) {
  return { limit: limitInput, offset: offsetInput, after: cursorInput(...place) };
}

/** One page of a list, and how to go on from it. */
export interface List<T> {
  readonly items: readonly T[];
  readonly limit: number;
  readonly offset: number;
  readonly hasMore: boolean;
  /** How many there are in all, whatever the page. Asked of the storage only when it is called. */
  total(): Awaitable<number>;
  /** The place of one item in the list, to continue after. */
  cursorOf(item: T): string;
}

/** The place to go on from, or null at the end. */
export function nextCursor<T>(list: List<T>): string | null {
  const last = list.items.at(-1);
  return list.hasMore && last !== undefined ? list.cursorOf(last) : null;
}

/** What a storage answers when asked for a page. */
export interface Slice<T> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
}

export type CursorPart = string | number;
type CursorShape = 'number' | IdKind;

/** Makes a cursor: opaque to callers, it holds the sort and the sort values of one item. */
export function encodeCursor(sort: string, parts: readonly CursorPart[]): string {
  return Buffer.from(JSON.stringify([sort, ...parts])).toString('base64url');
}

/**
 * Reads a cursor back.
 * @param shape what each part has to be, in order: a number, or an id of a kind
 * @param argument the name that the caller gave it under
 * @throws VALIDATION_FAILED for a cursor that is none, or was made for another sort
 */
export function decodeCursor(
  cursor: string,
  sort: string,
  shape: readonly CursorShape[],
  argument = 'after',
): CursorPart[] {
  const fault = (detail: string) => validationFailed([{ pointer: pointer([argument]), detail }]);
  const [cursorSort, ...parts] = readCursor(cursor) ?? [];
  if (typeof cursorSort !== 'string') throw fault('is not a cursor of this list');
  if (cursorSort !== sort) throw fault(`is a cursor of the sort \`${cursorSort}\`, not of \`${sort}\``);
  if (parts.length !== shape.length || parts.some((part, index) => !isPart(part, shape[index]))) {
    throw fault('is not a cursor of this list');
  }
  return parts as CursorPart[];
}

/** Every number in a cursor is a sequence or a time. */
function isPart(part: unknown, kind: CursorShape | undefined): part is CursorPart {
  if (kind === undefined) return false;
  if (kind === 'number') return Number.isSafeInteger(part) && Number(part) >= 0;
  return typeof part === 'string' && isId(kind, part);
}

/** The parts of a cursor that this service has made, or something much like one. */
function readCursor(cursor: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    return Array.isArray(value) && typeof value[0] === 'string' && /^-?[A-Za-z]{1,32}$/.test(value[0])
      ? value
      : undefined;
  } catch {
    return undefined;
  }
}

/** A cursor and an offset are two ways of saying where to start: both at once is a mistake. */
export function refuseCursorWithOffset(
  context: z.core.ParsePayload<{ offset?: number | undefined; after?: string | undefined }>,
): void {
  const { offset, after } = context.value;
  if (offset !== undefined && after !== undefined) {
    context.issues.push({
      code: 'custom',
      path: ['after'],
      input: after,
      message: 'cannot be used together with `offset`',
    });
  }
}

/** What a storage is asked for of a list that has one order: newest first, by id. */
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
  return z.strictObject(pageInput('-createdAt', [exampleId(kind)])).check(refuseCursorWithOffset);
}

/** One page of a list of a kind of thing, newest first. */
export async function newestFirst<T extends { readonly id: string }>(
  kind: IdKind,
  reads: NewestFirstReads<T>,
  accountId: string,
  { limit, offset = 0, after }: z.output<ReturnType<typeof newestFirstInput>>,
): Promise<List<T>> {
  const sort = '-createdAt';
  const [afterId] = after === undefined ? [] : decodeCursor(after, sort, [kind]);
  const slice = await reads.page(accountId, {
    limit,
    offset,
    ...(afterId === undefined ? {} : { after: String(afterId) }),
  });
  return {
    ...slice,
    limit,
    offset,
    total: () => reads.count(accountId),
    cursorOf: ({ id }) => encodeCursor(sort, [id]),
  };
}
