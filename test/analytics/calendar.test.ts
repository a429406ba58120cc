import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Calendar, isTimeZone } from '../../src/domain/calendar.ts';
import { effort } from '../support/effort.ts';

// Held against the runtime's own calendar, Temporal, in every zone that it knows.

const quarterMs = 15 * 60_000;
const hourMs = 4 * quarterMs;
const zones = Intl.supportedValuesOf('timeZone');
/** From when on all offsets are whole quarter hours. */
const earliestMs = Date.parse('1987-01-01');

const zone = fc.constantFrom('America/New_York', 'Australia/Lord_Howe', 'Pacific/Apia', 'Asia/Kathmandu', ...zones);
const quarter = (from: number, to: number) =>
  fc.integer({ min: Math.ceil(from / quarterMs), max: to / quarterMs }).map((at) => at * quarterMs);
const start = quarter(earliestMs, Date.parse('2040-01-01'));
const length = fc.oneof(quarter(quarterMs, 48 * hourMs), quarter(quarterMs, 400 * 24 * hourMs));

const clockAt = (epochMs: number, timeZone: string) =>
  Temporal.Instant.fromEpochMilliseconds(epochMs).toZonedDateTimeISO(timeZone);

/** Every day of the zone that begins within the period, by Temporal. */
function beginnings(timeZone: string, fromMs: number, toMs: number, begins: (date: Temporal.PlainDate) => boolean) {
  const found = new Set<number>();
  let date = clockAt(fromMs, timeZone).toPlainDate().subtract({ days: 1 });
  for (;;) {
    const { epochMilliseconds } = date.toZonedDateTime(timeZone);
    if (epochMilliseconds >= toMs) return [...found];
    if (epochMilliseconds > fromMs && begins(date)) found.add(epochMilliseconds);
    date = date.add({ days: 1 });
  }
}

const iso = (times: readonly number[] | undefined) => times?.map((time) => new Date(time).toISOString());

