const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** How long to wait after each failed attempt of the schedule: the first is made at once, so these make ten. */
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
/** Each wait is up to a fifth shorter or longer: what failed together should not come back together. */
const jitter = 0.2;
const maxRetryAfterMs = 24 * hourMs;
/** How long the ten attempts take at most, as long as no receiver asks for longer waits. */
export const scheduleMs = waitsMs.reduce((sum, wait) => sum + wait * (1 + jitter), 0);
/** A webhook that fails for this long without a success is disabled. */
export const failingMs = 5 * 24 * hourMs;

/**
 * How long to wait for the next attempt.
 * @param step how many attempts of the schedule have failed, this one included
 * @param random from 0 to 1
 * @param retryAfterMs what the receiver asked for: it can lengthen the wait, up to a day
 * @returns milliseconds, or undefined when the schedule has come to its end
 */
export function waitMs(step: number, random: number, retryAfterMs = 0): number | undefined {
  const wait = waitsMs[step - 1];
  if (wait === undefined) return undefined;
  return Math.max(Math.round(wait * (1 - jitter + 2 * jitter * random)), Math.min(retryAfterMs, maxRetryAfterMs));
}

/** Reads a `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date. */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,10}$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
