import type { FoundRecords, FoundText, FoundTexts, SearchFilter, SearchQuery } from '../../domain/search.ts';
import type { SearchReads, SearchWrites } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { emptySlice, sliceOf } from '../lists.ts';
import { type ConversationRow, conversationColumns, toConversation } from '../rows/conversations.ts';
import { type MessageRow, messageColumns, toMessage } from '../rows/messages.ts';
import { type TextSource, textOf } from '../rows/texts.ts';
import { fromJson, type Json } from '../rows/values.ts';
import { arrayOf, columnsOf, jsonRows, type Statements } from './statements.ts';

/** How many texts are read at once, where the index alone does not settle it. */
const textsAtOnce = 32;
/** Of how many accounts the key is kept in memory. */
const maxKeys = 10_000;
/** So much text, in UTF-16 code units, is looked at in one step. */
const textPerStep = 8 * 1024;

/** Conditions on a text and its conversation, by the filter that they stand for. */
const conditions: Readonly<Record<keyof SearchFilter, string>> = {
  statuses: 'conversations.status = ANY(:statuses::text[])',
  assigneeId: 'conversations.assignee_id = :assigneeId',
  tags: `(SELECT count(*) FROM conversation_tags AS tagged WHERE tagged.account_id = :accountId
    AND tagged.conversation_id = conversations.id AND tagged.tag = ANY(:tags::text[])) = cardinality(:tags::text[])`,
  createdAfter: 'search_texts.created_at > :createdAfter',
  createdBefore: 'search_texts.created_at < :createdBefore',
};

type Search = Pick<SearchQuery, 'words' | 'filter' | 'after'>;

/** Selects how many texts were found. */
const countSelection = 'SELECT count(*) AS count FROM found';

/** Selects what is in them. */
const textSelection = `SELECT found.*, messages.content, conversations.subject, conversations.visitor FROM found
  JOIN conversations ON conversations.account_id = :accountId AND conversations.id = found.conversation_id
  LEFT JOIN messages ON messages.account_id = :accountId AND messages.conversation_id = found.conversation_id
    AND messages.sequence = found.sequence
  ORDER BY found.place DESC`;

/** The first of them with all that belongs to them, and how many there are, if that is asked for. */
const recordSelection = (
  isCounted: boolean,
): string => `SELECT page.place, page.sequence, ${columnsOf('conversations', conversationColumns)},
    ${jsonRows('messages', messageColumns, {
      where: `messages.account_id = :accountId AND messages.conversation_id = page.conversation_id
        AND messages.sequence = page.sequence`,
      order: 'messages.sequence',
      json: ['author', 'metadata'],
    })} AS messages
    ${isCounted ? `, (${countSelection}) AS count` : ''}
  FROM (SELECT * FROM found ORDER BY place DESC LIMIT :limit) AS page
  JOIN conversations ON conversations.account_id = :accountId AND conversations.id = page.conversation_id
  ORDER BY page.place DESC`;

interface CountRow {
  readonly count: number;
}

interface RecordRow extends ConversationRow, Omit<FoundText, 'conversationId'> {
  /** One, or none for the conversation's own text. */
  readonly messages: Json<readonly MessageRow[]>;
}

function toRecords(row: RecordRow): FoundRecords {
  const [message] = fromJson(row.messages);
  return {
    conversation: toConversation(row),
    message: message === undefined ? null : toMessage(message, row.id),
  };
}

