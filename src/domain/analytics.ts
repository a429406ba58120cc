import * as z from 'zod';
import { type AnalyticsSums, type QuarterRange, quarterMs, quarterOf, sumsOfAll } from './analytics-delta.ts';
import type { Analytics, AnalyticsFigures } from './analytics-shape.ts';
import { Calendar, intervals, isTimeZone } from './calendar.ts';
import { durationFigures } from './durations.ts';
import { validationFailed } from './errors.ts';
import { evenWithOtherFaults, operation } from './operation.ts';
import { timeInputRoundedUp, timestamp } from './time.ts';

export const maxPoints = 1_000;
const defaultDays = 30;

/** A bound of the period. Figures are counted in quarter hours, so it has to lie on one. */
const quarterInput = timeInputRoundedUp.refine((epochMs) => epochMs >= 0 && epochMs % quarterMs === 0, {
  error: 'must be on a quarter hour since 1970, such as 2026-11-21T06:15:00.000Z',
});

export const getAnalytics = operation({
  name: 'getAnalytics',
  summary: 'Reports the activity in a period, with the preceding period for comparison and as a time series.',
  scope: 'analytics:read',
  input: z
    .strictObject({
      from: quarterInput
        .optional()
        .describe(
          'Start of the period, on a quarter hour; by default 30 days before `to`, by the calendar of `timezone`.',
        ),
      to: quarterInput.optional().describe('End of the period, exclusive, on a quarter hour; by default the next one.'),
      interval: z
        .enum(intervals)
        .default('day')
        .describe(
          'Length of one point of the series: `hour`, `day`, `week` (from Monday) or `month`; by default `day`.',
        ),
      timezone: z
        .string({ error: 'must be a string' })
        .refine(isTimeZone, { error: 'must be a time zone of the IANA database, such as Europe/Berlin' })
        .default('UTC')
        .describe('The IANA time zone whose calendar the points follow; by default UTC.'),
    })
    // An invalid time is NaN here, and reported by its own field.
    .refine(({ from, to }) => typeof from !== 'number' || typeof to !== 'number' || !(from >= to), {
      path: ['to'],
      error: 'must be later than `from`',
      ...evenWithOtherFaults,
    }),
  errors: [],
  async run({ caller: { account }, storage, turns, now }, { interval, timezone, ...bounds }): Promise<Analytics> {
    await turns.step(account.id); // dividing a period into a thousand weeks takes many milliseconds
    const calendar = new Calendar(timezone);
    const toMs = bounds.to ?? (quarterOf(now) + 1) * quarterMs;
    const fromMs = bounds.from ?? calendar.daysBefore(toMs, defaultDays);
    if (fromMs >= toMs) {
      throw validationFailed([{ path: ['from'], detail: 'must be earlier than the end of the period' }]);
    }
    const cuts = calendar.cut(fromMs, toMs, interval, maxPoints);
    if (cuts === undefined) {
      const detail = 'would give more than 1,000 points: take a longer one, or a shorter period';
      throw validationFailed([{ path: ['interval'], detail }]);
    }
    const previous = rangeOf(calendar.startBefore(fromMs, toMs, interval), fromMs);
    const points = cuts.slice(1).map((endMs, index) => rangeOf(cuts[index] as number, endMs));
    // The totals are summed from the points: reading them as well would take half as long again.
    const [[before, ...parts], { active, pending }] = await Promise.all([
      storage.read.analytics.sums(account.id, [previous, ...points]),
      storage.read.accounts.totals(account.id),
    ]);
    return {
      period: { from: timestamp(fromMs), to: timestamp(toMs), interval, timezone },
      openNow: { active, pending },
      totals: figuresOf(rangeOf(fromMs, toMs), sumsOfAll(parts)),
      previous: figuresOf(previous, before as AnalyticsSums),
      series: points.map((range, index) => figuresOf(range, parts[index] as AnalyticsSums)),
    };
  },
});

function rangeOf(fromMs: number, toMs: number): QuarterRange {
  return { from: quarterOf(fromMs), to: quarterOf(toMs) };
}

function figuresOf({ from, to }: QuarterRange, sums: AnalyticsSums): AnalyticsFigures {
  const { conversationsStarted, conversationsConverted } = sums;
  return {
    from: timestamp(from * quarterMs),
    to: timestamp(to * quarterMs),
    conversationsStarted,
    conversationsClosed: sums.conversationsClosed,
    conversationsReopened: sums.conversationsReopened,
    messages: { agent: sums.agentMessages, visitor: sums.visitorMessages, bot: sums.botMessages },
    leads: sums.leads,
    conversionRate: conversationsStarted === 0 ? null : conversationsConverted / conversationsStarted,
    firstResponseSeconds: durationFigures(sums.firstResponses),
    resolutionSeconds: durationFigures(sums.resolutions),
  };
}
