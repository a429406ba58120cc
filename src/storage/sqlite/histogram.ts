import { bucketLimit } from '../../domain/durations.ts';

// The stored form of a histogram: six bytes, big-endian, for each bucket that is not empty, in ascending order: two for
// the bucket and four for its count. It is small because few buckets are used. It fits one row: with a row per bucket,
// a report of a month would read a million.

const entryBytes = 6;

/** Returns the histogram with the count of one bucket increased by 1. */
export function withOneMore(histogram: Buffer | undefined, bucket: number): Buffer {
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

/** Adds up histograms. */
export class HistogramSum {
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
