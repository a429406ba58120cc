import type { DurationFigures } from './analytics-shape.ts';

// Durations, aggregated in logarithmic histograms: the upper bound of each bucket is 1 % above that of the one below,
// so quantiles need no individual values and their relative error is constant.

const growth = 1.01;
const logOfGrowth = Math.log(growth);

/** Exceeds every bucket: the longest duration that a Date can express falls into bucket 3,688. */
export const bucketLimit = 4_096;

export interface DurationTally {
  readonly count: number;
  readonly sumMs: number;
  /**
   * Non-empty buckets in ascending order, each followed by its count. Flat, because a long series has a million of
   * them.
   */
  readonly buckets: readonly number[];
}

/** The sum of tallies. */
export function tallyOfAll(tallies: readonly DurationTally[]): DurationTally {
  const counts = new Float64Array(bucketLimit);
  let [count, sumMs] = [0, 0];
  for (const tally of tallies) {
    count += tally.count;
    sumMs += tally.sumMs;
    const { buckets } = tally;
    for (let at = 0; at < buckets.length; at += 2) {
      const bucket = buckets[at] as number;
      counts[bucket] = (counts[bucket] as number) + (buckets[at + 1] as number);
    }
  }
  const buckets: number[] = [];
  for (let bucket = 0; bucket < bucketLimit; bucket++) {
    const inBucket = counts[bucket] as number;
    if (inBucket > 0) buckets.push(bucket, inBucket);
  }
  return { count, sumMs, buckets };
}

/** The bucket of a duration in whole milliseconds: 0 for zero, otherwise 1 plus the integer part of its logarithm. */
export function bucketOf(durationMs: number): number {
  return durationMs < 1 ? 0 : 1 + Math.floor(Math.log(durationMs) / logOfGrowth);
}

/**
 * The value that represents a bucket: its geometric mean, rounded to a millisecond. It is less than 0.5 % off before
 * rounding, so exact below 100 ms and within 1 % above.
 */
function middleMs(bucket: number): number {
  return bucket === 0 ? 0 : Math.round(growth ** (bucket - 0.5));
}

/** The figures in seconds: the mean exact, the quantiles within 1 %. */
export function durationFigures(tally: DurationTally): DurationFigures {
  const { count, sumMs } = tally;
  if (count === 0) return { count, mean: null, median: null, p90: null };
  return {
    count,
    mean: sumMs / count / 1_000,
    median: quantileMs(tally, 0.5) / 1_000,
    p90: quantileMs(tally, 0.9) / 1_000,
  };
}

/** A quantile, interpolated linearly between the two nearest durations like SQL's `percentile_cont`. */
function quantileMs(tally: DurationTally, fraction: number): number {
  const place = (tally.count - 1) * fraction;
  const below = Math.floor(place);
  const low = atRankMs(tally, below);
  const high = atRankMs(tally, Math.ceil(place));
  return low + (high - low) * (place - below);
}

/** The duration with this rank, 0 being the shortest. */
function atRankMs({ buckets }: DurationTally, rank: number): number {
  let passed = 0;
  for (let at = 0; at < buckets.length; at += 2) {
    passed += buckets[at + 1] as number;
    if (rank < passed) return middleMs(buckets[at] as number);
  }
  throw new Error(`The histogram ends before rank ${rank}`);
}
