/** Counts values by how large they are, as Prometheus wants them: cumulative, from the start of the process on. */
export class Histogram {
  /** The upper ends of the buckets, ascending and each included; a last one without an end follows. */
  readonly bounds: readonly number[];
  /** How many values fell into each bucket. */
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
