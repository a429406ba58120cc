import * as z from 'zod';
import { choices } from './choices.ts';
import {
  type Conversation,
  conversationShape,
  conversationView,
  type StoredConversation,
} from './conversation-record.ts';
import { type Status, statuses } from './lifecycle.ts';
import { type Message, messageShape } from './message-record.ts';
import { type Context, operation } from './operation.ts';
import {
  type CursorShapes,
  checkStart,
  cursorInput,
  decodeCursor,
  encodeCursor,
  type List,
  limitInput,
  type Slice,
  totalInput,
} from './paging.ts';
import { conversationText, SearchWords } from './search-words.ts';
import { textShape } from './shapes.ts';
import type { Storage } from './storage-port.ts';
import { someTagsInput } from './tags.ts';
import { line, prose } from './text.ts';
import { timeInput, timeInputRoundedUp } from './time.ts';

const maxQueryLength = 256;
const maxWords = 10;
/** Matches are counted up to here. */
const maxCounted = 1_000;
/** Texts are read so many at once. */
const textsAtOnce = 20;
/** Excerpts are made of so much text at once, in UTF-16 code units, or of one text: that takes a few milliseconds. */
const excerptedAtOnce = 16_384;
/** Of an excerpt, in UTF-16 code units; and how much of it comes before the first match. */
const excerptLength = 200;
const excerptLead = 60;
/** So many matches are marked in an excerpt, with what is between them. */
const maxMarked = 10;
export const maxExcerptParts = 2 * maxMarked + 1;

export const excerptPartShape = z
  .object({
    text: textShape('A piece of the text, as it was written.', 'parcel'),
    match: z.boolean().describe('Whether this is what was searched for.'),
  })
  .meta({ id: 'ExcerptPart', description: 'A part of an excerpt. All parts together are the excerpt.' });

export type ExcerptPart = Readonly<z.output<typeof excerptPartShape>>;

export const searchResultShape = z
  .object({
    conversation: conversationShape.describe('The conversation.'),
    message: messageShape
      .nullable()
      .describe(
        'The message that was found; null if it is the conversation’s subject, visitor’s name or email address.',
      ),
    excerpt: z
      .array(excerptPartShape)
      .readonly()
      .describe(
        'Where the words are in the text, in at most 21 parts: about 200 characters, beginning shortly before the first.',
      ),
  })
  .meta({
    id: 'SearchResult',
    description: 'A message, or a conversation’s own text, that holds what was searched for.',
  });

export interface SearchResult {
  readonly conversation: Conversation;
  readonly message: Message | null;
  readonly excerpt: readonly ExcerptPart[];
}

/** Results, newest first. `total` is at most 1,000. */
export interface SearchResults extends List<SearchResult> {
  /** Whether there are more than `total`. */
  totalIsMore(): Promise<boolean>;
}

export interface SearchFilter {
  /** One of these. */
  readonly statuses?: readonly Status[] | undefined;
  readonly assigneeId?: string | undefined;
  /** All of these. */
  readonly tags?: readonly string[] | undefined;
  /** Of the text, in epoch milliseconds, exclusive. */
  readonly createdAfter?: number | undefined;
  /** Of the text, in epoch milliseconds, exclusive. */
  readonly createdBefore?: number | undefined;
}

export interface SearchQuery {
  readonly words: SearchWords;
  readonly filter: SearchFilter;
  readonly limit: number;
  /** Continue after the text at this place. */
  readonly after?: number | undefined;
  /** If it is given, the storage may count all texts along with the page, up to this number: for a first page only. */
  readonly countTo?: number | undefined;
}

/** A text that is found. */
export interface FoundText {
  readonly conversationId: string;
  /** The message's; 0 for the conversation's own text. */
  readonly sequence: number;
  /** Its place among all texts of the account, in the order in which they came. */
  readonly place: number;
}

/** What a text is of. */
export interface FoundRecords {
  readonly conversation: StoredConversation;
  /** Null for the conversation's own text. */
  readonly message: Message | null;
}

