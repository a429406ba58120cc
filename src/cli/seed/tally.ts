import { bucketOf, type DurationTally } from '../../domain/durations.ts';
import { countNames, type HappeningSums, type Happenings } from '../../domain/happenings.ts';

type Counts = Record<(typeof countNames)[number], number>;

interface Sums extends Counts {
  readonly firstResponses: Durations;
  readonly resolutions: Durations;
}

const none = Object.fromEntries(countNames.map((name) => [name, 0])) as Counts;

/** Sums up the analytics counts of many changes by quarter hour. */
export class Tally {
  readonly #quarters = new Map<number, Sums>();

  add(quarter: number, happenings: Happenings): void {
    for (const name in happenings) {
      const value = happenings[name as keyof Happenings] as number;
      const sums = this.#of(quarter);
      if (name === 'firstResponseMs') sums.firstResponses.add(value);
      else if (name === 'resolutionMs') sums.resolutions.add(value);
      else sums[name as keyof Counts] += value;
    }
  }

  #of(quarter: number): Sums {
    const known = this.#quarters.get(quarter);
    if (known !== undefined) return known;
    const sums = { ...none, firstResponses: new Durations(), resolutions: new Durations() };
    this.#quarters.set(quarter, sums);
    return sums;
  }

  /** Removes and returns the sums of all quarter hours before the given one. */
  take(before: number): Map<number, HappeningSums> {
    const taken = new Map<number, HappeningSums>();
    for (const [quarter, { firstResponses, resolutions, ...counts }] of this.#quarters) {
      if (quarter >= before) continue;
      taken.set(quarter, { ...counts, firstResponses: firstResponses.tally(), resolutions: resolutions.tally() });
      this.#quarters.delete(quarter);
    }
    return taken;
  }
}

class Durations {
  readonly #counts = new Map<number, number>();
  #count = 0;
  #sumMs = 0;

  add(durationMs: number): void {
    const bucket = bucketOf(durationMs);
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + 1);
    this.#count++;
    this.#sumMs += durationMs;
  }

  tally(): DurationTally {
    const buckets = [...this.#counts].sort(([one], [other]) => one - other).flat();
    return { count: this.#count, sumMs: this.#sumMs, buckets };
  }
}
