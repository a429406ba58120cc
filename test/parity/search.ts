import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, change, create, listArguments, type Statuses, statusArgument, visitorSays } from './case.ts';

async function searchedConversations(client: TestAccount): Promise<void> {
  const { id } = await create(client, {
    subject: 'Parcel 1042',
    visitor: { name: 'Ada Lovelace', email: 'ada@example.com' },
    assignee: { id: 'agent-3' },
    tags: ['delivery', 'urgent'],
    message: visitorSays('Where is my parcel?'),
  });
  await client.rest('POST', `/conversations/${id}/messages`, {
    body: { content: 'Your parcel is here: «Café Zoë».', sender: 'agent', author: { name: 'Grace' } },
  });
  const other = await create(client, { tags: ['delivery'], message: visitorSays('The parcel is lost.') });
  await change(client, other.id, { status: 'closed' });
}

/** A search among a few conversations, of which one is closed. */
function searching(name: string, query: Record<string, unknown>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  // In GraphQL only enumerations are without quotes.
  const spelt = Object.entries(query).map(([key, value]) =>
    key === 'status' ? statusArgument(value as Statuses) : `${listArguments[key] ?? key}: ${JSON.stringify(value)}`,
  );
  return {
    name: `searching ${name}`,
    given: searchedConversations,
    isReading: true,
    rest: () => ['GET', `/search?${new URLSearchParams(query as Record<string, string>)}`],
    graphql: () => [
      `{ result: search(${spelt.join(', ')}) {
          data: nodes {
            conversation { ${select.plainConversation} } message { ${select.message} } excerpt { text match }
          }
          totalCount pageInfo { hasNextPage } } }`,
    ],
    ...rest,
  };
}

const excerpts = ({ data }: Json): string[] =>
  data.map(({ excerpt }: Json) => excerpt.map(({ text, match }: Json) => (match ? `[${text}]` : text)).join(''));

const refused = { expected: 'VALIDATION_FAILED' };

export const searchCases: readonly Case[] = [
  searching(
    'for a word: newest first, with excerpts',
    { q: 'PARC' },
    {
      expected: 200,
      check: (found) => {
        expect(excerpts(found)).toEqual([
          'The [parcel] is lost.',
          'Your [parcel] is here: «Café Zoë».',
          'Where is my [parcel]?',
          '[Parcel] 1042\nAda Lovelace\nada@example.com',
        ]);
        expect(found.data.map(({ message }: Json) => message?.sequence ?? null)).toEqual([1, 2, 1, null]);
        expect(found).toMatchObject({ total: 4, hasMore: false });
      },
    },
  ),
  searching(
    'for several words, without regard to accents',
    { q: 'parcel zoe' },
    { expected: 200, check: (found) => expect(excerpts(found)).toEqual(['Your [parcel] is here: «Café [Zoë]».']) },
  ),
  searching(
    'for a visitor’s email address',
    { q: 'ada@example.com' },
    { expected: 200, check: ({ data }) => expect(data).toMatchObject([{ message: null }]) },
  ),
  searching(
    'with a status',
    { q: 'parcel', status: 'closed' },
    { expected: 200, check: (found) => expect(excerpts(found)).toEqual(['The [parcel] is lost.']) },
  ),
  searching(
    'with several statuses',
    { q: 'lost', status: ['closed', 'pending'] },
    { expected: 200, check: (found) => expect(excerpts(found)).toEqual(['The parcel is [lost].']) },
  ),
  searching(
    'of an agent',
    { q: 'par', assigneeId: 'agent-3', limit: 1 },
    { expected: 200, check: ({ data, total }) => expect([data[0].message.sequence, total]).toEqual([2, 3]) },
  ),
  searching(
    'of another agent',
    { q: 'parcel', assigneeId: 'agent' },
    { expected: 200, check: ({ total }) => expect(total).toBe(0) },
  ),
  searching(
    'with a tag',
    { q: 'parcel', tags: ['delivery'] },
    { expected: 200, check: ({ total }) => expect(total).toBe(4) },
  ),
  searching(
    'with several tags',
    { q: 'parcel', tags: ['urgent', 'delivery'], status: ['active', 'pending'] },
    { expected: 200, check: ({ total }) => expect(total).toBe(3) },
  ),
  searching(
    'with a tag that is none is refused',
    { q: 'parcel', tags: ['a', 'b '] },
    { ...refused, pointers: ['/tags/1'] },
  ),
  searching(
    'of a time before all',
    { q: 'parcel', createdBefore: '2020-01-01T00:00:00Z' },
    { expected: 200, check: (found) => expect(found).toEqual({ data: [], total: 0, hasMore: false }) },
  ),
  searching(
    'of a time after all',
    { q: 'parcel', createdAfter: '2120-01-01T00:00:00Z' },
    { expected: 200, check: ({ total }) => expect(total).toBe(0) },
  ),
  searching(
    'a page',
    { q: 'parcel', limit: 3 },
    { expected: 200, check: ({ data, hasMore, total }) => expect([data.length, hasMore, total]).toEqual([3, true, 4]) },
  ),
  searching(
    'for what has no words finds nothing',
    { q: '"*" -(~)' },
    { expected: 200, check: ({ data }) => expect(data).toEqual([]) },
  ),
  searching('for nothing is refused', { q: '' }, { ...refused, pointers: ['/q'] }),
  searching('for white space is refused', { q: ' \t' }, { ...refused, pointers: ['/q'] }),
  searching('for a NUL is refused', { q: 'par\0cel' }, { ...refused, pointers: ['/q'] }),
  searching('for 257 characters is refused', { q: 'x'.repeat(257) }, { ...refused, pointers: ['/q'] }),
  searching('for 256 characters, of which each is two code units', { q: '𐐷'.repeat(256) }, { expected: 200 }),
  searching('for ten words', { q: 'a b c d e f g h i j' }, { expected: 200 }),
  searching('for eleven words is refused', { q: 'a b c d e f g h i j k' }, { ...refused, pointers: ['/q'] }),
  searching(
    'with several faults tells all of them',
    { q: '', limit: 101, after: 'nonsense' },
    { ...refused, pointers: ['/after', '/limit', '/q'] },
  ),
];
