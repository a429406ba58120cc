import { request } from 'undici';
import { expect } from 'vitest';

/** What a scrape gave: the value of each series, by its name and labels as they are written. */
export class Scrape {
  readonly text: string;
  readonly values: ReadonlyMap<string, number>;

  constructor(text: string) {
    this.text = text;
    this.values = parse(text);
  }

  /** The value of one series; undefined when there is none. */
  get(series: string): number | undefined {
    return this.values.get(series);
  }

  /** The values of a family, by their labels. */
  family(name: string): Record<string, number> {
    const series = [...this.values].filter(([key]) => key === name || key.startsWith(`${name}{`));
    return Object.fromEntries(series.map(([key, value]) => [key.slice(name.length), value]));
  }
}

export async function scrape(url: string): Promise<Scrape> {
  const response = await request(`${url}/metrics`);
  expect(response.statusCode).toBe(200);
  return new Scrape(await response.body.text());
}

const label = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const sample = new RegExp(`^([a-zA-Z_:][a-zA-Z0-9_:]*)((?:\\{${label}(?:,${label})*\\})?) (\\+Inf|NaN|-?[0-9.e+-]+)$`);

/** The text format of Prometheus, version 0.0.4, as strictly as its documentation has it. */
function parse(text: string): Map<string, number> {
  expect(text.endsWith('\n')).toBe(true);
  const values = new Map<string, number>();
  const families = new Set<string>();
  let [name, type] = ['', ''];
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') continue;
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
    if (comment !== null) {
      const [, kind, of = '', rest = ''] = comment;
      if (kind === 'HELP') {
        expect(families, `${of} is one group`).not.toContain(of);
        families.add(of);
        [name, type] = [of, ''];
      } else {
        expect(of).toBe(name);
        expect(rest).toMatch(/^(counter|gauge|histogram)$/);
        type = rest;
      }
      continue;
    }
    const [, of = '', labels = '', value = ''] = sample.exec(line) ?? [];
    expect(line).toMatch(sample);
    const base = type === 'histogram' ? of.replace(/_(bucket|sum|count)$/, '') : of;
    expect({ line, base }).toEqual({ line, base: name });
    expect(values.has(of + labels), `${of}${labels} is there once`).toBe(false);
    values.set(of + labels, Number(value.replace('+Inf', 'Infinity')));
  }
  checkHistograms(values);
  return values;
}

/** Buckets are cumulative, and the last one holds as many as `_count` says. */
function checkHistograms(values: ReadonlyMap<string, number>): void {
  const last = new Map<string, number>();
  for (const [series, value] of values) {
    if (!series.includes('_bucket{')) continue;
    const of = series
      .replace('_bucket{', '_count{')
      .replace(/le="[^"]*",?/, '')
      .replace('{}', '');
    expect(value, series).toBeGreaterThanOrEqual(last.get(of) ?? 0);
    last.set(of, value);
    if (series.includes('le="+Inf"')) expect(values.get(of), series).toBe(value);
  }
}