export interface FoundTexts extends Slice<FoundText> {
  /** Those of the items, where they were read along; else they have to be looked up. */
  readonly records?: readonly FoundRecords[];
  /** Up to `countTo`, where it was counted along. */
  readonly count?: number;
}

const sort = '-createdAt';
const cursorShapes = { [sort]: ['number'] } as const satisfies CursorShapes;

export const search = operation({
  name: 'search',
  summary:
    'Finds messages, and conversations by their subject, visitor’s name and email address: those that hold every word, newest first.',
  scope: 'conversations:read',
  input: z
    .strictObject({
      q: prose(maxQueryLength)
        .refine((text) => new SearchWords(text.slice(0, 2 * maxQueryLength)).count <= maxWords, {
          error: `must have at most ${maxWords} words`,
        })
        .describe(
          'The words: 1 to 256 characters and at most 10 words, the last one as a beginning. Case, width and accents do not count; quotes and operators mean nothing. In scripts without spaces between words, any run of characters is found.',
        )
        .meta({ examples: ['where parcel'] }),
      status: choices(statuses)
        .optional()
        .describe('Only in conversations with one of these statuses.')
        .meta({ examples: [['active', 'pending']] }),
      assigneeId: line(128)
        .optional()
        .describe('Only in conversations that this agent has.')
        .meta({ examples: ['agent-3'] }),
      tags: someTagsInput.optional().describe('Only in conversations with all of these tags.'),
      createdAfter: timeInput.optional().describe('Only messages sent, and conversations created, after this time.'),
      createdBefore: timeInputRoundedUp
        .optional()
        .describe('Only messages sent, and conversations created, before this time.'),
      limit: limitInput,
      after: cursorInput(sort, [2_147_483_659]),
      total: totalInput,
    })
    .check(checkStart(cursorShapes)),
  errors: [],
  async run(context, { q, limit, after, total, status, ...others }): Promise<SearchResults> {
    const { caller, storage } = context;
    const { read } = storage;
    const filter = { ...others, statuses: status };
    const accountId = caller.account.id;
    const words = new SearchWords(q);
    const [start] = after === undefined ? [] : decodeCursor(after, sort, cursorShapes[sort]).map(Number);
    const wantsTotal = total === undefined;
    const isFirst = start === undefined;
    const countAll = async () => await read.search.count(accountId, { words, filter }, maxCounted + 1);
    const query = { words, filter, limit, after: start, ...(wantsTotal && isFirst && { countTo: maxCounted + 1 }) };
    // Of a later page, the total counts what comes before it, too: it is asked for at the same time.
    const [{ items, places, hasMore, count: countedAlong }, countedBeside] = await Promise.all([
      readPage(context, query),
      wantsTotal && !isFirst ? countAll() : undefined,
    ]);
    const known = isFirst && !hasMore ? items.length : (countedAlong ?? countedBeside);
    let counted = known === undefined ? undefined : Promise.resolve(known);
    const count = (): Promise<number> => (counted ??= countAll());
    return {
      items,
      limit,
      offset: 0,
      hasMore,
      wantsTotal,
      total: async () => Math.min(await count(), maxCounted),
      totalIsMore: async () => (await count()) > maxCounted,
      isEmpty: async () => (await read.search.page(accountId, { words, filter, limit: 1 })).items.length === 0,
      cursorOf: (result) => encodeCursor(sort, [places.get(result) ?? 0]),
    };
  },
});

/**
 * Indexes what waits for it, in many transactions, between which other writes can run.
 * @param mayGoOn called after each of them: resolves to whether the next may begin, or the rest is left for later
 */
