import type { DurationFigures } from './analytics-shape.ts';

// How long things took, kept as logarithmic histograms: each bucket reaches 1 % further than the one
// below it, so that a quantile needs no single duration, and its error does not depend on its size.

const growth = 1.01;
const logOfGrowth = Math.log(growth);

/** No duration lies in a bucket as high as this: that of all the milliseconds a Date knows is 3,688. */
export const bucketLimit = 4_096;

/** Durations, of which their number, their sum and their distribution are known. */
export interface DurationTally {
  readonly count: number;
  readonly sumMs: number;
  /** Each bucket that is not empty, ascending, and after it its count: a long series has a million of them. */
  readonly buckets: readonly number[];
}

/** What tallies come to together. */
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

/**
 * The bucket of a duration in whole milliseconds: 0 for none, else one above the whole part of its logarithm.
 * The migration that counts what is there already says the same in SQL.
 */
export function bucketOf(durationMs: number): number {
  return durationMs < 1 ? 0 : 1 + Math.floor(Math.log(durationMs) / logOfGrowth);
}

/**
 * What stands for all durations of a bucket: its geometric middle, to the millisecond. It is less than
 * 0.5 % off before rounding, so exact below 100 ms and within 1 % above.
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

/** A quantile, between the two durations nearest to it in proportion, as spreadsheets and SQL's `percentile_cont` have it. */
function quantileMs(tally: DurationTally, fraction: number): number {
  const place = (tally.count - 1) * fraction;
  const below = Math.floor(place);
  const low = atRankMs(tally, below);
  const high = atRankMs(tally, Math.ceil(place));
  return low + (high - low) * (place - below);
}

/** The duration at a place in ascending order, 0 the shortest. */
function atRankMs({ buckets }: DurationTally, rank: number): number {
  let passed = 0;
  for (let at = 0; at < buckets.length; at += 2) {
    passed += buckets[at + 1] as number;
    if (rank < passed) return middleMs(buckets[at] as number);
  }
  throw new Error(`The histogram ends before rank ${rank}`);
}
