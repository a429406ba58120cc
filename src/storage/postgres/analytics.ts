import { type AnalyticsSums, type QuarterRange, sumsOfAll } from '../../domain/analytics-delta.ts';
import { bucketOf, type DurationTally } from '../../domain/durations.ts';
import type { AnalyticsReads, AnalyticsWrites } from '../../domain/storage-port.ts';
import { Room } from '../../runtime/room.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { type Added, added, partsOf, spansOf, widths } from '../analytics-spans.ts';
import { fromJson, type Json } from '../rows/values.ts';
import { columnOf } from '../sql.ts';
import { arrayOf, type Statements } from './statements.ts';
import type { analyticsHistograms } from './tables.ts';

/** How much is read by one statement: some tens of milliseconds, or some tenths of a second with a thousand durations a day. */
const daysAtOnce = 100;
const partsAtOnce = 200;
/** How many statements of reports of one account run at once. */
const statementsOfAccount = { sizeOfAccount: 1, waitingOfAccount: Number.POSITIVE_INFINITY };

type DurationName = (typeof analyticsHistograms.$inferSelect)['name'];

/** Each bucket that is not empty, with its count. */
type Histogram = Json<readonly (readonly [bucket: number, count: number])[]> | null;

type SumsRow = Record<Added, number> & Readonly<Record<'firstResponseBuckets' | 'resolutionBuckets', Histogram>>;

/** A part of the range at a place among others. */
interface Part extends QuarterRange {
  readonly at: number;
}

/** Divides ranges into what is read by one statement each. */
function* stepsOf(ranges: readonly QuarterRange[]): Generator<readonly Part[]> {
  let parts: Part[] = [];
  let left = daysAtOnce * widths[0];
  for (const [at, range] of ranges.entries()) {
    for (const part of partsOf(range, daysAtOnce)) {
      const length = part.to - part.from;
      if (parts.length === partsAtOnce || (length > left && parts.length > 0)) {
        yield parts;
        [parts, left] = [[], daysAtOnce * widths[0]];
      }
      parts.push({ ...part, at });
      left -= length;
    }
  }
  if (parts.length > 0) yield parts;
}

/** @param statementsAtOnce how many statements of reports run at once: other connections are for what takes less time */
export function analyticsReads(db: Statements, statementsAtOnce: number): AnalyticsReads {
  const sums = added.map((name) => `coalesce(sum(${columnOf(name)}), 0)::bigint AS ${columnOf(name)}`);
  const histogramOf = (name: DurationName) =>
    `json_agg(json_build_array(bucket, count) ORDER BY bucket) FILTER (WHERE name = '${name}')`;
  // One statement sees one state: so the histograms agree with the counts. Each span is looked up by itself: joined, all that
  // the account has would be read; and each sum has its histogram at once, instead of looking for it among those of all.
  const read = db.prepare<SumsRow>(
    `WITH buckets AS (SELECT span.at, kind.name, held.bucket, sum(held.count)::bigint AS count
        FROM unnest(:spanAts::integer[], :spanWidths::integer[], :spanFroms::integer[], :spanTos::integer[])
          AS span (at, width, first, past)
        CROSS JOIN (VALUES ('firstResponses'), ('resolutions')) AS kind (name)
        CROSS JOIN LATERAL (SELECT bucket, sum(count) AS count FROM analytics_histograms
          WHERE account_id = :accountId AND name = kind.name AND width = span.width
            AND quarter >= span.first AND quarter < span.past GROUP BY bucket) AS held
        GROUP BY span.at, kind.name, held.bucket),
      histograms AS MATERIALIZED (SELECT at, ${histogramOf('firstResponses')} AS first_response_buckets,
          ${histogramOf('resolutions')} AS resolution_buckets FROM buckets GROUP BY at)
      SELECT counted.*, first_response_buckets, resolution_buckets
        FROM unnest(:froms::integer[], :tos::integer[]) WITH ORDINALITY AS range (first, past, at)
        CROSS JOIN LATERAL (SELECT ${sums.join(', ')} FROM analytics_counters
          WHERE account_id = :accountId AND quarter >= range.first AND quarter < range.past) AS counted
        LEFT JOIN histograms ON histograms.at = range.at
        ORDER BY range.at`,
  );
  const tallyOf = (count: number, sumMs: number, histogram: Histogram): DurationTally => ({
    count,
    sumMs,
    buckets: fromJson(histogram)?.flat() ?? [],
  });
  const sumsOf = async (accountId: string, ranges: readonly QuarterRange[]): Promise<AnalyticsSums[]> => {
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
  };
  const room = new Room({ ...statementsOfAccount, size: statementsAtOnce });
  return {
    async sums(accountId, ranges) {
      const found: AnalyticsSums[][] = ranges.map(() => []);
      for (const parts of stepsOf(ranges)) {
        const leave = await room.enter(accountId, 1);
        try {
          await scheduler.step(accountId);
          const sums = await sumsOf(accountId, parts);
          for (const [index, { at }] of parts.entries()) found[at]?.push(sums[index] as AnalyticsSums);
        } finally {
          leave?.();
        }
      }
      return found.map((sums) => (sums.length === 1 ? (sums[0] as AnalyticsSums) : sumsOfAll(sums)));
    },
  };
}

export function analyticsWrites(db: Statements): AnalyticsWrites {
  const sums = added.map((name) => `${columnOf(name)} = held.${columnOf(name)} + excluded.${columnOf(name)}`);
  const columns = added.map(columnOf);
  const add = db.prepareForRows(
    `INSERT INTO analytics_counters AS held (account_id, quarter, ${columns.join(', ')})
      SELECT (SELECT account_id FROM account_totals WHERE account_id = given.account_id), quarter,
          ${columns.map((column) => `sum(${column})`).join(', ')}
        FROM :rows GROUP BY given.account_id, quarter
      ON CONFLICT (account_id, quarter) DO UPDATE SET ${sums.join(', ')}`,
    { texts: ['accountId'], numbers: ['quarter', ...added] },
  );
  // A row for each bucket, and not one for a histogram: nothing has to be read before it is written.
  const count = db.prepare(
    `INSERT INTO analytics_histograms AS held (account_id, name, width, quarter, bucket, count)
      SELECT :accountId, :name, span.width, :quarter::integer / span.width * span.width, :bucket::integer, 1
        FROM unnest(:widths::integer[]) AS span (width)
      ON CONFLICT (account_id, name, width, quarter, bucket) DO UPDATE SET count = held.count + 1`,
  );
  const none = Object.fromEntries(added.map((name) => [name, 0])) as Record<Added, number>;
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
