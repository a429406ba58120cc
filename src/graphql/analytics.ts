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
import { descriptionOf, descriptionsOf } from '../domain/descriptions.ts';
import { builder, calls, withoutNulls } from './builder.ts';

const AnalyticsInterval = builder.enumType('AnalyticsInterval', {
  description: 'The length of the points of the series, by the calendar of the time zone.',
  values: {
    HOUR: { value: 'hour', description: 'One hour. An hour in which the clocks change ends at the change.' },
    DAY: { value: 'day', description: 'One day: 23 or 25 hours when the clocks change.' },
    WEEK: { value: 'week', description: 'One ISO 8601 week, which starts on Monday.' },
    MONTH: { value: 'month', description: 'One calendar month.' },
  } as const,
});

const periodDescriptions = descriptionsOf(periodShape);

const AnalyticsPeriod = builder.objectRef<AnalyticsShape['period']>('AnalyticsPeriod').implement({
  description: 'The period that a report covers.',
  fields: (t) => ({
    from: t.expose('from', { type: 'DateTime', description: periodDescriptions.from }),
    to: t.expose('to', { type: 'DateTime', description: periodDescriptions.to }),
    interval: t.expose('interval', { type: AnalyticsInterval, description: periodDescriptions.interval }),
    timezone: t.exposeString('timezone', { description: periodDescriptions.timezone }),
  }),
});

const openDescriptions = descriptionsOf(openNowShape);

const OpenConversations = builder.objectRef<AnalyticsShape['openNow']>('OpenConversations').implement({
  description: 'Number of conversations that are not closed, by status.',
  fields: (t) => ({
    active: t.exposeInt('active', { description: openDescriptions.active }),
    pending: t.exposeInt('pending', { description: openDescriptions.pending }),
  }),
});

const messageDescriptions = descriptionsOf(messageCountsShape);

const MessageCounts = builder.objectRef<AnalyticsFiguresShape['messages']>('MessageCounts').implement({
  description: descriptionOf(messageCountsShape),
  fields: (t) => ({
    agent: t.exposeInt('agent', { description: messageDescriptions.agent }),
    visitor: t.exposeInt('visitor', { description: messageDescriptions.visitor }),
    bot: t.exposeInt('bot', { description: messageDescriptions.bot }),
  }),
});

const durationDescriptions = descriptionsOf(durationFiguresShape);

const DurationFigures = builder.objectRef<DurationFiguresShape>('DurationFigures').implement({
  description: descriptionOf(durationFiguresShape),
  fields: (t) => ({
    count: t.exposeInt('count', { description: durationDescriptions.count }),
    mean: t.exposeFloat('mean', { nullable: true, description: durationDescriptions.mean }),
    median: t.exposeFloat('median', { nullable: true, description: durationDescriptions.median }),
    p90: t.exposeFloat('p90', { nullable: true, description: durationDescriptions.p90 }),
  }),
});

const figureDescriptions = descriptionsOf(analyticsFiguresShape);

const AnalyticsFigures = builder.objectRef<AnalyticsFiguresShape>('AnalyticsFigures').implement({
  description: descriptionOf(analyticsFiguresShape),
  fields: (t) => ({
    from: t.expose('from', { type: 'DateTime', description: figureDescriptions.from }),
    to: t.expose('to', { type: 'DateTime', description: figureDescriptions.to }),
    conversationsStarted: t.exposeInt('conversationsStarted', { description: figureDescriptions.conversationsStarted }),
    conversationsClosed: t.exposeInt('conversationsClosed', { description: figureDescriptions.conversationsClosed }),
    conversationsReopened: t.exposeInt('conversationsReopened', {
      description: figureDescriptions.conversationsReopened,
    }),
    messages: t.expose('messages', { type: MessageCounts, description: figureDescriptions.messages }),
    leads: t.exposeInt('leads', { description: figureDescriptions.leads }),
    conversionRate: t.exposeFloat('conversionRate', {
      nullable: true,
      description: figureDescriptions.conversionRate,
    }),
    firstResponseSeconds: t.expose('firstResponseSeconds', {
      type: DurationFigures,
      description: figureDescriptions.firstResponseSeconds,
    }),
    resolutionSeconds: t.expose('resolutionSeconds', {
      type: DurationFigures,
      description: figureDescriptions.resolutionSeconds,
    }),
  }),
});

const descriptions = descriptionsOf(analyticsShape);

const Analytics = builder.objectRef<AnalyticsShape>('Analytics').implement({
  description: descriptionOf(analyticsShape),
  fields: (t) => ({
    period: t.expose('period', { type: AnalyticsPeriod, description: descriptions.period }),
    openNow: t.expose('openNow', { type: OpenConversations, description: descriptions.openNow }),
    totals: t.expose('totals', { type: AnalyticsFigures, description: descriptions.totals }),
    previous: t.expose('previous', { type: AnalyticsFigures, description: descriptions.previous }),
    series: t.expose('series', { type: [AnalyticsFigures], description: descriptions.series }),
  }),
});

builder.queryField('analytics', (t) =>
  t.field({
    type: Analytics,
    nullable: true,
    description: getAnalytics.summary,
    extensions: calls(getAnalytics),
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
