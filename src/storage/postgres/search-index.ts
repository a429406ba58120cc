import { termsOf } from '../../domain/search-words.ts';
import { arrayOf, type Statements } from './statements.ts';

// The index of the words of all texts. Words are cut and folded by the domain, so that every storage finds the same; to
// PostgreSQL they are only names. Each has the account's key before it.

/** The terms of a text as the index has them. */
export const indexed = (
  terms: string,
  accountId: string,
): string => `array_to_tsvector(ARRAY(SELECT account.key || ':' || term
  FROM accounts AS account, unnest(${terms}::text[]) AS term WHERE account.id = ${accountId}))`;

export type TextWrites = ReturnType<typeof textWrites>;

/** Keeps the index in the transactions that write texts. */
export function textWrites(db: Statements) {
  const insert = db.prepareForRows(
    `INSERT INTO search_texts (account_id, number, conversation_id, sequence, created_at, terms)
      SELECT account_id, row_number() OVER (PARTITION BY account_id ORDER BY at)
          + coalesce((SELECT max(number) FROM search_texts WHERE account_id = given.account_id), 0),
        conversation_id, sequence, created_at, ${indexed('given.terms', 'given.account_id')} FROM :rows`,
    { texts: ['accountId', 'conversationId', 'terms'], numbers: ['sequence', 'createdAt'] },
  );
  const change = db.prepare(
    `UPDATE search_texts SET terms = ${indexed(':terms', ':accountId')}
      WHERE account_id = :accountId AND conversation_id = :conversationId AND sequence = 0`,
  );
  const termsIn = (text: string): string => arrayOf([...termsOf(text)]);
  return {
    /** @param text `sequence` is the message's; 0 for the conversation's own text */
    async add(
      accountId: string,
      {
        text,
        ...place
      }: {
        readonly conversationId: string;
        readonly sequence: number;
        readonly createdAt: number;
        readonly text: string;
      },
    ): Promise<void> {
      await insert.send({ ...place, accountId, terms: termsIn(text) });
    },
    /** A conversation's own text has become another. */
    async change(accountId: string, conversationId: string, text: string): Promise<void> {
      await change.send({ accountId, conversationId, terms: termsIn(text) });
    },
  };
}
