import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, capture, closed, create, listArguments, unknownConversation } from './case.ts';

function capturing(
  name: string,
  body: object,
  { given = async () => ({}), ...rest }: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  // What the case has made is the conversation that the lead is of.
  const input = ({ id }: Json) => (id === undefined ? body : { ...body, conversationId: id });
  return {
    name: `capturing a lead ${name}`,
    given,
    rest: (made) => ['POST', '/leads', input(made)],
    graphql: (made) => [
      `mutation ($input: CaptureLeadInput!) { result: captureLead(input: $input) { lead { ${select.lead} } } }`,
      { input: input(made) },
    ],
    ...rest,
  };
}

async function fiveLeads(client: TestAccount): Promise<Json> {
  const { id: conversationId } = await create(client);
  for (const phone of ['1', '2', '3', '4', '5']) {
    await capture(client, {
      phone,
      email: Number(phone) % 2 === 1 ? 'Ada-1@example.com' : 'ÄDA-0@Straße.de',
      ...(phone < '4' && { conversationId }),
    });
  }
  return { conversationId };
}

function listingLeads(
  name: string,
  query: Record<string, unknown>,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  // Of the conversation that the case has made, where the query does not name another.
  const of = ({ conversationId }: Json) => (query['conversationId'] === '' ? { ...query, conversationId } : query);
  const spelt = (made: Json): string => {
    const given = Object.entries(of(made)).map(
      ([key, value]) => `${listArguments[key] ?? key}: ${JSON.stringify(value)}`,
    );
    return given.length === 0 ? '' : `(${given.join(', ')})`;
  };
  return {
    name: `listing leads ${name}`,
    given: fiveLeads,
    isReading: true,
    rest: (made) => ['GET', `/leads?${new URLSearchParams(of(made) as Record<string, string>)}`],
    graphql: (made) => [
      `{ result: leads${spelt(made)} { data: nodes { ${select.lead} }
        totalCount pageInfo { hasNextPage endCursor } } }`,
    ],
    ...rest,
  };
}

export const leadsCases: readonly Case[] = [
  capturing('with a phone number', { phone: '+49 30 1234567' }, { expected: 201, events: ['lead.captured'] }),
  capturing(
    'with everything, of a conversation',
    { name: 'Ada 📦', email: 'ada@example.com', phone: '1', company: 'Engines', metadata: { vip: true, score: 4.5 } },
    {
      given: create,
      expected: 201,
      events: ['lead.captured'],
      check: ({ conversationId }) => expect(conversationId).toEqual(expect.any(String)),
    },
  ),
  capturing('of a closed conversation', { phone: '1' }, { given: closed, expected: 201, events: ['lead.captured'] }),
  capturing(
    'without a way to reach anybody is refused',
    { name: 'Ada' },
    { expected: 'VALIDATION_FAILED', pointers: ['/email'] },
  ),
  capturing(
    'with many faults tells all of them',
    { name: 'x'.repeat(201), phone: ' ', metadata: { a: { b: 1 } } },
    { expected: 'VALIDATION_FAILED', pointers: ['/metadata/a', '/name', '/phone'] },
  ),
  capturing(
    'of an unknown conversation',
    { phone: '1' },
    { given: async () => ({ id: unknownConversation }), expected: 'NOT_FOUND' },
  ),
  {
    name: 'getting a lead',
    given: (client) => capture(client, { email: 'ada@example.com', metadata: { source: 'shop' } }),
    rest: ({ id }) => ['GET', `/leads/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: lead(id: $id) { ${select.lead} } }`, { id }],
    expected: 200,
    check: ({ email }) => expect(email).toBe('ada@example.com'),
  },
  ...['lead_01m7yzcf3tfz1aan3df712nas7', 'lead_nonsense', unknownConversation].map(
    (id): Case => ({
      name: `getting the lead ${id}, which is unknown`,
      rest: () => ['GET', `/leads/${id}`],
      graphql: () => ['query ($id: ID!) { result: lead(id: $id) { id } }', { id }],
      expected: 'NOT_FOUND',
    }),
  ),
  listingLeads(
    'without parameters: newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ phone }: Json) => phone)).toEqual(['5', '4', '3', '2', '1']);
        expect(total).toBe(5);
      },
    },
  ),
  listingLeads(
    'a page',
    { limit: 2, offset: 1 },
    { expected: 200, check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([2, true]) },
  ),
  ...(
    [
      [{ conversationId: '' }, '321'],
      [{ conversationId: unknownConversation }, ''],
      [{ conversationId: 'nonsense' }, ''],
      [{ email: 'ada-1@EXAMPLE.com' }, '531'],
      [{ email: 'ada-1' }, ''],
      [{ email: 'äda-0@straße.de' }, '42'],
      [{ email: 'ÄDA-0@STRAßE.DE', conversationId: '' }, '2'],
      [{ email: 'ada-0@straße.de' }, ''],
      [{ email: 'ada-1@example.com', conversationId: '' }, '31'],
      [{ email: 'ada-1@example.com', conversationId: '', limit: 1 }, '3'],
      [{ createdAfter: '2026-11-21T06:11:59Z', createdBefore: '2026-11-21T06:12:01Z', limit: 3 }, '543'],
      [{ createdAfter: '2026-11-21T06:12:00Z' }, ''],
      [{ email: 'äda-0@straße.de', createdBefore: '2026-11-21T06:12:00Z' }, ''],
    ] as const
  ).map(([query, phones]) =>
    listingLeads(`by ${JSON.stringify(query)}`, query, {
      expected: 200,
      check: ({ data }) => expect(data.map(({ phone }: Json) => phone).join('')).toBe(phones),
    }),
  ),
  listingLeads(
    'by filters that cannot be is refused',
    { email: 'x'.repeat(321), createdAfter: 'yesterday', createdBefore: '' },
    { expected: 'VALIDATION_FAILED', pointers: ['/createdAfter', '/createdBefore', '/email'] },
  ),
  listingLeads('beyond the end', { offset: 5 }, { expected: 200, check: ({ data }) => expect(data).toEqual([]) }),
  listingLeads('too large a page is refused', { limit: 101 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  listingLeads(
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),
  listingLeads(
    'from what is no cursor, beside other faults, tells all of them',
    { after: 'nonsense', limit: 101, offset: -1 },
    { expected: 'VALIDATION_FAILED', pointers: ['/after', '/after', '/limit', '/offset'] },
  ),
];