export async function indexTexts(
  { read, write }: Pick<Storage, 'read' | 'write'>,
  mayGoOn: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<void> {
  if (!(await read.search.isBehind())) return;
  while (!(await write(async (tx) => await tx.search.index()))) if (!(await mayGoOn())) return;
}

interface ResultPage extends Slice<SearchResult> {
  readonly places: ReadonlyMap<SearchResult, number>;
  /** How many there are, if that was counted along. */
  readonly count: number | undefined;
}

async function readPage(context: Context, { limit, countTo, ...query }: SearchQuery): Promise<ResultPage> {
  const { caller, storage } = context;
  const items: SearchResult[] = [];
  const places = new Map<SearchResult, number>();
  let { after } = query;
  let count: number | undefined;
  for (let isFirst = true; ; isFirst = false) {
    const part = { ...query, after, limit: Math.min(limit - items.length, textsAtOnce), ...(isFirst && { countTo }) };
    const found = await storage.read.search.page(caller.account.id, part);
    count ??= found.count;
    for (const [text, result] of await resultsOf(context, found, query.words)) {
      items.push(result);
      places.set(result, text.place);
    }
    after = found.items.at(-1)?.place;
    if (items.length >= limit || !found.hasMore) return { items, places, hasMore: found.hasMore, count };
  }
}

async function resultsOf(
  { caller, storage: { read }, turns }: Pick<Context, 'caller' | 'storage' | 'turns'>,
  found: FoundTexts,
  words: SearchWords,
): Promise<readonly [FoundText, SearchResult][]> {
  const accountId = caller.account.id;
  const records = await recordsOf(read, accountId, found);
  const results: [FoundText, SearchResult][] = [];
  let excerpted = 0;
  for (const [index, text] of found.items.entries()) {
    if (records[index] === undefined) continue;
    const { conversation, message } = records[index];
    const content = message?.content ?? conversationText(conversation);
    if (excerpted > 0 && excerpted + content.length > excerptedAtOnce) {
      await turns.step(accountId);
      excerpted = 0;
    }
    excerpted += content.length;
    results.push([text, { conversation: conversationView(conversation), message, excerpt: excerptOf(content, words) }]);
  }
  return results;
}

/** What texts are of; undefined for those that have been erased meanwhile. */
async function recordsOf(
  read: Storage['read'],
  accountId: string,
  { items, records }: FoundTexts,
): Promise<readonly (FoundRecords | undefined)[]> {
  if (records !== undefined) return records;
  const ids = items.map(({ conversationId }) => conversationId);
  const ranges = items.map(({ conversationId, sequence }) => ({ conversationId, from: sequence, to: sequence }));
  const conversations = await read.conversations.findMany(accountId, ids);
  const messages = await read.messages.ranges(accountId, ranges);
  return items.map(({ sequence }, index) => {
    const conversation = conversations[index];
    const message = messages[index]?.[0] ?? null;
    return conversation && (message !== null || sequence === 0) ? { conversation, message } : undefined;
  });
}

/** The part of a text around the first of these words, with all of them in it marked. */
export function excerptOf(text: string, words: SearchWords): ExcerptPart[] {
  const parts: ExcerptPart[] = [];
  let begin = 0;
  let end = excerptLength;
  let at = 0;
  const add = (to: number, match: boolean): void => {
    if (to > at) parts.push({ text: text.slice(at, to), match });
    at = Math.max(at, to);
  };
  for (const { from, to } of words.placesIn(text, excerptLength)) {
    if (parts.length === 0 && at === 0) {
      begin = beginningOf(text, from);
      end = characterBoundary(text, begin + excerptLength);
      at = begin;
    }
    if (from >= end || parts.length >= 2 * maxMarked - 1) break;
    add(from, false);
    add(Math.min(to, end), true);
  }
  add(characterBoundary(text, Math.min(end, text.length)), false);
  return parts;
}

/** Where an excerpt begins whose first match is here: at a word, if there is one near. */
function beginningOf(text: string, match: number): number {
  if (match <= excerptLead) return 0;
  const space = text.slice(match - excerptLead, match).search(/\s\S/);
  return space < 0 ? characterBoundary(text, match - excerptLead) : match - excerptLead + space + 1;
}

/** This place, or the next one that is between two characters. */
function characterBoundary(text: string, at: number): number {
  let boundary = at;
  while (boundary < text.length && /^[\p{M}\udc00-\udfff]/u.test(text.slice(boundary, boundary + 2))) boundary++;
  return boundary;
}
