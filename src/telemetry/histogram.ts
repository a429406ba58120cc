/** A histogram for Prometheus, counting from the start of the process. */
export class Histogram {
  /** The inclusive upper bounds of the buckets, ascending; a last, unbounded bucket follows. */
  readonly bounds: readonly number[];
  /** Number of values in each bucket, not cumulative. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++;
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    this.sum += value;
  }
}
