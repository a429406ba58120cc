import { expect } from 'vitest';
import { eventTypes } from '../../src/domain/event-types.ts';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, capture, change, create, unknownConversation, visitorSays } from './case.ts';

/** One event of each kind at least, and three conversations, of which one has been deleted. */
async function loggedEvents(client: TestAccount): Promise<Json> {
  const { id } = await create(client, { metadata: { vip: true }, message: visitorSays('Hello') });
  await create(client, { message: { content: 'Hi', sender: 'agent' } });
  await capture(client, { conversationId: id, email: 'ada@example.com' });
  await change(client, id, { status: 'closed' });
  await change(client, id, { status: 'active' });
  await change(client, id, { subject: 'Parcel', assignee: { id: 'a' }, tags: ['b'], metadata: { vip: null, age: 4 } });
  await client.rest('PUT', `/conversations/${id}/read-positions/a`, { body: { sequence: 1 } });
  await client.graphql('mutation ($input: MarkReadInput!) { markRead(input: $input) { eventCursor } }', {
    input: { conversationId: id, reader: 'agent-3', sequence: 1 },
  });
  const { id: deleted } = await create(client);
  await client.rest('DELETE', `/conversations/${deleted}`);
  const { data } = await client.graphql('{ eventCursor }');
  return { id, deleted, end: data.eventCursor };
}

interface EventsQuery {
  readonly limit?: number;
  readonly after?: string;
  readonly types?: string[];
  readonly conversationId?: string;
}

function listingEvents(
  name: string,
  query: (made: Json) => EventsQuery,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  return {
    name: `listing events ${name}`,
    given: loggedEvents,
    isReading: true,
    rest: (made) => ['GET', `/events?${new URLSearchParams(query(made) as Record<string, string>)}`],
    graphql: (made) => {
      const { limit: first, types, ...others } = query(made);
      return [
        `query ($first: Int, $after: String, $types: [EventType!], $conversationId: ID) {
          result: events(first: $first, after: $after, types: $types, conversationId: $conversationId) {
            data: nodes { ${select.event} } pageInfo { hasNextPage endCursor } } }`,
        { ...others, first, types: types?.map((type) => type.toUpperCase().replace('.', '_')) },
      ];
    },
    ...rest,
  };
}

/** The place in the same log that lies so many events further on. */
function furtherOn(cursor: string, count: number): string {
  const [epoch, sequence] = Buffer.from(cursor, 'base64url').toString().split('.');
  return Buffer.from(`${epoch}.${Number(sequence) + count}`).toString('base64url');
}

const sequencesOf = ({ data }: Json): number[] => data.map(({ sequence }: Json) => sequence);

export const eventsCases: readonly Case[] = [
  listingEvents('from the oldest on', () => ({}), {
    expected: 200,
    check: (page) => {
      expect(sequencesOf(page)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
      expect(new Set(page.data.map(({ type }: Json) => type))).toEqual(new Set(eventTypes));
      expect(page.data.map(({ data }: Json) => Object.keys(data).sort())).toEqual([
        ['conversation'],
        ['conversation', 'message'],
        ['conversation'],
        ['conversation', 'message'],
        ['conversation', 'lead'],
        ['conversation'],
        ['conversation'],
        ['changes', 'conversation'],
        ['conversationId', 'readPosition'],
        ['conversationId', 'readPosition'],
        ['erased'],
        ['conversationId'],
      ]);
    },
  }),
  listingEvents('a page', () => ({ limit: 2 }), {
    expected: 200,
    check: (page) => expect([sequencesOf(page), page.hasMore]).toEqual([[1, 2], true]),
  }),
  listingEvents('at the end of the log', ({ end }) => ({ after: end }), {
    expected: 200,
    check: ({ data, hasMore }) => expect([data, hasMore]).toEqual([[], false]),
  }),
  listingEvents('of some types', () => ({ types: ['lead.captured', 'message.received'] }), {
    expected: 200,
    check: (page) => expect(sequencesOf(page)).toEqual([2, 5]),
  }),
  listingEvents('of what was read', () => ({ types: ['conversation.read'] }), {
    expected: 200,
    check: ({ data }) => {
      const moves = data.map(({ data: { readPosition } }: Json) => [readPosition.reader, readPosition.sequence]);
      expect(moves).toEqual([
        ['a', 1],
        ['agent-3', 1],
      ]);
    },
  }),
  listingEvents('of one conversation', ({ id }) => ({ conversationId: id }), {
    expected: 200,
    check: (page) => expect(sequencesOf(page)).toEqual([1, 2, 5, 6, 7, 8, 9, 10]),
  }),
  listingEvents('of one that was deleted', ({ deleted }) => ({ conversationId: deleted }), {
    expected: 200,
    check: (page) => expect(sequencesOf(page)).toEqual([11, 12]),
  }),
  listingEvents('that were added to those of the beginning', () => ({ types: eventTypes.slice(4) }), {
    expected: 200,
    check: (page) => expect(sequencesOf(page)).toEqual([4, 7, 8, 9, 10, 12]),
  }),
  listingEvents('of a conversation that is unknown', () => ({ conversationId: unknownConversation }), {
    expected: 200,
    check: ({ data, hasMore }) => expect([data, hasMore]).toEqual([[], false]),
  }),
  listingEvents('no page at all is refused', () => ({ limit: 0 }), {
    expected: 'VALIDATION_FAILED',
    pointers: ['/limit'],
  }),
  listingEvents('from a cursor that is none is refused', () => ({ after: 'nonsense' }), {
    expected: 'VALIDATION_FAILED',
    pointers: ['/after'],
  }),
  listingEvents(
    'from what is no cursor, beside other faults, tells all of them',
    () => ({ after: 'nonsense', limit: 0 }),
    { expected: 'VALIDATION_FAILED', pointers: ['/after', '/limit'] },
  ),
  listingEvents('from beyond the end of the log is refused', ({ end }) => ({ after: furtherOn(end, 1) }), {
    expected: 'CURSOR_EXPIRED',
  }),
];
