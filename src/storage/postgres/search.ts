import type { FoundRecords, FoundTexts, SearchFilter, SearchQuery } from '../../domain/search.ts';
import { conversationText } from '../../domain/search-words.ts';
import type { SearchReads, SearchWrites } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { emptySlice, sliceOf } from '../lists.ts';
import { type ConversationRow, conversationColumns, toConversation } from '../rows/conversations.ts';
import { type MessageRow, messageColumns, toMessage } from '../rows/messages.ts';
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

/** How many texts were found. */
const count = 'SELECT count(*) AS count FROM found';

/** The first of them with all that belongs to them, and how many there are, if that is asked for. */
const records = (
  isCounted: boolean,
): string => `SELECT page.number, page.sequence, ${columnsOf('conversations', conversationColumns)},
    ${jsonRows('messages', messageColumns, {
      where: `messages.account_id = :accountId AND messages.conversation_id = page.conversation_id
        AND messages.sequence = page.sequence`,
      order: 'messages.sequence',
      json: ['author', 'metadata'],
    })} AS messages
    ${isCounted ? `, (${count}) AS count` : ''}
  FROM (SELECT * FROM found ORDER BY number DESC LIMIT :limit) AS page
  JOIN conversations ON conversations.account_id = :accountId AND conversations.id = page.conversation_id
  ORDER BY page.number DESC`;

interface CountRow {
  readonly count: number;
}

interface RecordRow extends ConversationRow {
  readonly number: number;
  readonly sequence: number;
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

/** A page of texts, of which there are more if more are given than its limit. */
function pageOf(rows: readonly RecordRow[], limit: number): FoundTexts {
  const page = sliceOf(rows, limit, (row) => row);
  return {
    items: page.items.map(({ id, sequence, number }) => ({ conversationId: id, sequence, place: number })),
    records: page.items.map(toRecords),
    hasMore: page.hasMore,
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
          SELECT search_texts.number, search_texts.conversation_id, search_texts.sequence FROM search_texts
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

  /** The first texts that are found, where their terms do not settle it. */
  async function testedTexts(accountId: string, search: Search, limit: number): Promise<readonly RecordRow[]> {
    const texts: RecordRow[] = [];
    let { after } = search;
    for (;;) {
      const next = await ofFound<RecordRow>(accountId, { ...search, after }, textsAtOnce, records(false));
      let left = 0;
      for (const row of next) {
        if (left <= 0) {
          await scheduler.step(accountId);
          left = textPerStep;
        }
        const [message] = fromJson(row.messages);
        const text = message?.content ?? conversationText({ subject: row.subject, visitor: fromJson(row.visitor) });
        left -= text.length;
        if (search.words.isIn(text)) texts.push(row);
        if (texts.length === limit) return texts;
      }
      if (next.length < textsAtOnce) return texts;
      after = next.at(-1)?.number;
    }
  }

  return {
    isBehind: () => false, // words are indexed in the transactions that write them
    page: async (accountId, { limit, countTo = 0, ...search }) => {
      if (search.words.count === 0) return emptySlice;
      if (!search.words.areSettledByTerms) return pageOf(await testedTexts(accountId, search, limit + 1), limit);
      const most = Math.max(limit + 1, countTo);
      const rows = await ofFound<RecordRow & CountRow>(accountId, search, most, records(countTo > 0), limit + 1);
      return { ...pageOf(rows, limit), ...(countTo > 0 && { count: rows[0]?.count ?? 0 }) };
    },
    count: async (accountId, search, limit) => {
      if (search.words.count === 0) return 0;
      if (!search.words.areSettledByTerms) return (await testedTexts(accountId, search, limit)).length;
      return (await ofFound<CountRow>(accountId, search, limit, count))[0]?.count ?? 0;
    },
  };
}

export function searchWrites(): SearchWrites {
  return { indexNew: () => true, indexOld: () => true };
}
