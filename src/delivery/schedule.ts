const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** The wait after each failed attempt. The first attempt is made at once, so there are ten in all. */
const waitsMs = [
  5_000,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
];
/** Each wait is up to a fifth shorter or longer, so that deliveries that failed together are not retried together. */
const jitter = 0.2;
const maxRetryAfterMs = 24 * hourMs;
/** The longest time from the first to the tenth attempt, unless the receiver asks for longer waits. */
export const scheduleMs = waitsMs.reduce((sum, wait) => sum + wait * (1 + jitter), 0);
/** A webhook without a success for this long since its first failure is disabled. */
export const failingMs = 5 * 24 * hourMs;

/**
 * The wait until the next attempt.
 * @param step how many attempts of the schedule have failed, including the last one
 * @param random from 0 to 1
 * @param retryAfterMs the wait that the receiver asked for, which can lengthen this one up to a day
 * @returns milliseconds, or undefined at the end of the schedule
 */
export function waitMs(step: number, random: number, retryAfterMs = 0): number | undefined {
  const wait = waitsMs[step - 1];
  if (wait === undefined) return undefined;
  return Math.max(Math.round(wait * (1 - jitter + 2 * jitter * random)), Math.min(retryAfterMs, maxRetryAfterMs));
}

/** `Date.parse` alone takes nearly anything for a date, `-5` and `Foo 2099` too. */
const httpDate = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*, \d\d[ -][A-Z][a-z][a-z][ -]\d\d(?:\d\d)? \d\d:\d\d:\d\d GMT$/;

/**
 * Parses a `Retry-After` header (RFC 9110, section 10.2.3): seconds or a date.
 * @returns milliseconds, however many; undefined for anything else
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+$/.test(header)) return Number(header) * 1_000;
  const at = httpDate.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
