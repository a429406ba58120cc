import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, capture, change, create, visitorSays } from './case.ts';

/** A conversation that has been through everything that is counted, and one that waits. */
async function countedActivity(client: TestAccount): Promise<Json> {
  const { id } = await create(client, { message: visitorSays('Hello') });
  await create(client, { message: visitorSays('Anybody there?') });
  for (const sender of ['bot', 'agent', 'agent']) {
    await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'Hi', sender } });
  }
  await capture(client, { conversationId: id, email: 'ada@example.com' });
  for (const status of ['closed', 'active', 'closed']) await change(client, id, { status });
  await client.rest('POST', `/conversations/${id}/messages`, { body: visitorSays('One more thing') });
}

function reporting(name: string, query: Record<string, string>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  const spelt = Object.entries(query).map(
    ([key, value]) => `${key}: ${key === 'interval' ? value.toUpperCase() : JSON.stringify(value)}`,
  );
  return {
    name: `reporting ${name}`,
    given: countedActivity,
    isReading: true,
    rest: () => ['GET', `/analytics?${new URLSearchParams(query)}`],
    graphql: () => [
      `{ result: analytics${spelt.length === 0 ? '' : `(${spelt.join(', ')})`} { ${select.analytics} } }`,
    ],
    ...rest,
  };
}

export const analyticsCases: readonly Case[] = [
  reporting(
    'the last 30 days',
    {},
    {
      expected: 200,
      check: ({ openNow, totals, previous, series }) => {
        expect(openNow).toEqual({ active: 0, pending: 2 });
        expect(totals).toMatchObject({
          conversationsStarted: 2,
          conversationsClosed: 2,
          conversationsReopened: 2,
          messages: { agent: 2, visitor: 3, bot: 1 },
          leads: 1,
          conversionRate: 0.5,
          firstResponseSeconds: { count: 1 },
          resolutionSeconds: { count: 2 },
        });
        expect(previous).toMatchObject({ conversationsStarted: 0, conversionRate: null });
        expect(series).toHaveLength(31);
      },
    },
  ),
  ...(['hour', 'day', 'week', 'month'] as const).map((interval) =>
    reporting(
      `every ${interval} of a zone`,
      { from: '2026-11-01T01:15:00+02:00', to: '2026-11-21T06:15:00Z', interval, timezone: 'Asia/Kathmandu' },
      {
        expected: 200,
        check: ({ period, series }) => {
          expect(period).toEqual({
            from: '2026-10-31T23:15:00.000Z',
            to: '2026-11-21T06:15:00.000Z',
            interval,
            timezone: 'Asia/Kathmandu',
          });
          expect(series).toHaveLength({ hour: 487, day: 21, week: 4, month: 1 }[interval]);
          expect(series.at(-1).conversationsStarted).toBe(2);
        },
      },
    ),
  ),
  reporting(
    'of bounds that are not on quarter hours is refused',
    { from: '2026-11-01T00:10:00Z', to: '2026-11-02T00:00:00.001Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from', '/to'] },
  ),
  reporting(
    'of bounds that are beside quarter hours by less than a millisecond is refused',
    { from: '2026-11-01T00:00:00.0001Z', to: '2026-11-02T00:00:00.0001Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from', '/to'] },
  ),
  reporting(
    'of bounds that are no times, in a zone that is none, tells all of it',
    { from: 'yesterday', to: '2026-11-02', timezone: 'Mars/Olympus' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from', '/timezone', '/to'] },
  ),
  reporting(
    'of a time before all times is refused',
    { from: '1969-12-31T00:00:00Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from'] },
  ),
  reporting(
    'of a period that ends after the year 9999 of UTC is refused',
    { from: '9999-12-01T00:00:00Z', to: '9999-12-31T23:45:00-01:00', interval: 'month' },
    { expected: 'VALIDATION_FAILED', pointers: ['/to'] },
  ),
  reporting(
    'of a period that ends in the last millisecond of the year 9999 is refused',
    { from: '9999-12-01T00:00:00Z', to: '9999-12-31T23:59:59.9999Z', interval: 'month' },
    { expected: 'VALIDATION_FAILED', pointers: ['/to'] },
  ),
  reporting(
    'of a period that ends where it begins is refused',
    { from: '2026-11-01T00:00:00Z', to: '2026-11-01T00:00:00Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/to'] },
  ),
  reporting(
    'of a period that ends before it begins, in a zone that is none, tells all of it',
    { from: '2026-11-02T00:00:00Z', to: '2026-11-01T00:00:00Z', timezone: 'Mars/Olympus' },
    { expected: 'VALIDATION_FAILED', pointers: ['/timezone', '/to'] },
  ),
  reporting(
    'of a time to come is refused, unless it has an end',
    { from: '2030-01-01T00:00:00Z' },
    { expected: 'VALIDATION_FAILED', pointers: ['/from'] },
  ),
  reporting(
    'just 1,000 points',
    { from: '2026-01-01T00:00:00Z', to: '2026-02-11T16:00:00Z', interval: 'hour' },
    { expected: 200, check: ({ series }) => expect(series).toHaveLength(1_000) },
  ),
  reporting(
    'more than 1,000 points is refused',
    { from: '2026-01-01T00:00:00Z', to: '2026-02-11T16:15:00Z', interval: 'hour' },
    { expected: 'VALIDATION_FAILED', pointers: ['/interval'] },
  ),
  reporting(
    'by an offset for a zone is refused',
    { timezone: '+01:00' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/timezone'],
    },
  ),
  reporting('by an interval that is unknown is refused', { interval: 'year' }, { expected: 'VALIDATION_FAILED' }),
];
