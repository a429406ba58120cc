import * as z from 'zod';
import { intervals } from './calendar.ts';
import { countShape, textShape } from './shapes.ts';
import { timeShape } from './time.ts';

// The result of getAnalytics. Its descriptions define each figure, for REST and GraphQL alike.

const seconds = z.number().min(0).nullable();

export const durationFiguresShape = z
  .object({
    count: countShape('Number of durations.', 3),
    mean: seconds.describe('Exact mean; null if there are none.').meta({ examples: [140.5] }),
    median: seconds.describe('Median; null if there are none.').meta({ examples: [121] }),
    p90: seconds.describe('90th percentile; null if there are none.').meta({ examples: [236] }),
  })
  .meta({
    id: 'DurationFigures',
    description:
      'Durations in seconds. Median and 90th percentile are within 1 % of the exact values, which are interpolated linearly between the two nearest durations.',
  });

export type DurationFigures = Readonly<z.output<typeof durationFiguresShape>>;

export const messageCountsShape = z
  .object({
    agent: countShape('Messages sent by agents.', 12),
    visitor: countShape('Messages sent by visitors.', 14),
    bot: countShape('Messages sent by bots.', 0),
  })
  .meta({ id: 'MessageCounts', description: 'Number of messages sent, by sender.' });

export const analyticsFiguresShape = z
  .object({
    from: timeShape.describe('Start, inclusive.'),
    to: timeShape.describe('End, exclusive.'),
    conversationsStarted: countShape('Number of conversations created.', 4),
    conversationsClosed: countShape(
      'Number of closings: a conversation that was reopened and closed again counts twice.',
      3,
    ),
    conversationsReopened: countShape('Number of reopenings, by request or by a message from the visitor.', 1),
    messages: messageCountsShape.describe('Number of messages sent, by sender.'),
    leads: countShape('Number of leads captured, with or without a conversation.', 1),
    conversionRate: z
      .number()
      .min(0)
      .max(1)
      .nullable()
      .describe(
        'Share, from 0 to 1, of the conversations started in this span that have a lead, whenever it was captured: it can still grow. Null if none was started.',
      )
      .meta({ examples: [0.25] }),
    firstResponseSeconds: durationFiguresShape.describe(
      'Time from a conversation’s first visitor message to the first agent message after it; a bot’s message is no response. Counted once per conversation, at the time of the response.',
    ),
    resolutionSeconds: durationFiguresShape.describe(
      'Time from a conversation’s creation, or its last reopening, to its closing. Counted at each closing.',
    ),
  })
  .meta({
    id: 'AnalyticsFigures',
    description:
      'Figures for a span of time, counted as things happened: later changes and deletions do not alter them.',
  });

export type AnalyticsFigures = Readonly<z.output<typeof analyticsFiguresShape>>;

export const periodShape = z.object({
  from: timeShape.describe('Start, inclusive.'),
  to: timeShape.describe('End, exclusive.'),
  interval: z.enum(intervals).describe('Length of one point of the series.'),
  timezone: textShape('IANA time zone whose calendar the points follow.', 'Europe/Berlin'),
});

export const openNowShape = z.object({
  active: countShape('Conversations being handled.', 1),
  pending: countShape('Conversations waiting for an agent.', 0),
});

export const analyticsShape = z
  .object({
    period: periodShape.describe('The reported period.'),
    openNow: openNowShape.describe('Conversations open at this moment, regardless of the period.'),
    totals: analyticsFiguresShape.describe('Figures for the whole period.'),
    previous: analyticsFiguresShape.describe(
      'Figures for the preceding period, which ends where this one begins. With hourly points it has the same number of hours, otherwise the same number of calendar days in the time zone; with monthly points and a period of whole months, the same number of months.',
    ),
    series: z
      .array(analyticsFiguresShape)
      .readonly()
      .describe(
        'The period divided by the interval, in order and without gaps, at most 1,000 points. The first and the last point are cut to the period, so that the counts of all points add up to the totals.',
      ),
  })
  .meta({ id: 'Analytics', description: 'A report on the activity in a period.' });

export type Analytics = Readonly<z.output<typeof analyticsShape>>;
