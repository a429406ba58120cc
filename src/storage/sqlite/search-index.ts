import { termsOf } from '../../domain/search-words.ts';
import type { SearchWrites } from '../../domain/storage-port.ts';
import { TimeBudget } from '../../domain/time-budget.ts';
import { type TextSource, textOf } from '../rows/texts.ts';
import type { Connection } from './open.ts';
import type { Statements } from './statements.ts';
import type { searchTexts } from './tables.ts';

// The index of the words of all texts: an FTS5 table that has the words, and not the texts. A transaction that writes a
// text only adds a row to `search_texts`, where it waits; it is found by looking at it. Many that wait are indexed
// together soon after: one by one, each would make a segment of its own, and merging these took ten times as long.
//
// Each word in the index has before it the key of the account and of the partition, so many texts that follow each
// other. So whatever is asked of the index takes no longer than one partition does.

/** How many texts there are to a partition. */
const partitionSize = 8_192;
/** The texts of an account are numbered from here on upwards. */
const firstNumber = 2 ** 31;
/** Numbers of an account are below this. A rowid of the index is the account's key times this, plus the number. */
const numbers = 2n ** 32n;

/** How many texts are indexed by one transaction, at most, and how many terms: that takes a few milliseconds. */
const textsAtOnce = 128;
const termsAtOnce = 3_000;
/** How many terms of a text are removed at once: finding and overwriting each takes 30 µs. */
const removedAtOnce = 64;
/** How many pages of the index are merged by one transaction, at most: segments, once there are eight of a size. */
const mergedPages = 32n;

/** A rowid must be bound as an integer: FTS5 takes a number for a REAL, and then finds others. */
export function rowidOf(accountKey: number, number: number): bigint {
  return BigInt(accountKey) * numbers + BigInt(number);
}

export function partitionOf(number: number): number {
  return Math.floor(number / partitionSize);
}

/** The numbers of a partition's texts, `to` excluded. */
export function numbersOf(partition: number): { readonly from: number; readonly to: number } {
  return { from: partition * partitionSize, to: (partition + 1) * partitionSize };
}

/** What the words of a partition begin with; always as long, so that none is the beginning of another. */
export function partitionPrefix(accountKey: number, partition: number): string {
  return accountKey.toString(36).padStart(6, '0') + partition.toString(36).padStart(4, '0');
}

/** Makes all pages of the index anew, at once: words that were removed can remain as keys of its pages. */
export function renewIndex(connection: Connection): void {
  const renew = connection.transaction(() => {
    // FTS5 would leave a segment as it is that is the only one, or is being merged from all others.
    connection.exec(`INSERT INTO search_words (rowid, words) VALUES (0, 'another')`);
    connection.exec(`INSERT INTO search_words (search_words) VALUES ('optimize')`);
    connection.exec(`INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', 0, 'another')`);
  });
  renew.immediate();
}

/** How many pages of the database the index has, about: a block of it takes a page at most. */
export function pagesOfIndex(connection: Connection): number {
  return connection.prepare<[], number>('SELECT count(*) FROM search_words_data').pluck().get() ?? 0;
}

type TextRow = typeof searchTexts.$inferSelect;

/** Columns of a `TextSource`, from `search_texts` or something like it with a left join of its message. */
export const sourceColumns = 'messages.content, conversations.subject, conversations.visitor';
export const sourceTables = `CROSS JOIN conversations ON conversations.key = search_texts.conversation_key
  LEFT JOIN messages ON messages.conversation_key = search_texts.conversation_key
    AND messages.sequence = search_texts.sequence`;

/** Gives an account a key of its own, before its first text. */
export const insertSearchAccount =
  'INSERT INTO search_accounts (account_id) VALUES (:accountId) ON CONFLICT DO NOTHING';

export type TextWrites = ReturnType<typeof textWrites>;
/**
 * Notes a text in the transaction that writes it.
 * @param onWaiting called for each text that waits for being indexed
 */
