import { z } from 'zod';

/** RFC 3339 in UTC with milliseconds: the only form in which the service gives a time. */
export type Timestamp = string;

/** A time as an answer shows it. */
export const timeShape = z.string().meta({
  format: 'date-time',
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`,
  examples: ['2026-11-21T06:12:00.000Z'],
});

const hourMs = 3_600_000;
const maxHours = 4_096;
/** What comes before the minutes, of hours that were asked for lately. */
const hours = new Map<number, string>();
const sixty = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));
/** The minutes and seconds of an hour, and what comes after them. */
const seconds = sixty.flatMap((minute) => sixty.map((second) => `${minute}:${second}.`));
const milliseconds = Array.from({ length: 1_000 }, (_, number) => `${String(number).padStart(3, '0')}Z`);

/**
 * Writes a time. A page of a list holds a hundred of them, and `toISOString` took longer for these than the
 * query: so its parts are looked up. They are few, since V8 keeps a text that was put together as the tree of its parts.
 * @throws RangeError for what is no time
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
/** What RFC 3339 has a form for in UTC. An offset can lead beyond it. */
const [firstMs, lastMs] = [Date.parse('0000-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];

/** What of a time is less than a millisecond: `Date.parse` cuts it off. */
const finer = /\.\d{3}\d*[1-9]/;

function inputRounded(to: 'down' | 'up') {
  return z
    .string()
    .meta({ format: 'date-time' })
    .transform((text, { issues }) => {
      const time = text.toUpperCase();
      const epochMs = rfc3339.test(time) ? Date.parse(time) : Number.NaN;
      if (epochMs >= firstMs && epochMs <= lastMs) return to === 'up' && finer.test(time) ? epochMs + 1 : epochMs;
      const message = Number.isNaN(epochMs)
        ? 'must be an RFC 3339 time such as 2026-11-21T06:12:00.000Z'
        : 'must be in the years 0000 to 9999 of UTC';
      issues.push({ code: 'custom', input: text, message });
      return Number.NaN;
    });
}

/**
 * A time given by a caller, in any RFC 3339 offset and with small letters too; parsed to epoch milliseconds. Whatever
 * is later than these is later than the time itself.
 */
export const timeInput = inputRounded('down');

/** The same, but whatever is earlier than these milliseconds is earlier than the time itself. */
export const timeInputRoundedUp = inputRounded('up');
