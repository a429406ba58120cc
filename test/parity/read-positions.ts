import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, create, unknownConversation, visitorSays } from './case.ts';

/** A conversation with three messages of its visitor. */
async function three(client: TestAccount): Promise<Json> {
  const made = await create(client, { message: visitorSays('One') });
  for (const content of ['Two', 'Three']) {
    await client.rest('POST', `/conversations/${made.id}/messages`, { body: visitorSays(content) });
  }
  return made;
}

async function twoRead(client: TestAccount): Promise<Json> {
  const made = await three(client);
  await client.rest('PUT', `/conversations/${made.id}/read-positions/agent-3`, { body: { sequence: 2 } });
  return made;
}

type Outcome = Pick<Case, 'expected' | 'pointers' | 'events' | 'check'>;

/** @param input what both faces are given; REST has the reader in its path */
function marking(name: string, given: NonNullable<Case['given']>, input: Json, outcome: Outcome): Case {
  const { reader, ...body } = input;
  return {
    name: `marking ${name}`,
    given,
    rest: ({ id }) => ['PUT', `/conversations/${id}/read-positions/${encodeURIComponent(reader)}`, body],
    graphql: ({ id }) => [
      `mutation ($input: MarkReadInput!) { result: markRead(input: $input) { readPosition { ${select.readPosition} } } }`,
      { input: { conversationId: id, ...input } },
    ],
    ...outcome,
  };
}

async function assignedConversations(client: TestAccount): Promise<void> {
  const message = visitorSays('Hello');
  for (const subject of ['one', 'two']) await create(client, { subject, assignee: { id: 'agent-3' }, message });
  const { id } = await create(client, { subject: 'read', assignee: { id: 'agent-3' }, message });
  await client.rest('PUT', `/conversations/${id}/read-positions/agent-3`, { body: { sequence: 1 } });
  await create(client, { subject: 'empty', assignee: { id: 'agent-3' } });
  await create(client, { subject: 'of nobody', message });
}

/** Lists the subjects of conversations that a reader has not read, of three: one unread, one read and one without it. */
function listing(query: Record<string, string>, outcome: Outcome): Case {
  const sort = query['sort'] === undefined ? '' : ', sort: LAST_ACTIVITY_AT_ASC';
  return {
    name: `listing by ${JSON.stringify(query)}`,
    given: assignedConversations,
    isReading: true,
    rest: () => ['GET', `/conversations?${new URLSearchParams(query)}`],
    graphql: () => [
      `query ($unreadBy: String) { result: conversations(unreadBy: $unreadBy${sort}) { data: nodes { ${select.conversation} }
        totalCount pageInfo { hasNextPage endCursor } } }`,
      { unreadBy: query['unreadBy'] },
    ],
    ...outcome,
  };
}

const found = (...subjects: string[]): Outcome => ({
  expected: 200,
  check: ({ data, total }) => {
    expect(data.map(({ subject }: Json) => subject)).toEqual(subjects);
    expect(total).toBe(subjects.length);
  },
});

const moved = (reader: string, sequence: number): Outcome => ({
  expected: 200,
  events: ['conversation.read'],
  check: (position) => expect(position).toMatchObject({ reader, sequence }),
});

const refused = (pointer: string): Outcome => ({ expected: 'VALIDATION_FAILED', pointers: [pointer] });

export const readPositionsCases: readonly Case[] = [
  marking('a part as read', three, { reader: 'agent-3', sequence: 2 }, moved('agent-3', 2)),
  marking('all as read', twoRead, { reader: 'agent-3', sequence: 3 }, moved('agent-3', 3)),
  marking('nothing as read', three, { reader: 'agent-3', sequence: 0 }, moved('agent-3', 0)),
  marking('an empty one', create, { reader: 'visitor', sequence: 0 }, moved('visitor', 0)),
  marking(
    'backwards leaves it where it is',
    twoRead,
    { reader: 'agent-3', sequence: 1 },
    { expected: 200, check: ({ sequence }) => expect(sequence).toBe(2) },
  ),
  marking(
    'what its reader has sent',
    three,
    { reader: 'visitor', sequence: 3 },
    { expected: 200, check: ({ sequence }) => expect(sequence).toBe(3) },
  ),
  marking('more than there is', three, { reader: 'agent-3', sequence: 4 }, refused('/sequence')),
  marking('a negative number', three, { reader: 'agent-3', sequence: -1 }, refused('/sequence')),
  ...['Az09_.:@+-', '...', 'x'.repeat(128)].map((reader) =>
    marking(`as ${reader}`, three, { reader, sequence: 1 }, moved(reader, 1)),
  ),
  ...['a b', 'é', 'a/b', '“', 'x'.repeat(129)].map((reader) =>
    marking(`as ${reader} is refused`, three, { reader, sequence: 1 }, refused('/reader')),
  ),
  marking('in a way that is not known', three, { reader: 'x', sequence: 1, force: true }, refused('/force')),
  listing({ unreadBy: 'agent-3' }, found('two', 'one')),
  listing({ unreadBy: 'agent-3', sort: 'lastActivityAt' }, found('one', 'two')),
  listing({ unreadBy: 'visitor' }, found()),
  listing({ unreadBy: 'nobody' }, found()),
  listing({ unreadBy: 'no body' }, refused('/unreadBy')),
  marking(
    'an unknown one',
    async () => ({ id: unknownConversation }),
    { reader: 'agent-3', sequence: 1 },
    { expected: 'NOT_FOUND' },
  ),
];
