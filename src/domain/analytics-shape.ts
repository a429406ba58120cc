import { z } from 'zod';
import { intervals } from './calendar.ts';
import { timeShape } from './time.ts';

// What getAnalytics answers. What each figure means is said here, for both faces.

const count = z.int().min(0);
const seconds = z.number().min(0).nullable();

export const durationFiguresShape = z
  .object({
    count: count.describe('How many there are.').meta({ examples: [3] }),
    mean: seconds.describe('Their exact mean; null when there are none.').meta({ examples: [140.5] }),
    median: seconds
      .describe('Half of them are no longer than this; null when there are none.')
      .meta({ examples: [121] }),
    p90: seconds
      .describe('Nine in ten of them are no longer than this; null when there are none.')
      .meta({ examples: [236] }),
  })
  .meta({
    id: 'DurationFigures',
    description:
      'Durations in seconds. The quantiles are within 1 % of the exact ones, which lie between the two nearest durations in proportion.',
  });

export type DurationFigures = Readonly<z.output<typeof durationFiguresShape>>;

export const messageCountsShape = z
  .object({
    agent: count.describe('Messages of agents.').meta({ examples: [12] }),
    visitor: count.describe('Messages of visitors.').meta({ examples: [14] }),
    bot: count.describe('Messages of bots.').meta({ examples: [0] }),
  })
  .meta({ id: 'MessageCounts', description: 'Messages that were sent, by sender.' });

export const analyticsFiguresShape = z
  .object({
    from: timeShape.describe('The beginning.'),
    to: timeShape.describe('The end, not included.'),
    conversationsStarted: count.describe('Conversations that were created.').meta({ examples: [4] }),
    conversationsClosed: count
      .describe('How often a conversation was closed: one that was reopened and closed again counts twice.')
      .meta({ examples: [3] }),
    conversationsReopened: count
      .describe('How often a closed conversation was opened again, by request or by a message of its visitor.')
      .meta({ examples: [1] }),
    messages: messageCountsShape.describe('Messages that were sent, by sender.'),
    leads: count.describe('Leads that were captured, in a conversation or in none.').meta({ examples: [1] }),
    conversionRate: z
      .number()
      .min(0)
      .max(1)
      .nullable()
      .describe(
        'Of the conversations that were started in this time, the share with a lead, from 0 to 1, whenever the lead was captured: it can grow later. Null when none was started.',
      )
      .meta({ examples: [0.25] }),
    firstResponseSeconds: durationFiguresShape.describe(
      'From a conversation’s first visitor message to the first agent message after it, which bots’ are not. Counted once for each conversation, at the response.',
    ),
    resolutionSeconds: durationFiguresShape.describe(
      'From a conversation’s creation, or its last reopening, to its closing. Counted at each closing.',
    ),
  })
  .meta({
    id: 'AnalyticsFigures',
    description:
      'What happened from a time up to another. It was counted as it happened: what changed or was erased later does not change it.',
  });

export type AnalyticsFigures = Readonly<z.output<typeof analyticsFiguresShape>>;

export const periodShape = z.object({
  from: timeShape.describe('Its beginning.'),
  to: timeShape.describe('Its end, not included.'),
  interval: z.enum(intervals).describe('What a point of the series spans.'),
  timezone: z
    .string()
    .describe('The time zone whose calendar the points follow.')
    .meta({ examples: ['Europe/Berlin'] }),
});

export const openNowShape = z.object({
  active: count.describe('How many are being handled.').meta({ examples: [1] }),
  pending: count.describe('How many wait for an agent.').meta({ examples: [0] }),
});

export const analyticsShape = z
  .object({
    period: periodShape.describe('What it is about.'),
    openNow: openNowShape.describe('The conversations that are open at this moment, whatever the period.'),
    totals: analyticsFiguresShape.describe('The whole period.'),
    previous: analyticsFiguresShape.describe(
      'The period before, which ends where this one begins: as many hours long for the interval of hours, else as many days by the calendar of the time zone, or with that of months as many months if this one is whole months.',
    ),
    series: z
      .array(analyticsFiguresShape)
      .readonly()
      .describe(
        'The period cut by the interval, in order and without gaps, at most 1,000 points. The first and the last are what of theirs lies in the period, so that the counts of all add up to the totals.',
      ),
  })
  .meta({ id: 'Analytics', description: 'A report of what happened in a period.' });

export type Analytics = Readonly<z.output<typeof analyticsShape>>;
