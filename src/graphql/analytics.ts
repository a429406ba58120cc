import { getAnalytics } from '../domain/analytics.ts';
import {
  type AnalyticsFigures as AnalyticsFiguresShape,
  type Analytics as AnalyticsShape,
  analyticsFiguresShape,
  analyticsShape,
  type DurationFigures as DurationFiguresShape,
  durationFiguresShape,
  messageCountsShape,
  openNowShape,
  periodShape,
} from '../domain/analytics-shape.ts';
import { descriptionOf } from '../domain/descriptions.ts';
import { answering, builder, fieldsOf, withoutNulls } from './builder.ts';

const AnalyticsInterval = builder.enumType('AnalyticsInterval', {
  description: 'The length of the points of the series, by the calendar of the time zone.',
  values: {
    HOUR: { value: 'hour', description: 'One hour. An hour in which the clocks change ends at the change.' },
    DAY: { value: 'day', description: 'One day: 23 or 25 hours when the clocks change.' },
    WEEK: { value: 'week', description: 'One ISO 8601 week, which starts on Monday.' },
    MONTH: { value: 'month', description: 'One calendar month.' },
  } as const,
});

const AnalyticsPeriod = builder.objectRef<AnalyticsShape['period']>('AnalyticsPeriod').implement({
  description: 'The period that a report covers.',
  fields: (t) =>
    fieldsOf(t, periodShape, { from: 'DateTime', to: 'DateTime', interval: AnalyticsInterval, timezone: 'String' }),
});

const OpenConversations = builder.objectRef<AnalyticsShape['openNow']>('OpenConversations').implement({
  description: 'Number of conversations that are not closed, by status.',
  fields: (t) => fieldsOf(t, openNowShape, { active: 'Int', pending: 'Int' }),
});

const MessageCounts = builder.objectRef<AnalyticsFiguresShape['messages']>('MessageCounts').implement({
  description: descriptionOf(messageCountsShape),
  fields: (t) => fieldsOf(t, messageCountsShape, { agent: 'Int', visitor: 'Int', bot: 'Int' }),
});

const DurationFigures = builder.objectRef<DurationFiguresShape>('DurationFigures').implement({
  description: descriptionOf(durationFiguresShape),
  fields: (t) => fieldsOf(t, durationFiguresShape, { count: 'Int', mean: 'Float', median: 'Float', p90: 'Float' }),
});

const AnalyticsFigures = builder.objectRef<AnalyticsFiguresShape>('AnalyticsFigures').implement({
  description: descriptionOf(analyticsFiguresShape),
  fields: (t) =>
    fieldsOf(t, analyticsFiguresShape, {
      from: 'DateTime',
      to: 'DateTime',
      conversationsStarted: 'Int',
      conversationsClosed: 'Int',
      conversationsReopened: 'Int',
      messages: MessageCounts,
      leads: 'Int',
      conversionRate: 'Float',
      firstResponseSeconds: DurationFigures,
      resolutionSeconds: DurationFigures,
    }),
});

const Analytics = builder.objectRef<AnalyticsShape>('Analytics').implement({
  description: descriptionOf(analyticsShape),
  fields: (t) =>
    fieldsOf(t, analyticsShape, {
      period: AnalyticsPeriod,
      openNow: OpenConversations,
      totals: AnalyticsFigures,
      previous: AnalyticsFigures,
      series: [AnalyticsFigures],
    }),
});

builder.queryField('analytics', (t) =>
  t.field({
    type: Analytics,
    ...answering(getAnalytics),
    args: {
      from: t.arg({
        type: 'DateTime',
        description:
          'The start of the period, on a quarter hour. Defaults to 30 days before `to`, by the calendar of `timezone`.',
      }),
      to: t.arg({
        type: 'DateTime',
        description: 'The end of the period, exclusive, on a quarter hour. Defaults to the next quarter hour.',
      }),
      interval: t.arg({
        type: AnalyticsInterval,
        description: 'The length of the points of the series. Defaults to DAY.',
      }),
      timezone: t.arg.string({
        description: 'The IANA time zone whose calendar the points follow. Defaults to UTC.',
      }),
    },
    resolve: (_, args, context) => context.call(getAnalytics, withoutNulls(args)),
  }),
);
