import type { FoundText, SearchFilter, SearchQuery } from '../../domain/search.ts';
import type { SearchReads } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { type TextSource, textOf } from '../rows/texts.ts';
import { hasTags, testedPerStep, valuesOfTags } from './conversation-lists.ts';
import { numbersOf, partitionOf, partitionPrefix, rowidOf, sourceColumns, sourceTables } from './search-index.ts';
import { jsonList, type Statements } from './statements.ts';

// Search goes through an account's texts from the newest to the oldest: first those that wait for being indexed, which
// are looked at one by one, then partition by partition of the index. Each step is bounded by the size of a partition,
// or by a number and the length of texts, and is a turn of its own: whatever is searched for holds up nobody.

/** How many texts are read and looked at in one step, where the index alone does not settle it. */
const textsPerStep = 32;
/** How long they may be together, in UTF-16 code units, unless it is one: cutting it into words takes milliseconds. */
const lengthPerStep = 16_384;
/** Up to so many words that begin with what was asked for are looked up one by one; of more, FTS5 makes one list. */
const maxCompletions = 8;
/**
 * How often they may be in the texts of a partition for that, each counted once a text: going through so many takes a few
 * milliseconds. If there are more, many of the texts have some, so that looking at the texts soon finds one that does.
 */
const maxEntries = 10_000;
/** Between these, after a text, is all that begins with it and is longer. */
const lowest = '\u{1}';
const highest = '\u{10ffff}';

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

type TextWithSource = FoundText & TextSource;

/** What texts of a partition must have, all of its texts if nothing, and whether they have to be looked at. */
interface Lookup {
  readonly parts: readonly string[];
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
  const completions = db.prepare<{ term: string; texts: number }>(
    'SELECT term, doc AS texts FROM search_vocabulary WHERE term >= :from AND term < :to',
  );
  const numbersBy = (order: string) =>
    db.prepare<{ number: number }>(
      `SELECT rowid & 4294967295 AS number FROM search_words
        WHERE search_words MATCH :match AND rowid < :before ORDER BY ${order} DESC LIMIT :limit`,
    );
  const numbersOfOne = numbersBy('rowid');
  // FTS5 compares lists from their ends at half the speed of from their beginnings. What they share is then sorted.
  const numbersOfAll = numbersBy('+rowid');
  const numbersFrom = db.prepare<{ number: number }>(
    `SELECT number FROM search_texts
      WHERE account_key = :accountKey AND number >= :from AND number < :before ORDER BY number DESC LIMIT :limit`,
  );

  /** Texts by their numbers, in the same order, as far as they pass the filter. */
  function textsOf<Row>(columns: string, values: Ids & { numbers: readonly number[] }, { filter }: Search): Row[] {
    const statement = db.prepareOnce<Row>(
      `SELECT search_texts.number AS place, conversations.id AS conversationId, search_texts.sequence${columns}
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
  async function* textsWith(
    ids: Ids,
    numbers: readonly number[],
    search: Search,
  ): AsyncGenerator<readonly FoundText[]> {
    let found: FoundText[] = [];
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

  function numbersWith(parts: readonly string[], before: bigint, limit: number): number[] {
    const statement = parts.length === 1 ? numbersOfOne : numbersOfAll;
    return statement.all({ match: parts.join(' AND '), before, limit }).map(({ number }) => number);
  }

  /** The words in the index that are longer than a word and begin with it; undefined if there is too much of them. */
  function completionsOf(word: string, share: number): readonly string[] | undefined {
    const found: string[] = [];
    let entries = 0;
    for (const { term, texts } of completions.each({ from: word + lowest, to: word + highest })) {
      found.push(term);
      entries += texts;
      if (entries > maxEntries * share) return undefined;
    }
    return found;
  }

  /** Prepares the look-up of words in a partition. */
  function lookupIn(prefix: string, before: bigint, { words }: Search): Lookup {
    const parts = words.terms.filter(({ isPrefix }) => !isPrefix).map(({ text }) => quoted(prefix + text));
    const lists: string[] = [];
    const beginnings = words.terms.filter(({ isPrefix }) => isPrefix);
    let isSettled = words.areSettledByTerms;
    for (const word of beginnings.map(({ text }) => prefix + text)) {
      const longer = completionsOf(word, 1 / beginnings.length);
      if (longer === undefined) isSettled = false;
      else if (longer.length > maxCompletions) lists.push(`${quoted(word)} *`);
      else parts.push(`(${[word, ...longer].map(quoted).join(' OR ')})`);
    }
    // Where few texts have the other words, looking at them takes less than making lists of all completions.
    const isFew =
      lists.length > 0 && parts.length > 0 && numbersWith(parts, before, textsPerStep + 1).length <= textsPerStep;
    return isFew ? { parts, isSettled: false } : { parts: [...parts, ...lists], isSettled };
  }

  /**
   * All texts that are found, the newest first, in parts of one step each.
   * @param atFirst how many texts to look up in the first step, where the index settles which, at most
   */
  async function* textsFound(accountId: string, search: Search, atFirst: number): AsyncGenerator<readonly FoundText[]> {
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
  ): AsyncGenerator<readonly FoundText[]> {
    const prefix = partitionPrefix(ids.accountKey, partition);
    const { from, to } = numbersOf(partition);
    await scheduler.step(ids.accountId);
    const { parts, isSettled } = lookupIn(prefix, rowidOf(ids.accountKey, first), search);
    const perStep = testedPerStep(search.filter);
    let limit = isSettled ? Math.min(atFirst, perStep) : perStep;
    for (let before = Math.min(first, to); ; await scheduler.step(ids.accountId)) {
      const numbers =
        parts.length === 0
          ? numbersFrom.all({ ...ids, from, before, limit }).map(({ number }) => number)
          : numbersWith(parts, rowidOf(ids.accountKey, before), limit);
      if (isSettled && numbers.length > 0) yield textsOf<FoundText>('', { ...ids, numbers }, search);
      for (let at = 0; at < numbers.length && !isSettled; at += textsPerStep) {
        if (at > 0) await scheduler.step(ids.accountId);
        yield* textsWith(ids, numbers.slice(at, at + textsPerStep), search);
      }
      if (numbers.length < limit) return;
      before = numbers.at(-1) ?? before;
      limit = perStep;
    }
  }

  const isBehind = db.prepare<{ isBehind: 0 | 1 }>(
    'SELECT EXISTS (SELECT 1 FROM search_texts INDEXED BY search_texts_waiting WHERE indexed_terms IS NULL) AS isBehind',
  );
  return {
    isBehind: () => isBehind.get()?.isBehind === 1,
    page: async (accountId, { limit, ...search }) => {
      const items: FoundText[] = [];
      for await (const texts of textsFound(accountId, search, limit + 1)) {
        items.push(...texts);
        if (items.length > limit) break;
      }
      return { items: items.slice(0, limit), hasMore: items.length > limit };
    },
    count: async (accountId, search, limit) => {
      let count = 0;
      for await (const texts of textsFound(accountId, search, limit)) {
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
function quoted(term: string): string {
  return `"${term}"`;
}
