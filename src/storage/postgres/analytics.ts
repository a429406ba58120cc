import type { AnalyticsSums } from '../../domain/analytics-delta.ts';
import { bucketOf, type DurationTally } from '../../domain/durations.ts';
import type { AnalyticsReads, AnalyticsWrites } from '../../domain/storage-port.ts';
import { type Added, added, spansOf, widths } from '../analytics-spans.ts';
import { fromJson, type Json } from '../rows/values.ts';
import { columnOf, insertInto } from '../sql.ts';
import { knownAccount } from './accounts.ts';
import { arrayOf, type Statements } from './statements.ts';
import type { analyticsHistograms } from './tables.ts';

type DurationName = (typeof analyticsHistograms.$inferSelect)['name'];

/** Each bucket that is not empty, and its count. */
type Histogram = Json<readonly number[]> | null;

type SumsRow = Record<Added, number> & Readonly<Record<'firstResponseBuckets' | 'resolutionBuckets', Histogram>>;

export function analyticsReads(db: Statements): AnalyticsReads {
  const sums = added.map((name) => `coalesce(sum(${columnOf(name)}), 0)::bigint AS ${columnOf(name)}`);
  const histogramOf = (name: DurationName) =>
    `(SELECT json_agg(entry) FROM (SELECT unnest(ARRAY[bucket, count]) AS entry
      FROM histograms WHERE histograms.at = range.at AND name = '${name}' ORDER BY bucket) AS entries)`;
  // One statement sees one state: so the histograms agree with the counts.
  const read = db.prepare<SumsRow>(
    `WITH histograms AS MATERIALIZED (SELECT span.at, name, bucket, sum(count)::bigint AS count
        FROM unnest(:spanAts::integer[], :spanWidths::integer[], :spanFroms::integer[], :spanTos::integer[])
          AS span (at, width, first, past)
        JOIN analytics_histograms AS stored ON stored.account_id = :accountId
          AND stored.name IN ('firstResponses', 'resolutions') AND stored.width = span.width
          AND stored.quarter >= span.first AND stored.quarter < span.past
        GROUP BY span.at, name, bucket)
      SELECT counted.*, ${histogramOf('firstResponses')} AS first_response_buckets,
          ${histogramOf('resolutions')} AS resolution_buckets
        FROM unnest(:froms::integer[], :tos::integer[]) WITH ORDINALITY AS range (first, past, at)
        CROSS JOIN LATERAL (SELECT ${sums.join(', ')} FROM analytics_counters
          WHERE account_id = :accountId AND quarter >= range.first AND quarter < range.past) AS counted
        ORDER BY range.at`,
  );
  const tallyOf = (count: number, sumMs: number, histogram: Histogram): DurationTally => ({
    count,
    sumMs,
    buckets: fromJson(histogram) ?? [],
  });
  return {
    async sums(accountId, ranges) {
      const spans = ranges.flatMap((range, index) => [...spansOf(range)].map((span) => ({ ...span, at: index + 1 })));
      const rows = await read.all({
        accountId,
        froms: arrayOf(ranges.map(({ from }) => from)),
        tos: arrayOf(ranges.map(({ to }) => to)),
        spanAts: arrayOf(spans.map(({ at }) => at)),
        spanWidths: arrayOf(spans.map(({ width }) => width)),
        spanFroms: arrayOf(spans.map(({ from }) => from)),
        spanTos: arrayOf(spans.map(({ to }) => to)),
      });
      return rows.map((row): AnalyticsSums => {
        const { firstResponses, firstResponseMs, resolutions, resolutionMs, ...others } = row;
        const { firstResponseBuckets, resolutionBuckets, ...counts } = others;
        return {
          ...counts,
          firstResponses: tallyOf(firstResponses, firstResponseMs, firstResponseBuckets),
          resolutions: tallyOf(resolutions, resolutionMs, resolutionBuckets),
        };
      });
    },
  };
}

export function analyticsWrites(db: Statements): AnalyticsWrites {
  const sums = added.map((name) => `${columnOf(name)} = held.${columnOf(name)} + excluded.${columnOf(name)}`);
  const add = db.prepare(
    `${insertInto('analytics_counters AS held', ['quarter', ...added], { accountId: knownAccount })}
      ON CONFLICT (account_id, quarter) DO UPDATE SET ${sums.join(', ')}`,
  );
  // A row for each bucket, and not one for a histogram: nothing has to be read before it is written.
  const count = db.prepare(
    `INSERT INTO analytics_histograms AS held (account_id, name, width, quarter, bucket, count)
      SELECT :accountId, :name, span.width, :quarter::integer / span.width * span.width, :bucket::integer, 1
        FROM unnest(:widths::integer[]) AS span (width)
      ON CONFLICT (account_id, name, width, quarter, bucket) DO UPDATE SET count = held.count + 1`,
  );
  const none = Object.fromEntries(added.map((name) => [name, 0]));
  const record = async (accountId: string, quarter: number, name: DurationName, durationMs: number | undefined) => {
    if (durationMs === undefined) return 0;
    await count.send({ accountId, name, quarter, bucket: bucketOf(durationMs), widths: arrayOf(widths) });
    return 1;
  };
  return {
    add: async (accountId, quarter, delta) => {
      await add.send({
        ...none,
        ...delta,
        accountId,
        quarter,
        firstResponses: await record(accountId, quarter, 'firstResponses', delta.firstResponseMs),
        resolutions: await record(accountId, quarter, 'resolutions', delta.resolutionMs),
      });
    },
  };
}
