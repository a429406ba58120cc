import { z } from 'zod';

/** RFC 3339 in UTC with milliseconds: the only form in which the service gives a time. */
export type Timestamp = string;

/** A time as an answer shows it. */
export const timeShape = z.string().meta({
  format: 'date-time',
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`,
  examples: ['2026-11-21T06:12:00.000Z'],
});

const dayMs = 24 * 3_600_000;
const maxDays = 4_096;
/** The date and the `T` of days that were asked for lately. */
const days = new Map<number, string>();
const hundred = Array.from({ length: 100 }, (_, number) => String(number).padStart(2, '0'));
const thousand = Array.from({ length: 1_000 }, (_, number) => String(number).padStart(3, '0'));

/**
 * Writes a time. A page of a list holds a hundred of them, and `toISOString` took longer for these than the
 * query: so the date is looked up and only the time of day is put together.
 * @throws RangeError for what is no time
 */
export function timestamp(epochMs: number): Timestamp {
  const day = Math.floor(epochMs / dayMs);
  let date = days.get(day);
  if (date === undefined) {
    date = new Date(day * dayMs).toISOString().slice(0, -'00:00:00.000Z'.length);
    if (days.size === maxDays) days.clear();
    days.set(day, date);
  }
  const rest = Math.floor(epochMs - day * dayMs);
  const seconds = Math.floor(rest / 1_000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  return `${date}${hundred[hours]}:${hundred[minutes % 60]}:${hundred[seconds % 60]}.${thousand[rest % 1_000]}Z`;
}

/** A time given by a caller, in any RFC 3339 offset; parsed to epoch milliseconds. */
export const timeInput = z.iso
  .datetime({ offset: true, error: 'must be an RFC 3339 time such as 2026-11-21T06:12:00.000Z' })
  .transform((text) => Date.parse(text));