export function textWrites(db: Statements, onWaiting: () => void) {
  const insert = db.prepare(
    `INSERT INTO search_texts (account_key, number, conversation_key, sequence, created_at)
      SELECT search_accounts.key, 1 + ifnull(
          (SELECT max(number) FROM search_texts WHERE account_key = search_accounts.key), :firstNumber),
        conversations.key, :sequence, :createdAt
      FROM search_accounts CROSS JOIN conversations
      WHERE search_accounts.account_id = (SELECT :accountId)
        AND conversations.account_id = (SELECT :accountId) AND conversations.id = (SELECT :conversationId)`,
  );
  const insertAccount = db.prepare(insertSearchAccount);
  return {
    /** @param sequence the message's; 0 for the conversation's own text */
    add(accountId: string, text: { conversationId: string; sequence: number; createdAt: number }): void {
      const values = { ...text, accountId, firstNumber };
      if (insert.run(values) === 0) {
        insertAccount.run({ accountId }); // its first text
        insert.run(values);
      }
      onWaiting();
    },
  };
}

/** Adds terms of texts to the index, and removes them. */
function indexWrites(db: Statements) {
  const insert = db.prepare('INSERT INTO search_words (rowid, words) VALUES (:rowid, :words)');
  const remove = db.prepare(`INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', :rowid, :words)`);
  const setIndexed = db.prepare(
    `UPDATE search_texts SET indexed_terms = :indexedTerms WHERE account_key = :accountKey AND number = :number`,
  );
  const extend = db.prepare(
    `INSERT INTO search_partitions (account_key, partition, created_from, created_to)
      VALUES (:accountKey, :partition, :from, :to)
      ON CONFLICT DO UPDATE SET created_from = min(created_from, :from), created_to = max(created_to, :to)`,
  );
  return {
    /**
     * Adds texts in the order of their rowids, which FTS5 needs for adding them together.
     * @param isFull asked after each one with its number of terms: whether the rest should be left out
     * @returns how many were added
     */
    add(texts: readonly (TextRow & TextSource)[], isFull: (terms: number) => boolean = () => false): number {
      const times = new Map<string, { accountKey: number; partition: number; from: number; to: number }>();
      let added = 0;
      for (const row of texts) {
        const { accountKey, number, createdAt } = row;
        const terms = [...termsOf(textOf(row))];
        const prefix = partitionPrefix(accountKey, partitionOf(number));
        insert.run({ rowid: rowidOf(accountKey, number), words: withPrefix(prefix, terms) });
        setIndexed.run({ accountKey, number, indexedTerms: terms.length });
        const { from, to } = times.get(prefix) ?? { from: createdAt, to: createdAt };
        const range = { from: Math.min(from, createdAt), to: Math.max(to, createdAt) };
        times.set(prefix, { accountKey, partition: partitionOf(number), ...range });
        added++;
        if (isFull(terms.length)) break;
      }
      for (const partition of times.values()) extend.run(partition);
      return added;
    },
    /** Removes some of all terms of an indexed text, the last ones first. @returns how many; 0 if it has none any more */
    removeSome(row: TextRow, all: readonly string[], limit: number): number {
      const end = row.indexedTerms ?? 0;
      const terms = all.slice(Math.max(0, end - limit), end);
      if (terms.length === 0) return 0;
      // FTS5 counts each removal as a whole row, and takes an index of less than no rows for damaged.
      insert.run({ rowid: 0n, words: '' });
      const { accountKey, number } = row;
      const words = withPrefix(partitionPrefix(accountKey, partitionOf(number)), terms);
      remove.run({ rowid: rowidOf(accountKey, number), words });
      setIndexed.run({ accountKey, number, indexedTerms: end - terms.length });
      return terms.length;
    },
  };
}

function withPrefix(prefix: string, terms: readonly string[]): string {
  return terms.map((term) => prefix + term).join(' ');
}

const textColumns = `search_texts.account_key AS accountKey, search_texts.number,
  search_texts.conversation_key AS conversationKey, search_texts.sequence, search_texts.created_at AS createdAt,
  search_texts.indexed_terms AS indexedTerms`;

