import type { FoundText, SearchFilter, SearchQuery } from '../../domain/search.ts';
import type { SearchTerm } from '../../domain/search-words.ts';
import type { SearchReads } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { hasTags, valuesOfTags } from './conversation-lists.ts';
import { partitionOf, partitionPrefix, rowidOf, sourceColumns, sourceTables, textOf } from './search-index.ts';
import { jsonList, type Statements } from './statements.ts';

// Search goes through an account's texts from the newest to the oldest: first those that wait for being indexed, which
// are looked at one by one, then partition by partition of the index. Each step is bounded by the size of a partition,
// or by a number and the length of texts, and is a turn of its own: whatever is searched for holds up nobody.

/** How many of the numbers that the index gives are looked up in one step. */
const numbersPerStep = 500;
/** How many texts are read and looked at in one step, where the index alone does not settle it. */
const textsPerStep = 32;
/** How long they may be together, in UTF-16 code units, unless it is one: cutting it into words takes milliseconds. */
const lengthPerStep = 16_384;
/** Up to so many words that begin with what was asked for are looked up one by one; of more, FTS5 makes one list. */
const maxCompletions = 8;
/** An upper bound of all that begins with a text. */
const lastCharacter = '\u{10ffff}';

/** Conditions on a text and its conversation, by the filter that they stand for. */
const conditions: Readonly<Record<keyof SearchFilter, string>> = {
  statuses: 'conversations.status IN (SELECT value FROM json_each(:statuses))',
  assigneeId: 'conversations.assignee_id = :assigneeId',
  tags: hasTags,
  createdAfter: 'search_texts.created_at > :createdAfter',
  createdBefore: 'search_texts.created_at < :createdBefore',
};

function conditionsOf(filter: SearchFilter): string {
  const asked = Object.entries(filter).filter(([, value]) => value !== undefined);
  return asked.map(([name]) => ` AND ${conditions[name as keyof SearchFilter]}`).join('');
}

interface TextRow {
  readonly number: number;
  readonly conversationId: string;
  readonly sequence: number;
}

type TextWithSource = TextRow & Parameters<typeof textOf>[0];

/** What to look up in a partition, and whether the texts that it gives have to be looked at. */
interface Lookup {
  readonly match: string;
  readonly isSettled: boolean;
}

type Search = Pick<SearchQuery, 'words' | 'filter' | 'after'>;