describe('a period', () => {
  test.each([
    ['day', () => true],
    ['week', (date: Temporal.PlainDate) => date.dayOfWeek === 1],
    ['month', (date: Temporal.PlainDate) => date.day === 1],
  ] as const)('is cut where a %s begins in its zone', (interval, begins) => {
    fc.assert(
      fc.property(zone, start, length, (timeZone, fromMs, lengthMs) => {
        const toMs = fromMs + lengthMs;
        const cuts = new Calendar(timeZone).cut(fromMs, toMs, interval, 1_000);
        expect(iso(cuts)).toEqual(iso([fromMs, ...beginnings(timeZone, fromMs, toMs, begins), toMs]));
      }),
      { numRuns: effort(100, 300) },
    );
  });

  test('is cut where the clocks show a full hour or change, and nowhere else', () => {
    fc.assert(
      fc.property(zone, start, quarter(quarterMs, 100 * hourMs), (timeZone, fromMs, lengthMs) => {
        const toMs = fromMs + lengthMs;
        const expected = [fromMs];
        for (let at = fromMs + quarterMs; at < toMs; at += quarterMs) {
          const clock = clockAt(at, timeZone);
          if (clock.minute === 0 || clock.offset !== clockAt(at - quarterMs, timeZone).offset) expected.push(at);
        }
        expect(iso(new Calendar(timeZone).cut(fromMs, toMs, 'hour', 1_000))).toEqual(iso([...expected, toMs]));
      }),
      { numRuns: effort(100, 300) },
    );
  });

  test.each([
    ['America/New_York', '2026-03-08', '2026-03-09', 23],
    ['America/New_York', '2026-11-01', '2026-11-02', 25],
    ['Europe/Berlin', '2026-03-29', '2026-03-30', 23],
    ['Europe/Berlin', '2026-10-25', '2026-10-26', 25],
    ['Australia/Lord_Howe', '2026-10-04', '2026-10-05', 23.5],
    ['Australia/Lord_Howe', '2026-04-05', '2026-04-06', 24.5],
    ['Asia/Kathmandu', '2026-03-08', '2026-03-09', 24],
    // The clocks go from 23:59 to 01:00: the day begins at one.
    ['Asia/Beirut', '2026-03-29', '2026-03-30', 23],
  ])('in %s has %s as a day of its own, of %3$d hours', (timeZone, day, next, hours) => {
    const midnight = (date: string) => Temporal.PlainDate.from(date).toZonedDateTime(timeZone).epochMilliseconds;
    const [fromMs, toMs] = [midnight(day), midnight(next)];
    const calendar = new Calendar(timeZone);
    expect((toMs - fromMs) / hourMs).toBe(hours);
    expect(calendar.cut(fromMs - quarterMs, toMs + quarterMs, 'day', 9)).toEqual([
      fromMs - quarterMs,
      fromMs,
      toMs,
      toMs + quarterMs,
    ]);
  });

  test('passes over a day that its zone has skipped', () => {
    const days = new Calendar('Pacific/Apia').cut(
      Date.parse('2011-12-29T10:00Z'),
      Date.parse('2012-01-01T10:00Z'),
      'day',
      9,
    );
    expect(iso(days)).toEqual([
      '2011-12-29T10:00:00.000Z',
      '2011-12-30T10:00:00.000Z', // the 31st
      '2011-12-31T10:00:00.000Z',
      '2012-01-01T10:00:00.000Z',
    ]);
  });

  test('may have just so many parts', () => {
    const calendar = new Calendar('UTC');
    expect(calendar.cut(0, 1_000 * hourMs, 'hour', 1_000)).toHaveLength(1_001);
    expect(calendar.cut(0, 1_000 * hourMs + quarterMs, 'hour', 1_000)).toBeUndefined();
  });

  // UTC−00:44:30 until 1972, and UTC−10:40 until 1979.
  const odd = fc.constantFrom('Africa/Monrovia', 'Pacific/Kiritimati');

  test('of old times is cut on quarter hours, though the clocks differed by odd minutes and seconds', () => {
    fc.assert(
      fc.property(fc.oneof(odd, zone), quarter(0, Date.parse('1973-01-01')), length, (timeZone, fromMs, lengthMs) => {
        const calendar = new Calendar(timeZone);
        for (const interval of ['hour', 'day', 'week', 'month'] as const) {
          const cuts = calendar.cut(fromMs, fromMs + lengthMs, interval, 10_000) ?? [];
          expect(cuts.at(-1)).toBe(fromMs + lengthMs);
          expect(cuts.filter((cut, index) => cut % quarterMs !== 0 || cut <= (cuts[index - 1] ?? -1))).toEqual([]);
          expect(calendar.startBefore(fromMs, fromMs + lengthMs, interval)).toBeLessThan(fromMs);
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe('the period before', () => {
  const startBefore = (timeZone: string, from: string, to: string, interval: 'hour' | 'day' | 'week' | 'month') =>
    new Date(new Calendar(timeZone).startBefore(Date.parse(from), Date.parse(to), interval)).toISOString();

  test('of hours is as long, whatever the clocks do', () => {
    expect(startBefore('Europe/Berlin', '2026-03-29T10:00Z', '2026-03-30T10:00Z', 'hour')).toBe(
      '2026-03-28T10:00:00.000Z',
    );
    expect(startBefore('Europe/Berlin', '2026-03-29T01:15Z', '2026-03-29T02:00Z', 'hour')).toBe(
      '2026-03-29T00:30:00.000Z',
    );
  });

  test('of days is as many days by the calendar of the zone', () => {
    // From midnight to midnight, over the 29th, which has 23 hours.
    expect(startBefore('Europe/Berlin', '2026-03-29T22:00Z', '2026-04-05T22:00Z', 'day')).toBe(
      '2026-03-22T23:00:00.000Z',
    );
    expect(startBefore('Europe/Berlin', '2026-03-28T23:00Z', '2026-03-29T22:00Z', 'day')).toBe(
      '2026-03-27T23:00:00.000Z',
    );
    expect(startBefore('Europe/Berlin', '2026-03-29T22:00Z', '2026-04-05T22:00Z', 'week')).toBe(
      '2026-03-22T23:00:00.000Z',
    );
  });

  test('of whole months is as many months', () => {
    expect(startBefore('Europe/Berlin', '2026-02-28T23:00Z', '2026-03-31T22:00Z', 'month')).toBe(
      '2026-01-31T23:00:00.000Z',
    );
    expect(startBefore('UTC', '2026-01-01T00:00Z', '2027-01-01T00:00Z', 'month')).toBe('2025-01-01T00:00:00.000Z');
    expect(startBefore('UTC', '2026-03-31T00:00Z', '2026-05-31T00:00Z', 'month')).toBe('2026-01-31T00:00:00.000Z');
  });

  test('of months and some days is as many days', () => {
    expect(startBefore('UTC', '2026-03-01T00:00Z', '2026-04-11T00:00Z', 'month')).toBe('2026-01-19T00:00:00.000Z');
  });

  test('is never empty, and from midnight to midnight the same number of days in every zone', () => {
    fc.assert(
      fc.property(zone, start, fc.integer({ min: 1, max: 60 }), (timeZone, at, days) => {
        const date = clockAt(at, timeZone).toPlainDate();
        const midnight = (day: Temporal.PlainDate) => day.toZonedDateTime(timeZone).epochMilliseconds;
        const [fromMs, toMs] = [midnight(date), midnight(date.add({ days }))];
        const startMs = new Calendar(timeZone).startBefore(fromMs, toMs, 'day');
        const skips = clockAt(fromMs, timeZone).hour + clockAt(toMs, timeZone).hour > 0;
        // A midnight that is skipped is no time on the clock to count days from.
        if (skips || midnight(date) === midnight(date.add({ days: -days }))) expect(startMs).toBeLessThan(fromMs);
        else expect(iso([startMs])).toEqual(iso([midnight(date.subtract({ days }))]));
      }),
      { numRuns: effort(100, 300) },
    );
  });
});

test('a time zone is a name of the IANA database, in any letter case', () => {
  expect(
    [...zones, 'UTC', 'utc', 'europe/berlin', 'Etc/GMT+5', 'US/Eastern'].filter((name) => !isTimeZone(name)),
  ).toEqual([]);
  const others = ['', ' ', '+01:00', '-05', 'Mars/Olympus', 'Europe/Berlin ', 'CEST1', '\u0000', 'x'.repeat(100_000)];
  expect(others.filter(isTimeZone)).toEqual([]);
});
