import { z } from 'zod';

/** RFC 3339 in UTC with milliseconds: the only form in which the service gives a time. */
export type Timestamp = string;

/** A time as an answer shows it. */
export const timeShape = z.string().meta({
  format: 'date-time',
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`,
  examples: ['2026-11-21T06:12:00.000Z'],
});

export function timestamp(epochMs: number): Timestamp {
  return new Date(epochMs).toISOString();
}

/** A time given by a caller, in any RFC 3339 offset; parsed to epoch milliseconds. */
export const timeInput = z.iso
  .datetime({ offset: true, error: 'must be an RFC 3339 time such as 2026-11-21T06:12:00.000Z' })
  .transform((text) => Date.parse(text));