/** Changes the index with the texts: when one is not the same any more, or is erased. */
export function indexUpkeep(db: Statements) {
  const index = indexWrites(db);
  const ofConversation = db.prepare<TextRow & TextSource>(
    `SELECT ${textColumns}, ${sourceColumns} FROM search_texts ${sourceTables}
      WHERE search_texts.conversation_key = :conversationKey ORDER BY search_texts.sequence LIMIT :limit`,
  );
  const own = db.prepare<TextRow>(
    `SELECT ${textColumns} FROM conversations CROSS JOIN search_texts
      WHERE conversations.account_id = :accountId AND conversations.id = :id
        AND search_texts.conversation_key = conversations.key AND search_texts.sequence = 0`,
  );
  const forget = db.prepare('DELETE FROM search_texts WHERE account_key = :accountKey AND number = :number');

  function removeAll(row: TextRow, text: string): void {
    const terms = [...termsOf(text)];
    for (let rest = row; ; ) {
      const removed = index.removeSome(rest, terms, removedAtOnce);
      if (removed === 0) return;
      rest = { ...rest, indexedTerms: (rest.indexedTerms ?? 0) - removed };
    }
  }

  /** The text of which some terms were removed last. A long one takes many transactions, and its terms milliseconds. */
  let begun: { readonly text: string; readonly terms: readonly string[] } | undefined;

  /** Removes some of what the index has of a text. @returns how many terms: fewer than allowed if it has none any more */
  function removeSome(row: TextRow, text: string): number {
    if (begun?.text !== text) begun = { text, terms: [...termsOf(text)] };
    const removed = index.removeSome(row, begun.terms, removedAtOnce);
    if (removed < removedAtOnce) begun = undefined;
    return removed;
  }

  return {
    /** The conversation's own text is another one: a short text, so that this is done at once. */
    change(accountId: string, id: string, previous: string, next: string): void {
      if (previous === next) return;
      const row = own.get({ accountId, id });
      if (row === undefined || row.indexedTerms === null) return; // it is indexed as it will then be
      removeAll(row, previous);
      index.add([{ ...row, content: next, subject: null, visitor: null }]);
    },
    /** Removes what the index has of the conversation's own text, which will then be gone. */
    removeOwn(conversationKey: number): void {
      const [row] = ofConversation.all({ conversationKey, limit: 1 });
      if (row?.sequence !== 0) return;
      if (row.indexedTerms !== null) removeAll(row, textOf(row));
      forget.run(row);
    },
    /** Removes some of what the index has of a conversation. @returns how many terms and texts: 0 when all is removed */
    removeSome(conversationKey: number): number {
      const [row] = ofConversation.all({ conversationKey, limit: 1 });
      if (row === undefined) return 0;
      const removed = row.indexedTerms === null ? 0 : removeSome(row, textOf(row));
      if (removed < removedAtOnce) forget.run(row);
      return removed + 1;
    },
  };
}

export type IndexUpkeep = ReturnType<typeof indexUpkeep>;

export function searchWrites(db: Statements): SearchWrites {
  const index = indexWrites(db);
  const waiting = db.prepare<TextRow & TextSource>(
    `SELECT ${textColumns}, ${sourceColumns} FROM search_texts INDEXED BY search_texts_waiting ${sourceTables}
      WHERE search_texts.indexed_terms IS NULL ORDER BY search_texts.account_key, search_texts.number LIMIT :limit`,
  );
  const merge = db.prepare(`INSERT INTO search_words (search_words, rank) VALUES ('merge', :mergedPages)`);

  /** How many that wait are read at once: of long texts, few are indexed by one transaction. */
  let readAtOnce = textsAtOnce;

  /** Indexes what waits, as much as one transaction should. @returns whether nothing waits any more */
  function indexWaiting(): boolean {
    const texts = waiting.all({ limit: readAtOnce });
    const budget = new TimeBudget();
    let terms = 0;
    const added = index.add(texts, (count) => {
      terms += count;
      return terms >= termsAtOnce || budget.isSpentWith(1);
    });
    const isAll = added === texts.length && texts.length < readAtOnce;
    readAtOnce = isAll ? textsAtOnce : Math.min(2 * added, textsAtOnce);
    return isAll;
  }

  return {
    index: () => {
      const isAll = indexWaiting();
      merge.run({ mergedPages });
      return isAll;
    },
  };
}
