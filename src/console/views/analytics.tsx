import { useMemo, useState } from 'preact/hooks';
import { analytics } from '../documents-of-views.ts';
import { Button, Failure, Heading, useLoaded, type ViewProps } from '../ui.tsx';
import { Chart } from './chart.tsx';

interface Durations {
  readonly median: number | null;
}

interface Figures {
  readonly from: string;
  readonly conversationsStarted: number;
  readonly conversationsClosed: number;
  readonly conversationsReopened: number;
  readonly messages: { readonly visitor: number; readonly agent: number; readonly bot: number };
  readonly leads: number;
  readonly conversionRate: number | null;
  readonly firstResponseSeconds: Durations;
  readonly resolutionSeconds: Durations;
}

interface Report {
  readonly period: { readonly from: string; readonly to: string };
  readonly openNow: { readonly active: number; readonly pending: number };
  readonly totals: Figures;
  readonly previous: Figures;
  readonly series: readonly Figures[];
}

const ranges = [7, 30, 90];
const intervals = { DAY: 'day', WEEK: 'week' } as const;
type Interval = keyof typeof intervals;

const { timeZone: timezone } = Intl.DateTimeFormat().resolvedOptions();

export function Analytics({ session: { client }, live }: ViewProps) {
  const [days, setDays] = useState(30);
  const [interval, setInterval] = useState<Interval>('DAY');
  const { data, error, isLoading, reload } = useLoaded(
    live,
    async (signal) => {
      const variables = { from: startOfDay(days - 1), interval, timezone };
      const answer = await client.graphql<{ analytics: Report }>(analytics, variables, { signal });
      return { report: answer.analytics, interval };
    },
    [days, interval],
  );
  return (
    <div class="view wide">
      <div class="row between">
        <Heading>Analytics</Heading>
        <form class="row" aria-label="Period">
          <label>
            Days
            <select value={days} onChange={({ currentTarget }) => setDays(Number(currentTarget.value))}>
              {ranges.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
          </label>
          <label>
            By
            <select value={interval} onChange={({ currentTarget }) => setInterval(currentTarget.value as Interval)}>
              {Object.entries(intervals).map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <Button onClick={reload} disabled={isLoading}>
            Refresh
          </Button>
        </form>
      </div>
      {error !== undefined && <Failure error={error} retry={reload} />}
      {data === undefined && error === undefined && <p class="hint">Loading …</p>}
      {data && <Shown {...data} />}
    </div>
  );
}

const count = new Intl.NumberFormat();
const percent = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
const dayName = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const minuteName = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

function Shown({ report, interval }: { readonly report: Report; readonly interval: Interval }) {
  const { period, openNow, totals, previous, series } = report;
  const charts = useMemo(() => chartsOf(series), [series]);
  const times = useMemo(() => series.map(({ from }) => Date.parse(from)), [series]);
  const timeName = (ms: number): string => (interval === 'WEEK' ? `week of ${dayName.format(ms)}` : dayName.format(ms));
  return (
    <>
      <p class="hint">
        From {dayName.format(new Date(period.from))} to {minuteName.format(new Date(period.to))}, {timezone}, beside as
        many days before. Open now: {count.format(openNow.active)} active and {count.format(openNow.pending)} pending.
      </p>
      <dl class="totals">
        {totalsOf(totals, previous).map(({ name, now, difference }) => (
          <div key={name} class="card">
            <dt>{name}</dt>
            <dd class="figure">{now}</dd>
            <dd class="hint">{difference}</dd>
          </div>
        ))}
      </dl>
      <div class="charts">
        {charts.map(({ title, lines, isDuration }) => (
          <Chart
            key={title}
            title={title}
            times={times}
            timeName={timeName}
            series={lines}
            format={isDuration ? duration : count.format}
            steps={isDuration ? durationSteps : countSteps}
            axisWidth={isDuration ? 68 : 44}
          />
        ))}
      </div>
    </>
  );
}

function chartsOf(series: readonly Figures[]) {
  const line = (name: string, of: (figures: Figures) => number | null) => ({ name, values: series.map(of) });
  return [
    {
      title: 'Conversations',
      lines: [
        line('Started', ({ conversationsStarted }) => conversationsStarted),
        line('Closed', ({ conversationsClosed }) => conversationsClosed),
      ],
    },
    {
      title: 'Messages',
      lines: [
        line('Visitors', ({ messages }) => messages.visitor),
        line('Agents', ({ messages }) => messages.agent),
        line('Bots', ({ messages }) => messages.bot),
      ],
    },
    { title: 'Leads', lines: [line('Captured', ({ leads }) => leads)] },
    {
      title: 'Median time to the first response',
      isDuration: true,
      lines: [line('Median', ({ firstResponseSeconds }) => firstResponseSeconds.median)],
    },
  ];
}

/** The totals in words, with those of the period before and the difference. */
function totalsOf(now: Figures, before: Figures) {
  const counted = (name: string, of: (figures: Figures) => number) =>
    compared(name, of(now), of(before), count.format, 'more', 'fewer');
  const timed = (name: string, of: (figures: Figures) => Durations) =>
    compared(name, of(now).median, of(before).median, duration, 'longer', 'shorter');
  return [
    counted('Conversations started', ({ conversationsStarted }) => conversationsStarted),
    counted('Conversations closed', ({ conversationsClosed }) => conversationsClosed),
    counted('Reopened', ({ conversationsReopened }) => conversationsReopened),
    counted('Messages of visitors', ({ messages }) => messages.visitor),
    counted('Messages of agents', ({ messages }) => messages.agent),
    counted('Messages of bots', ({ messages }) => messages.bot),
    counted('Leads', ({ leads }) => leads),
    compared('Conversations with a lead', now.conversionRate, before.conversionRate, percent.format, 'more', 'less'),
    timed('Median first response', ({ firstResponseSeconds }) => firstResponseSeconds),
    timed('Median until closed', ({ resolutionSeconds }) => resolutionSeconds),
  ];
}

function compared(
  name: string,
  now: number | null,
  before: number | null,
  format: (value: number) => string,
  more: string,
  less: string,
) {
  const text = (value: number | null): string => (value === null ? '–' : format(value));
  let difference = before === null ? 'none before' : `${text(before)} before`;
  if (now !== null && before !== null) {
    const by = format(Math.abs(now - before));
    const isSame = text(now) === text(before);
    difference = isSame ? 'the same as before' : `${by} ${now > before ? more : less} than ${text(before)} before`;
  }
  return { name, now: text(now), difference };
}

const countSteps = [1, 2, 5]
  .flatMap((step) => [1, 10, 100, 1_000, 10_000, 100_000].map((unit) => step * unit))
  .sort((a, b) => a - b);
const [minute, hour] = [60, 3_600];
const durationSteps = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * minute),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 192].map((hours) => hours * hour),
];

/** A number of seconds in words, of which the largest two units are enough. */
function duration(seconds: number): string {
  const whole = Math.round(seconds);
  const parts = [
    [Math.floor(whole / (24 * hour)), 'd'],
    [Math.floor(whole / hour) % 24, 'h'],
    [Math.floor(whole / minute) % 60, 'min'],
    [whole % 60, 's'],
  ] as const;
  const first = parts.findIndex(([value]) => value > 0);
  if (first === -1) return '0 s';
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(' ');
}

/** The start of the day so many days before today, where the browser is. */
function startOfDay(daysAgo: number): string {
  const now = new Date();
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).toISOString();
}
