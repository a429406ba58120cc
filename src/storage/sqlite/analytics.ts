import { type AnalyticsSums, type QuarterRange, sumsOfAll } from '../../domain/analytics-delta.ts';
import { bucketLimit, bucketOf, type DurationTally } from '../../domain/durations.ts';
import type { AnalyticsReads, AnalyticsWrites } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { type Added, added, partsOf, spansOf, widths } from '../analytics-spans.ts';
import { columnOf, insertInto } from '../sql.ts';
import { nextStep } from './paging.ts';
import type { Statements } from './statements.ts';
import type { analyticsHistograms } from './tables.ts';

type HistogramRow = typeof analyticsHistograms.$inferSelect;
type DurationName = HistogramRow['name'];

/** For how long a report reads before it waits for its account's next turn. */
const sliceMs = 2;

/** How many days are read at once, which takes about a millisecond. */
const daysAtOnce = 10;

export function analyticsReads(db: Statements): AnalyticsReads {
  const total = db.prepare<Record<Added, number>>(
    `SELECT ${added.map((name) => `coalesce(sum(${columnOf(name)}), 0) AS ${name}`).join(', ')}
      FROM analytics_counters WHERE account_id = :accountId AND quarter >= :from AND quarter < :to`,
  );
  const stored = db.prepare<Pick<HistogramRow, 'counts'>>(
    `SELECT counts FROM analytics_histograms
      WHERE account_id = :accountId AND name = :name AND width = :width AND quarter >= :from AND quarter < :to`,
  );
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
  const sumsOf = db.connection.transaction((accountId: string, range: QuarterRange): AnalyticsSums => {
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
  });
  return {
    async sums(accountId, ranges) {
      const sums: AnalyticsSums[] = [];
      await scheduler.step(accountId);
      let endMs = performance.now() + sliceMs;
      for (const range of ranges) {
        const parts: AnalyticsSums[] = [];
        for (const part of partsOf(range, daysAtOnce)) {
          if (performance.now() >= endMs) {
            await nextStep(accountId);
            endMs = performance.now() + sliceMs;
          }
          parts.push(sumsOf(accountId, part));
        }
        sums.push(parts.length === 1 ? (parts[0] as AnalyticsSums) : sumsOfAll(parts));
      }
      return sums;
    },
  };
}

export function analyticsWrites(db: Statements): AnalyticsWrites {
  const sums = added.map((name) => `${columnOf(name)} = ${columnOf(name)} + excluded.${columnOf(name)}`);
  const add = db.prepare(
    `${insertInto('analytics_counters', ['accountId', 'quarter', ...added])}
      ON CONFLICT DO UPDATE SET ${sums.join(', ')}`,
  );
  const find = db.prepare<Pick<HistogramRow, 'counts'>>(
    `SELECT counts FROM analytics_histograms
      WHERE account_id = :accountId AND name = :name AND width = :width AND quarter = :quarter`,
  );
  const put = db.prepare(
    `${insertInto('analytics_histograms', ['accountId', 'name', 'width', 'quarter', 'counts'])}
      ON CONFLICT DO UPDATE SET counts = excluded.counts`,
  );
  const none = Object.fromEntries(added.map((name) => [name, 0]));
  const record = (accountId: string, quarter: number, name: DurationName, durationMs: number | undefined): number => {
    if (durationMs === undefined) return 0;
    for (const width of widths) {
      const key = { accountId, name, width, quarter: Math.floor(quarter / width) * width };
      put.run({ ...key, counts: withOneMore(find.get(key)?.counts, bucketOf(durationMs)) });
    }
    return 1;
  };
  return {
    add: (accountId, quarter, delta) => {
      add.run({
        ...none,
        ...delta,
        accountId,
        quarter,
        firstResponses: record(accountId, quarter, 'firstResponses', delta.firstResponseMs),
        resolutions: record(accountId, quarter, 'resolutions', delta.resolutionMs),
      });
    },
  };
}

// The stored form of a histogram: six bytes, big-endian, for each bucket that is not empty, in ascending order: two for
// the bucket and four for its count. It is small because few buckets are used. It fits one row: with a row per bucket,
// a report of a month would read a million.

const entryBytes = 6;

/** Returns the histogram with the count of one bucket increased by 1. */
function withOneMore(histogram: Buffer | undefined, bucket: number): Buffer {
  const previous = histogram ?? Buffer.alloc(0);
  let at = 0;
  while (at < previous.length && previous.readUInt16BE(at) < bucket) at += entryBytes;
  if (at < previous.length && previous.readUInt16BE(at) === bucket) {
    const next = Buffer.from(previous);
    next.writeUInt32BE(previous.readUInt32BE(at + 2) + 1, at + 2);
    return next;
  }
  const entry = Buffer.alloc(entryBytes);
  entry.writeUInt16BE(bucket);
  entry.writeUInt32BE(1, 2);
  return Buffer.concat([previous.subarray(0, at), entry, previous.subarray(at)]);
}

/** Returns each bucket that is not empty, and its count. */
export function bucketsOf(histogram: Buffer): number[] {
  const buckets: number[] = [];
  for (let at = 0; at < histogram.length; at += entryBytes) {
    buckets.push(histogram.readUInt16BE(at), histogram.readUInt32BE(at + 2));
  }
  return buckets;
}

/** The histogram of these buckets, which ascend, and their counts. */
export function histogramOf(buckets: readonly number[]): Buffer {
  const histogram = Buffer.alloc((buckets.length / 2) * entryBytes);
  for (let index = 0; index < buckets.length; index += 2) {
    const at = (index / 2) * entryBytes;
    histogram.writeUInt16BE(buckets[index] as number, at);
    histogram.writeUInt32BE(buckets[index + 1] as number, at + 2);
  }
  return histogram;
}

/** Adds up histograms. */
class HistogramSum {
  readonly #counts = new Float64Array(bucketLimit);
  #lowest = bucketLimit;
  #highest = -1;

  add(histogram: Buffer): void {
    for (let at = 0; at < histogram.length; at += entryBytes) {
      this.#add(histogram.readUInt16BE(at), histogram.readUInt32BE(at + 2));
    }
  }

  #add(bucket: number, count: number): void {
    this.#counts[bucket] = (this.#counts[bucket] as number) + count;
    if (bucket < this.#lowest) this.#lowest = bucket;
    if (bucket > this.#highest) this.#highest = bucket;
  }

  /** Returns the sum as the domain's pairs of a bucket and its count, and starts again from nothing. */
  take(): number[] {
    const taken: number[] = [];
    for (let bucket = this.#lowest; bucket <= this.#highest; bucket++) {
      const count = this.#counts[bucket] as number;
      if (count > 0) taken.push(bucket, count);
    }
    this.#counts.fill(0, this.#lowest, this.#highest + 1);
    this.#lowest = bucketLimit;
    this.#highest = -1;
    return taken;
  }
}
