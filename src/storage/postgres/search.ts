import type { FoundText, SearchFilter, SearchQuery } from '../../domain/search.ts';
import { conversationText } from '../../domain/search-words.ts';
import type { SearchReads, SearchWrites } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { fromJson } from '../rows/values.ts';
import { arrayOf, type Statements } from './statements.ts';
import type { conversations, messages } from './tables.ts';

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

interface TextRow {
  readonly number: number;
  readonly conversationId: string;
  readonly sequence: number;
}

type TextWithSource = TextRow &
  Pick<typeof conversations.$inferSelect, 'subject' | 'visitor'> & {
    readonly content: (typeof messages.$inferSelect)['content'] | null;
  };

type Search = Pick<SearchQuery, 'words' | 'filter' | 'after'>;

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
   * The next texts that have all terms, the newest first. PostgreSQL knows how often the commonest terms are there: texts
   * that have these it finds from the newest on, others by the index of terms, which has no order.
   */
  async function withTerms<Row>(
    accountId: string,
    { words, filter }: Search,
    before: number,
    limit: number,
    source = false,
  ): Promise<Row[]> {
    const tests = Object.entries(filter).flatMap(([name, value]) =>
      value === undefined ? [] : [`AND ${conditions[name as keyof SearchFilter]}`],
    );
    const statement = db.prepareForValues<Row>(
      `SELECT search_texts.number, search_texts.conversation_id, search_texts.sequence
          ${source ? ', messages.content, conversations.subject, conversations.visitor' : ''}
        FROM search_texts
        JOIN conversations ON conversations.account_id = :accountId AND conversations.id = search_texts.conversation_id
        ${
          source
            ? `LEFT JOIN messages ON messages.account_id = :accountId
                AND messages.conversation_id = search_texts.conversation_id AND messages.sequence = search_texts.sequence`
            : ''
        }
        WHERE search_texts.account_id = :accountId AND search_texts.number < :before
          AND search_texts.terms @@ :terms::tsquery
          ${tests.join(' ')}
        ORDER BY search_texts.number DESC LIMIT :limit`,
    );
    const key = await keyOf(accountId);
    if (key === undefined) return [];
    // Terms are letters, digits and marks only, so that nothing in them ends the quotation.
    const terms = words.terms.map(({ text, isPrefix }) => `'${key}:${text}'${isPrefix ? ':*' : ''}`).join(' & ');
    return await statement.all({
      ...filter,
      statuses: arrayOf(filter.statuses ?? []),
      tags: arrayOf(filter.tags ?? []),
      ...{ accountId, before, limit, terms },
    });
  }

  /** The first texts that are found, the newest first. */
  async function found(accountId: string, search: Search, limit: number): Promise<readonly TextRow[]> {
    if (search.words.count === 0) return [];
    let before = search.after ?? Number.MAX_SAFE_INTEGER;
    if (search.words.areSettledByTerms) return await withTerms<TextRow>(accountId, search, before, limit);
    const texts: TextRow[] = [];
    for (;;) {
      const next = await withTerms<TextWithSource>(accountId, search, before, textsAtOnce, true);
      let left = 0;
      for (const row of next) {
        if (left <= 0) {
          await scheduler.step(accountId);
          left = textPerStep;
        }
        const text = row.content ?? conversationText({ subject: row.subject, visitor: fromJson(row.visitor) });
        left -= text.length;
        if (search.words.isIn(text)) texts.push(row);
        if (texts.length === limit) return texts;
      }
      if (next.length < textsAtOnce) return texts;
      before = next.at(-1)?.number ?? before;
    }
  }

  return {
    isBehind: () => false, // words are indexed in the transactions that write them
    page: async (accountId, { limit, ...search }) => {
      const texts = await found(accountId, search, limit + 1);
      const items: FoundText[] = texts.map(({ number, conversationId, sequence }) => ({
        conversationId,
        sequence,
        place: number,
      }));
      return { items: items.slice(0, limit), hasMore: items.length > limit };
    },
    count: async (accountId, search, limit) => (await found(accountId, search, limit)).length,
  };
}

export function searchWrites(): SearchWrites {
  return { indexNew: () => true, indexOld: () => true };
}