export function searchReads(db: Statements): SearchReads {
  const accountKeyOf = db.prepare<{ key: number }>('SELECT key FROM search_accounts WHERE account_id = :accountId');
  const partitions = db.prepare<{ partition: number }>(
    `SELECT partition FROM search_partitions
      WHERE account_key = :accountKey AND partition <= :partition
        AND created_to > :createdAfter AND created_from < :createdBefore
      ORDER BY partition DESC`,
  );
  const completions = db.prepare<{ term: string }>(
    'SELECT term FROM search_vocabulary WHERE term >= :from AND term < :to LIMIT :limit',
  );
  const numbersWith = db.prepare<{ number: number }>(
    `SELECT rowid & 4294967295 AS number FROM search_words
      WHERE search_words MATCH :match AND rowid < :before ORDER BY rowid DESC LIMIT :limit`,
  );

  /** Texts by their numbers, in the same order, as far as they pass the filter. */
  function textsOf<Row>(columns: string, values: Ids & { numbers: readonly number[] }, { filter }: Search): Row[] {
    const statement = db.prepareOnce<Row>(
      `SELECT search_texts.number, conversations.id AS conversationId, search_texts.sequence${columns}
        FROM json_each(:numbers) AS wanted CROSS JOIN search_texts ${sourceTables}
        WHERE search_texts.account_key = :accountKey AND search_texts.number = wanted.value
          AND conversations.account_id = :accountId${conditionsOf(filter)}`,
    );
    return statement.all({
      ...values,
      ...filter,
      statuses: jsonList(filter.statuses ?? []),
      ...valuesOfTags(filter.tags),
      numbers: jsonList(values.numbers),
    });
  }

  /** The same, as far as the words are in them, in parts: after the first, each is a step of its own. */
  async function* textsWith(ids: Ids, numbers: readonly number[], search: Search): AsyncGenerator<readonly TextRow[]> {
    let found: TextRow[] = [];
    let length = 0;
    for (const row of textsOf<TextWithSource>(`, ${sourceColumns}`, { ...ids, numbers }, search)) {
      const text = textOf(row);
      if (length > 0 && length + text.length > lengthPerStep) {
        yield found;
        await scheduler.step(ids.accountId);
        [found, length] = [[], 0];
      }
      length += text.length;
      if (search.words.isIn(text)) found.push(row);
    }
    yield found;
  }

  /** The numbers of texts that wait, the newest first. */
  const waiting = db.prepare<{ number: number }>(
    `SELECT number FROM search_texts INDEXED BY search_texts_waiting
      WHERE account_key = :accountKey AND number < :before AND indexed_terms IS NULL ORDER BY number DESC LIMIT :limit`,
  );

  /** Prepares the look-up of words in a partition; undefined if it cannot have them all. */
  function lookupIn(prefix: string, before: bigint, { words }: Search): Lookup | undefined {
    const isSettled = words.areSettledByTerms;
    const parts = words.terms.filter(({ isPrefix }) => !isPrefix).map((term) => quoted(prefix, term));
    const lists: string[] = [];
    for (const term of words.terms.filter(({ isPrefix }) => isPrefix)) {
      const from = prefix + term.text;
      const found = completions.all({ from, to: from + lastCharacter, limit: maxCompletions + 1 });
      if (found.length === 0) return undefined;
      if (found.length > maxCompletions) lists.push(`${quoted(prefix, term)} *`);
      else parts.push(`(${found.map((completion) => `"${completion.term}"`).join(' OR ')})`);
    }
    const match = [...parts, ...lists].join(' AND ');
    if (lists.length === 0 || parts.length === 0) return { match, isSettled };
    // Where few texts have the other words, looking at them takes less than making lists of all completions.
    const others = parts.join(' AND ');
    const few = numbersWith.all({ match: others, before, limit: textsPerStep + 1 });
    return few.length > textsPerStep ? { match, isSettled } : { match: others, isSettled: false };
  }

  /**
   * All texts that are found, the newest first, in parts of one step each.
   * @param atFirst how many numbers to look up in the first step
   */
  async function* textsFound(
    accountId: string,
    search: Search,
    atFirst = numbersPerStep,
  ): AsyncGenerator<readonly TextRow[]> {
    const { key: accountKey } = accountKeyOf.get({ accountId }) ?? {};
    if (accountKey === undefined || search.words.count === 0) return;
    const ids = { accountId, accountKey };
    let before = search.after ?? 2 ** 32;
    for (;;) {
      await scheduler.step(accountId);
      const next = waiting.all({ accountKey, before, limit: textsPerStep }).map(({ number }) => number);
      if (next.length > 0) yield* textsWith(ids, next, search);
      // What is indexed meanwhile is not found again: all that is indexed is older than all that waits.
      before = next.at(-1) ?? before;
      if (next.length < textsPerStep) break;
    }
    const { createdAfter = -1, createdBefore = Number.MAX_SAFE_INTEGER } = search.filter;
    const within = { accountKey, partition: partitionOf(before), createdAfter, createdBefore };
    for (const { partition } of partitions.all(within)) {
      yield* textsFoundIn(partition, before, ids, search, atFirst);
    }
  }

  async function* textsFoundIn(
    partition: number,
    first: number,
    ids: Ids,
    search: Search,
    atFirst: number,
  ): AsyncGenerator<readonly TextRow[]> {
    const prefix = partitionPrefix(ids.accountKey, partition);
    await scheduler.step(ids.accountId);
    const lookup = lookupIn(prefix, rowidOf(ids.accountKey, first), search);
    if (lookup === undefined) return;
    let limit = lookup.isSettled ? atFirst : textsPerStep;
    for (let before = first; ; await scheduler.step(ids.accountId)) {
      const rows = numbersWith.all({ match: lookup.match, before: rowidOf(ids.accountKey, before), limit });
      const numbers = rows.map(({ number }) => number);
      if (numbers.length > 0 && lookup.isSettled) yield textsOf<TextRow>('', { ...ids, numbers }, search);
      else if (numbers.length > 0) yield* textsWith(ids, numbers, search);
      if (numbers.length < limit) return;
      before = numbers.at(-1) ?? before;
      limit = lookup.isSettled ? numbersPerStep : textsPerStep;
    }
  }

  const isBehind = db.prepare<{ isBehind: 0 | 1 }>(
    `SELECT EXISTS (SELECT 1 FROM search_texts INDEXED BY search_texts_waiting WHERE indexed_terms IS NULL)
      OR EXISTS (SELECT 1 FROM meta WHERE name = :backlog) AS isBehind`,
  );
  return {
    isBehind: () => isBehind.get({ backlog: 'search_backlog' })?.isBehind === 1,
    page: async (accountId, { limit, ...search }) => {
      const items: FoundText[] = [];
      for await (const texts of textsFound(accountId, search, limit + 1)) {
        items.push(...texts.map(({ number, ...text }) => ({ ...text, place: number })));
        if (items.length > limit) break;
      }
      return { items: items.slice(0, limit), hasMore: items.length > limit };
    },
    count: async (accountId, search, limit) => {
      let count = 0;
      for await (const texts of textsFound(accountId, search)) {
        count += texts.length;
        if (count >= limit) return limit;
      }
      return count;
    },
  };
}

interface Ids {
  readonly accountId: string;
  readonly accountKey: number;
}

/** Terms are letters, digits and marks only, so that nothing in them ends the quotation. */
function quoted(prefix: string, { text }: SearchTerm): string {
  return `"${prefix}${text}"`;
}
