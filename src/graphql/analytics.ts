import {
  type AnalyticsFigures as AnalyticsFiguresShape,
  type Analytics as AnalyticsShape,
  getAnalytics,
} from '../domain/analytics.ts';
import type { DurationFigures as DurationFiguresShape } from '../domain/durations.ts';
import { builder, calls, withoutNulls } from './builder.ts';

const AnalyticsInterval = builder.enumType('AnalyticsInterval', {
  description: 'What a point of the series spans, by the calendar of the time zone.',
  values: {
    HOUR: { value: 'hour', description: 'An hour; one in which the clocks change ends with the change.' },
    DAY: { value: 'day', description: 'A day: 23 or 25 hours where the clocks change.' },
    WEEK: { value: 'week', description: 'A week of ISO 8601, which begins on Monday.' },
    MONTH: { value: 'month', description: 'A month.' },
  } as const,
});

const AnalyticsPeriod = builder.objectRef<AnalyticsShape['period']>('AnalyticsPeriod').implement({
  description: 'What a report is about.',
  fields: (t) => ({
    from: t.expose('from', { type: 'DateTime', description: 'Its beginning.' }),
    to: t.expose('to', { type: 'DateTime', description: 'Its end, not included.' }),
    interval: t.expose('interval', { type: AnalyticsInterval, description: 'What a point of the series spans.' }),
    timezone: t.exposeString('timezone', { description: 'The time zone whose calendar the points follow.' }),
  }),
});

const OpenConversations = builder.objectRef<AnalyticsShape['openNow']>('OpenConversations').implement({
  description: 'How many conversations are not closed, by status.',
  fields: (t) => ({
    active: t.exposeInt('active', { description: 'How many are being handled.' }),
    pending: t.exposeInt('pending', { description: 'How many wait for an agent.' }),
  }),
});

const MessageCounts = builder.objectRef<AnalyticsFiguresShape['messages']>('MessageCounts').implement({
  description: 'Messages that were sent, by sender.',
  fields: (t) => ({
    agent: t.exposeInt('agent', { description: 'Messages of agents.' }),
    visitor: t.exposeInt('visitor', { description: 'Messages of visitors.' }),
    bot: t.exposeInt('bot', { description: 'Messages of bots.' }),
  }),
});

const DurationFigures = builder.objectRef<DurationFiguresShape>('DurationFigures').implement({
  description:
    'Durations in seconds. The quantiles are within 1 % of the exact ones, which lie between the two nearest durations in proportion.',
  fields: (t) => ({
    count: t.exposeInt('count', { description: 'How many there are.' }),
    mean: t.exposeFloat('mean', { nullable: true, description: 'Their exact mean; null when there are none.' }),
    median: t.exposeFloat('median', {
      nullable: true,
      description: 'Half of them are no longer than this; null when there are none.',
    }),
    p90: t.exposeFloat('p90', {
      nullable: true,
      description: 'Nine in ten of them are no longer than this; null when there are none.',
    }),
  }),
});

const AnalyticsFigures = builder.objectRef<AnalyticsFiguresShape>('AnalyticsFigures').implement({
  description:
    'What happened from a time up to another. It was counted as it happened: what changed or was erased later does not change it.',
  fields: (t) => ({
    from: t.expose('from', { type: 'DateTime', description: 'The beginning.' }),
    to: t.expose('to', { type: 'DateTime', description: 'The end, not included.' }),
    conversationsStarted: t.exposeInt('conversationsStarted', { description: 'Conversations that were created.' }),
    conversationsClosed: t.exposeInt('conversationsClosed', {
      description: 'How often a conversation was closed: one that was reopened and closed again counts twice.',
    }),
    conversationsReopened: t.exposeInt('conversationsReopened', {
      description: 'How often a closed conversation was opened again, by request or by a message of its visitor.',
    }),
    messages: t.expose('messages', { type: MessageCounts, description: 'Messages that were sent, by sender.' }),
    leads: t.exposeInt('leads', { description: 'Leads that were captured, in a conversation or in none.' }),
    conversionRate: t.exposeFloat('conversionRate', {
      nullable: true,
      description:
        'Of the conversations that were started in this time, the share with a lead, from 0 to 1, whenever the lead was captured: it can grow later. Null when none was started.',
    }),
    firstResponseSeconds: t.expose('firstResponseSeconds', {
      type: DurationFigures,
      description:
        'From a conversation’s first visitor message to the first agent message after it, which bots’ are not. Counted once for each conversation, at the response.',
    }),
    resolutionSeconds: t.expose('resolutionSeconds', {
      type: DurationFigures,
      description: 'From a conversation’s creation, or its last reopening, to its closing. Counted at each closing.',
    }),
  }),
});

const Analytics = builder.objectRef<AnalyticsShape>('Analytics').implement({
  description: 'A report of what happened in a period.',
  fields: (t) => ({
    period: t.expose('period', { type: AnalyticsPeriod, description: 'What it is about.' }),
    openNow: t.expose('openNow', {
      type: OpenConversations,
      description: 'The conversations that are open at this moment, whatever the period.',
    }),
    totals: t.expose('totals', { type: AnalyticsFigures, description: 'The whole period.' }),
    previous: t.expose('previous', {
      type: AnalyticsFigures,
      description:
        'The period before, which ends where this one begins: as many hours long for the interval HOUR, else as many days by the calendar of the time zone, or with MONTH as many months if this one is whole months.',
    }),
    series: t.expose('series', {
      type: [AnalyticsFigures],
      description:
        'The period cut by the interval, in order and without gaps, at most 1,000 points. The first and the last are what of theirs lies in the period, so that the counts of all add up to the totals.',
    }),
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
          'The beginning of the period, on a quarter hour; by default 30 days before `to`, by the calendar of `timezone`.',
      }),
      to: t.arg({
        type: 'DateTime',
        description: 'The end of the period, not included, on a quarter hour; by default the next one.',
      }),
      interval: t.arg({ type: AnalyticsInterval, description: 'What a point of the series spans; by default DAY.' }),
      timezone: t.arg.string({
        description: 'The time zone of the IANA database whose calendar the points follow; by default UTC.',
      }),
    },
    resolve: (_, args, context) => context.call(getAnalytics, withoutNulls(args)),
  }),
);
