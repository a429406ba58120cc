import { countNames, type QuarterRange } from '../domain/analytics-delta.ts';

/** The sums of a quarter hour. Each has a column of its name. */
export const added = [...countNames, 'firstResponses', 'firstResponseMs', 'resolutions', 'resolutionMs'] as const;
export type Added = (typeof added)[number];

/**
 * Histograms are stored per UTC day, hour and quarter hour; these are their widths in quarter hours. A month is then
 * read as about thirty rows and two ragged ends, and a day in any time zone as about thirty rows.
 */
export const widths = [96, 4, 1] as const;

/** Divides a range into parts of so many whole days, but at its ends. */
export function* partsOf({ from, to }: QuarterRange, days: number): Generator<QuarterRange> {
  const most = days * widths[0];
  for (let start = from; start < to; ) {
    const end = Math.min(to, (Math.floor(start / most) + 1) * most);
    yield { from: start, to: end };
    start = end;
  }
}

interface Span extends QuarterRange {
  readonly width: number;
}

/** Covers a range with as few rows as possible: wide ones in the middle, narrower ones at its ends. */
export function* spansOf({ from, to }: QuarterRange, level = 0): Generator<Span> {
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
