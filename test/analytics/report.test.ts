import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { getAnalytics } from '../../src/domain/analytics.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { bucketOf, durationFigures } from '../../src/domain/durations.ts';
import { captureLead } from '../../src/domain/leads.ts';
import { effort } from '../support/effort.ts';
import { checkDurations } from '../support/expected-figures.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { HistoryPlayer, histories } from './histories.ts';

const quarterMs = 15 * 60_000;
const dayMs = 96 * quarterMs;

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

/** Shortly before the clocks change somewhere, or not. */
const starts = [
  '2026-03-07T20:00Z',
  '2026-10-24T12:00Z',
  '2026-10-03T06:00Z',
  '2026-06-30T22:50Z',
  '2026-12-31T01:00Z',
];
const zones = [
  'UTC',
  'America/New_York',
  'Europe/Berlin',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'America/St_Johns',
  'Pacific/Chatham',
];

const question = fc.record({
  /** In quarters after the beginning of the history. */
  from: fc.integer({ min: -300, max: 1_000 }),
  length: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 3_000 })),
  interval: fc.constantFrom('hour' as const, 'day' as const, 'week' as const, 'month' as const),
  timezone: fc.constantFrom(...zones),
});

test('every figure is what a count of all that happened gives, for any period, interval and zone', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...starts),
      histories,
      fc.array(question, { minLength: 3, maxLength: 6 }),
      async (start, steps, questions) => {
        server.clock.nowMs = Date.parse(start);
        const player = new HistoryPlayer(server, await server.account());
        await player.play(steps);
        const base = Math.floor(Date.parse(start) / quarterMs);
        for (const { from, length, interval, timezone } of questions) {
          const period = {
            from: new Date((base + from) * quarterMs).toISOString(),
            to: new Date((base + from + length) * quarterMs).toISOString(),
          };
          const report = await getAnalytics.execute(server.app.ports, player.caller, {
            ...period,
            interval,
            timezone,
          });
          expect(report.period).toEqual({ ...period, interval, timezone });
          expect(report.openNow).toEqual(player.openNow);
          expect(report.totals).toMatchObject(period);
          expect(report.previous.to).toBe(period.from);
          expect(report.series.map((point) => point.from)).toEqual([
            period.from,
            ...report.series.slice(0, -1).map((point) => point.to),
          ]);
          expect(report.series.at(-1)?.to).toBe(period.to);
          for (const figures of [report.totals, report.previous, ...report.series]) player.figures.check(figures);
        }
      },
    ),
    { numRuns: effort(8, 200) },
  );
}, 120_000);

test.each([
  ['America/New_York', '2026-11-01T04:00Z', 25],
  ['America/New_York', '2026-03-08T05:00Z', 23],
  ['Australia/Lord_Howe', '2026-04-04T13:00Z', 24.5],
])('a day of %s on which the clocks change counts all of its hours', async (timezone, midnight, hours) => {
  const account = await server.account();
  const { caller } = new HistoryPlayer(server, account);
  const startMs = Date.parse(midnight);
  for (let atMs = startMs - quarterMs; atMs < startMs + 26 * 4 * quarterMs; atMs += quarterMs) {
    server.clock.nowMs = atMs + 1;
    await createConversation.execute(server.app.ports, caller, {});
  }
  const period = { from: new Date(startMs).toISOString(), to: new Date(startMs + 2 * dayMs).toISOString() };
  const byDay = await getAnalytics.execute(server.app.ports, caller, { ...period, timezone });
  expect(byDay.series[0]?.conversationsStarted).toBe(hours * 4);
  const byHour = await getAnalytics.execute(server.app.ports, caller, { ...period, timezone, interval: 'hour' });
  const ofDay = byHour.series.filter(({ to }) => to <= (byDay.series[0]?.to ?? ''));
  expect(ofDay).toHaveLength(Math.ceil(hours));
  expect(ofDay.reduce((sum, { conversationsStarted }) => sum + conversationsStarted, 0)).toBe(hours * 4);
});

test('without bounds a report is of the last 30 days, with what happened just now', async () => {
  const { caller } = new HistoryPlayer(server, await server.account());
  for (const now of ['2026-11-21T06:12:00.123Z', '2026-11-21T06:15:00.000Z', '2026-11-21T06:29:59.999Z']) {
    server.clock.nowMs = Date.parse(now);
    await createConversation.execute(server.app.ports, caller, {});
    const { period, totals } = await getAnalytics.execute(server.app.ports, caller, {});
    const to = now < '2026-11-21T06:15' ? '06:15' : '06:30';
    expect(period).toEqual({
      from: `2026-10-22T${to}:00.000Z`,
      to: `2026-11-21T${to}:00.000Z`,
      interval: 'day',
      timezone: 'UTC',
    });
    expect(totals.conversationsStarted).toBeGreaterThan(0);
  }
  // In Berlin the clocks went back in these 30 days.
  const { period } = await getAnalytics.execute(server.app.ports, caller, { timezone: 'Europe/Berlin' });
  expect(period.from).toBe('2026-10-22T05:30:00.000Z');
});

test('leads captured at once in one conversation convert it once', async () => {
  const { caller } = new HistoryPlayer(server, await server.account());
  const { conversation } = await createConversation.execute(server.app.ports, caller, {});
  server.clock.advance(3 * dayMs);
  const lead = { conversationId: conversation.id, email: 'ada@example.com' };
  await Promise.all(Array.from({ length: 5 }, () => captureLead.execute(server.app.ports, caller, lead)));
  const { totals, series } = await getAnalytics.execute(server.app.ports, caller, {});
  expect(totals).toMatchObject({ conversationsStarted: 1, leads: 5, conversionRate: 1 });
  expect(series.filter(({ conversionRate }) => conversionRate !== null)).toHaveLength(1);
  const { body } = await server.clientFor((await server.account()).secret).rest('GET', '/analytics');
  expect(body.totals, 'nothing of it is another account’s').toMatchObject({ conversationsStarted: 0, leads: 0 });
});

test('quantiles of any durations are within 1 %, of short ones exact', () => {
  const duration = fc.oneof(
    fc.integer({ min: 0, max: 200 }),
    fc.integer({ min: 0, max: 10_000_000 }),
    fc.integer({ min: 0, max: 1e12 }),
  );
  fc.assert(
    fc.property(fc.array(duration, { maxLength: 50 }), (durations) => {
      const counts = Map.groupBy(
        durations.map(bucketOf).sort((a, b) => a - b),
        (bucket) => bucket,
      );
      const figures = durationFigures({
        count: durations.length,
        sumMs: durations.reduce((sum, each) => sum + each, 0),
        buckets: [...counts].flatMap(([bucket, all]) => [bucket, all.length]),
      });
      checkDurations(
        figures,
        durations.map((each) => each / 1_000),
      );
    }),
    { numRuns: 1_000 },
  );
  for (let durationMs = 0; durationMs < 100; durationMs++) {
    const figures = durationFigures({ count: 1, sumMs: durationMs, buckets: [bucketOf(durationMs), 1] });
    expect(figures.median).toBe(durationMs / 1_000);
  }
});