export function searchReads(db: Statements): SearchReads {
  const findKey = db.prepare<{ key: number }>('SELECT key FROM accounts WHERE id = :accountId');
  /** What stands before the terms of an account. It never changes. */
  const keys = new Map<string, number>();
  async function keyOf(accountId: string): Promise<number | undefined> {
    const known = keys.get(accountId);
    if (known !== undefined) return known;
    const key = (await findKey.get({ accountId }))?.key;
    if (keys.size >= maxKeys) keys.clear();
    if (key !== undefined) keys.set(accountId, key);
    return key;
  }

  /**
   * Selects of the texts that have all terms, up to so many, the newest first. PostgreSQL knows how often the commonest
   * terms are there: texts that have these it finds from the newest on, others by the index of terms, which has no order.
   */
  async function ofFound<Row>(
    accountId: string,
    { words, filter, after = Number.MAX_SAFE_INTEGER }: Search,
    most: number,
    selection: string,
    limit = most,
  ): Promise<Row[]> {
    const key = await keyOf(accountId);
    if (key === undefined) return [];
    const tests = Object.entries(filter).flatMap(([name, value]) =>
      value === undefined ? [] : [`AND ${conditions[name as keyof SearchFilter]}`],
    );
    const statement = db.prepareForValues<Row>(
      `WITH found AS MATERIALIZED (
          SELECT search_texts.number AS place, search_texts.conversation_id, search_texts.sequence FROM search_texts
          JOIN conversations ON conversations.account_id = :accountId AND conversations.id = search_texts.conversation_id
          WHERE search_texts.account_id = :accountId AND search_texts.number < :after
            AND search_texts.terms @@ :terms::tsquery ${tests.join(' ')}
          ORDER BY search_texts.number DESC LIMIT :most)
        ${selection}`,
    );
    // Terms are letters, digits and marks only, so that nothing in them ends the quotation.
    const terms = words.terms.map(({ text, isPrefix }) => `'${key}:${text}'${isPrefix ? ':*' : ''}`).join(' & ');
    return await statement.all({
      ...filter,
      statuses: arrayOf(filter.statuses ?? []),
      tags: arrayOf(filter.tags ?? []),
      ...{ accountId, after, most, limit, terms },
    });
  }

  /** The texts that are found, one after the other, where their terms do not settle it. */
  async function* testedTexts(accountId: string, search: Search): AsyncGenerator<FoundText> {
    let { after } = search;
    for (;;) {
      const next = await ofFound<FoundText & TextSource>(accountId, { ...search, after }, textsAtOnce, textSelection);
      let left = 0;
      for (const row of next) {
        if (left <= 0) {
          await scheduler.step(accountId);
          left = textPerStep;
        }
        const text = textOf(row);
        left -= text.length;
        if (search.words.isIn(text)) yield row;
      }
      if (next.length < textsAtOnce) return;
      after = next.at(-1)?.place;
    }
  }

  async function testedPage(accountId: string, search: Search, limit: number): Promise<FoundTexts> {
    const items: FoundText[] = [];
    for await (const text of testedTexts(accountId, search)) {
      if (items.length === limit) return { items, hasMore: true };
      items.push(text);
    }
    return { items, hasMore: false };
  }

  return {
    isBehind: () => false, // words are indexed in the transactions that write them
    page: async (accountId, { limit, countTo = 0, ...search }) => {
      if (search.words.count === 0) return emptySlice;
      if (!search.words.areSettledByTerms) return await testedPage(accountId, search, limit);
      const most = Math.max(limit + 1, countTo);
      const isCounted = countTo > 0;
      const rows = await ofFound<RecordRow & CountRow>(accountId, search, most, recordSelection(isCounted), limit + 1);
      const page = sliceOf(rows, limit, (row) => row);
      return {
        items: page.items.map(({ id, sequence, place }) => ({ conversationId: id, sequence, place })),
        records: page.items.map(toRecords),
        hasMore: page.hasMore,
        ...(isCounted && { count: rows[0]?.count ?? 0 }),
      };
    },
    count: async (accountId, search, limit) => {
      if (search.words.count === 0) return 0;
      if (search.words.areSettledByTerms) {
        return (await ofFound<CountRow>(accountId, search, limit, countSelection))[0]?.count ?? 0;
      }
      let count = 0;
      for await (const _ of testedTexts(accountId, search)) if (++count === limit) break;
      return count;
    },
  };
}

export function searchWrites(): SearchWrites {
  return { index: () => true };
}
