import type { Histogram } from './histogram.ts';

// The text format of Prometheus, version 0.0.4.

export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

export type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  readonly labels?: Labels;
  readonly value: number;
}

/** A metric family: samples of one metric, distinguished by their labels. */
export type Family = { readonly name: string; readonly help: string } & (
  | { readonly type: 'counter' | 'gauge'; readonly samples: Iterable<Sample> }
  | { readonly type: 'histogram'; readonly histograms: Iterable<{ labels?: Labels; histogram: Histogram }> }
);

/** Renders metric families for a scraper. */
export function exposition(families: Iterable<Family>): string {
  return [...families].flatMap(linesOf).join('\n').concat('\n');
}

function linesOf(family: Family): string[] {
  const { name, help, type } = family;
  return [
    `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`,
    `# TYPE ${name} ${type}`,
    ...(family.type === 'histogram'
      ? [...family.histograms].flatMap(({ labels, histogram }) => linesOfHistogram(name, labels, histogram))
      : [...family.samples].map((sample) => line(name, sample))),
  ];
}

function linesOfHistogram(name: string, labels: Labels = {}, { bounds, counts, sum }: Histogram): string[] {
  let count = 0;
  const buckets = counts.map((inBucket, index) => {
    count += inBucket;
    return line(`${name}_bucket`, { labels: { ...labels, le: bounds[index] ?? '+Inf' }, value: count });
  });
  return [...buckets, line(`${name}_sum`, { labels, value: sum }), line(`${name}_count`, { labels, value: count })];
}

function line(name: string, { labels = {}, value }: Sample): string {
  const inside = Object.entries(labels).map(([label, of]) => `${label}="${escaped(String(of))}"`);
  return `${name}${inside.length === 0 ? '' : `{${inside.join(',')}}`} ${value}`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
