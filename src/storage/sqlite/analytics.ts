import { and, eq, gte, lt, type SQL, sql } from 'drizzle-orm';
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core';
import { bucketOf, type DurationTally } from '../../domain/durations.ts';
import { countNames, type HappeningSums, type QuarterRange } from '../../domain/happenings.ts';
import type { AnalyticsReads, AnalyticsWrites } from '../../domain/storage-port.ts';
import { encodeHistogram, HistogramSum, withOneMore } from './histogram.ts';
import type { Queries } from './queries.ts';
import { analyticsCounters as counters, analyticsHistograms as histograms } from './tables.ts';

type DurationName = (typeof histograms.$inferSelect)['name'];

/** The sums of a quarter hour. Each has a column of its name. */
const added = [...countNames, 'firstResponses', 'firstResponseMs', 'resolutions', 'resolutionMs'] as const;
type Added = (typeof added)[number];

/** Makes one expression per column. */
function each<T>(expression: (column: SQLiteColumn, name: Added) => T): Record<Added, T> {
  return Object.fromEntries(added.map((name) => [name, expression(counters[name], name)])) as Record<Added, T>;
}

/**
 * Histograms are stored per UTC day, hour and quarter hour; these are their widths in quarter hours. A month is then
 * read as about thirty rows and two ragged ends, and a day in any time zone as about thirty rows.
 */
const widths = [96, 4, 1] as const;

interface Span extends QuarterRange {
  readonly width: number;
}

/** Covers a range with as few rows as possible: wide ones in the middle, narrower ones at its ends. */
function* spansOf({ from, to }: QuarterRange, level = 0): Generator<Span> {
  const width = widths[level];
  if (width === undefined || from >= to) return;
  const first = Math.ceil(from / width) * width;
  const last = Math.floor(to / width) * width;
  if (first < last) {
    yield* spansOf({ from, to: first }, level + 1);
    yield { width, from: first, to: last };
    yield* spansOf({ from: last, to }, level + 1);
  } else {
    yield* spansOf({ from, to }, level + 1);
  }
}

export function analyticsReads(db: Queries): AnalyticsReads {
  const total = db
    .select(each((column): SQL<number> => sql`coalesce(sum(${column}), 0)`))
    .from(counters)
    .where(
      and(
        eq(counters.accountId, sql.placeholder('accountId')),
        gte(counters.quarter, sql.placeholder('from')),
        lt(counters.quarter, sql.placeholder('to')),
      ),
    )
    .prepare();
  const stored = db
    .select({ counts: histograms.counts })
    .from(histograms)
    .where(
      and(
        eq(histograms.accountId, sql.placeholder('accountId')),
        eq(histograms.name, sql.placeholder('name')),
        eq(histograms.width, sql.placeholder('width')),
        gte(histograms.quarter, sql.placeholder('from')),
        lt(histograms.quarter, sql.placeholder('to')),
      ),
    )
    .prepare();
  const histogram = new HistogramSum();

  const tally = (
    accountId: string,
    range: QuarterRange,
    name: DurationName,
    { count, sumMs }: { count: number; sumMs: number },
  ): DurationTally => {
    if (count > 0) {
      for (const span of spansOf(range)) {
        for (const { counts } of stored.all({ ...span, accountId, name })) histogram.add(counts);
      }
    }
    return { count, sumMs, buckets: histogram.take() };
  };
  const sums = db.$client.transaction((accountId: string, ranges: readonly QuarterRange[]) =>
    ranges.map((range): HappeningSums => {
      // An aggregate without GROUP BY always has one row.
      const { firstResponses, firstResponseMs, resolutions, resolutionMs, ...counts } = total.get({
        ...range,
        accountId,
      }) as Record<Added, number>;
      return {
        ...counts,
        firstResponses: tally(accountId, range, 'firstResponses', { count: firstResponses, sumMs: firstResponseMs }),
        resolutions: tally(accountId, range, 'resolutions', { count: resolutions, sumMs: resolutionMs }),
      };
    }),
  );
  return { sums: (accountId, ranges) => sums(accountId, ranges) };
}

function prepareWrites(db: Queries) {
  const add = db
    .insert(counters)
    .values({
      accountId: sql.placeholder('accountId'),
      quarter: sql.placeholder('quarter'),
      ...each((_, name) => sql.placeholder(name)),
    })
    .onConflictDoUpdate({
      target: [counters.accountId, counters.quarter],
      set: each((column) => sql`${column} + excluded.${sql.identifier(column.name)}`),
    })
    .prepare();
  const find = db
    .select({ counts: histograms.counts })
    .from(histograms)
    .where(
      and(
        eq(histograms.accountId, sql.placeholder('accountId')),
        eq(histograms.name, sql.placeholder('name')),
        eq(histograms.width, sql.placeholder('width')),
        eq(histograms.quarter, sql.placeholder('quarter')),
      ),
    )
    .prepare();
  const put = db
    .insert(histograms)
    .values({
      accountId: sql.placeholder('accountId'),
      name: sql.placeholder('name'),
      width: sql.placeholder('width'),
      quarter: sql.placeholder('quarter'),
      counts: sql.placeholder('counts'),
    })
    .onConflictDoUpdate({
      target: [histograms.accountId, histograms.name, histograms.width, histograms.quarter],
      set: { counts: sql`excluded.counts` },
    })
    .prepare();
  return { add, find, put };
}

export function analyticsWrites(db: Queries): AnalyticsWrites {
  const { add, find, put } = prepareWrites(db);
  const none = each(() => 0);
  const record = (accountId: string, quarter: number, name: DurationName, durationMs: number | undefined): number => {
    if (durationMs === undefined) return 0;
    for (const width of widths) {
      const key = { accountId, name, width, quarter: Math.floor(quarter / width) * width };
      put.run({ ...key, counts: withOneMore(find.get(key)?.counts, bucketOf(durationMs)) });
    }
    return 1;
  };
  return {
    add: (accountId, quarter, happenings) => {
      add.run({
        ...none,
        ...happenings,
        accountId,
        quarter,
        firstResponses: record(accountId, quarter, 'firstResponses', happenings.firstResponseMs),
        resolutions: record(accountId, quarter, 'resolutions', happenings.resolutionMs),
      });
    },
  };
}

/** Adds the sums of many changes. The result is the same as when they are added one by one. */
export function analyticsAddition(db: Queries): (accountId: string, sums: ReadonlyMap<number, HappeningSums>) => void {
  const { add, find, put } = prepareWrites(db);
  const histogram = new HistogramSum();
  return (accountId, sums) => {
    for (const [quarter, { firstResponses, resolutions, ...counts }] of sums) {
      add.run({
        ...counts,
        accountId,
        quarter,
        firstResponses: firstResponses.count,
        firstResponseMs: firstResponses.sumMs,
        resolutions: resolutions.count,
        resolutionMs: resolutions.sumMs,
      });
    }
    for (const name of ['firstResponses', 'resolutions'] as const) {
      const some = [...sums].filter(([, { [name]: tally }]) => tally.count > 0);
      for (const width of widths) {
        for (const [quarter, within] of Map.groupBy(some, ([at]) => Math.floor(at / width) * width)) {
          const key = { accountId, name, width, quarter };
          const stored = find.get(key);
          if (stored !== undefined) histogram.add(stored.counts);
          for (const [, { [name]: tally }] of within) histogram.addBuckets(tally.buckets);
          put.run({ ...key, counts: encodeHistogram(histogram.take()) });
        }
      }
    }
  };
}
