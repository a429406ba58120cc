import * as z from 'zod';

/** RFC 3339 in UTC with milliseconds: the only format of times in responses. */
export type Timestamp = string;

/** A time in a response. */
export const timeShape = z.string().meta({
  format: 'date-time',
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`,
  examples: ['2026-11-21T06:12:00.000Z'],
});

const hourMs = 3_600_000;
const maxHours = 4_096;
/** Cached prefixes of timestamps, up to the hour. */
const hours = new Map<number, string>();
const sixty = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));
/** The `mm:ss.` of every second in an hour. */
const seconds = sixty.flatMap((minute) => sixty.map((second) => `${minute}:${second}.`));
const milliseconds = Array.from({ length: 1_000 }, (_, number) => `${String(number).padStart(3, '0')}Z`);

/**
 * Formats a time. A page of a list has a hundred of them, and `toISOString` took longer than the query, so the parts
 * are looked up. There are few parts because V8 represents a concatenated string as a tree of them.
 * @throws RangeError for an invalid time
 */
export function timestamp(epochMs: number): Timestamp {
  const hour = Math.floor(epochMs / hourMs);
  let start = hours.get(hour);
  if (start === undefined) {
    start = new Date(hour * hourMs).toISOString().slice(0, -'00:00.000Z'.length);
    if (hours.size === maxHours) hours.clear();
    hours.set(hour, start);
  }
  const rest = Math.floor(epochMs - hour * hourMs);
  const end = `${seconds[Math.floor(rest / 1_000)]}${milliseconds[rest % 1_000]}`;
  return `${start}${end}`;
}

const rfc3339 = z.regexes.datetime({ offset: true });
/** The range of RFC 3339 in UTC. An offset can lead beyond it. */
const [firstMs, lastMs] = [Date.parse('0000-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];

/** Digits below a millisecond, which `Date.parse` truncates. */
const finer = /\.\d{3}\d*[1-9]/;

function inputRounded(to: 'down' | 'up') {
  return z
    .string()
    .meta({ format: 'date-time' })
    .transform((text, { issues }) => {
      const time = text.toUpperCase();
      const epochMs = rfc3339.test(time) ? Date.parse(time) : Number.NaN;
      if (epochMs >= firstMs && epochMs <= lastMs) {
        return to === 'up' && finer.test(time) ? Math.min(epochMs + 1, lastMs) : epochMs;
      }
      const message = Number.isNaN(epochMs)
        ? 'must be an RFC 3339 time such as 2026-11-21T06:12:00.000Z'
        : 'must be in the years 0000 to 9999 of UTC';
      issues.push({ code: 'custom', input: text, message });
      return Number.NaN;
    });
}

/**
 * A time in a request: RFC 3339 with any offset, also in lower case, parsed to epoch milliseconds. Rounded down, so
 * that every millisecond later than the result is later than the given time.
 */
export const timeInput = inputRounded('down');

/** The same rounded up: every millisecond earlier than the result is earlier than the given time. */
export const timeInputRoundedUp = inputRounded('up');
