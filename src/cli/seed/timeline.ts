import type { Random } from './random.ts';

// When things happen in a shop: in UTC, so that the same seed gives the same days everywhere.

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** How busy each hour of a day is, from midnight. */
const hours = [2, 1, 1, 1, 1, 2, 5, 11, 22, 34, 40, 38, 32, 34, 37, 36, 33, 30, 28, 31, 33, 26, 14, 6];
/** How busy each day of the week is, from Sunday. */
const days = [0.5, 1.4, 1.15, 1.05, 1, 0.95, 0.6];
/** By how much business grows from the beginning to the end: 0.4 is 40 %. */
const growth = 0.4;

/**
 * The start times of conversations, ascending, in epoch milliseconds: few at night and at weekends, many on Mondays, and
 * slightly more each week. They are generated one by one, so memory does not grow with their number.
 */
export function* arrivals(random: Random, count: number, fromMs: number, toMs: number): Generator<number, void> {
  const weightAt = (atMs: number, lengthMs: number): number => {
    const at = new Date(atMs);
    const grown = 1 + (growth * (atMs - fromMs)) / (toMs - fromMs);
    return ((days[at.getUTCDay()] as number) * (hours[at.getUTCHours()] as number) * grown * lengthMs) / hourMs;
  };
  const endOfHour = (atMs: number): number => Math.min(toMs, (Math.floor(atMs / hourMs) + 1) * hourMs);
  let total = 0;
  for (let atMs = fromMs; atMs < toMs; atMs = endOfHour(atMs)) total += weightAt(atMs, endOfHour(atMs) - atMs);

  let startMs = fromMs;
  let weight = weightAt(startMs, endOfHour(startMs) - startMs);
  let passed = 0; // the weight of the hours before this one
  let left = 1; // the share of the total weight after the latest start
  for (let rest = count; rest > 0; rest--) {
    // The smallest of `rest` uniformly distributed numbers: drawn in this way, they come sorted.
    left *= (1 - random.next()) ** (1 / rest);
    const target = (1 - left) * total;
    while (passed + weight < target && endOfHour(startMs) < toMs) {
      passed += weight;
      startMs = endOfHour(startMs);
      weight = weightAt(startMs, endOfHour(startMs) - startMs);
    }
    const within = Math.min(1, Math.max(0, (target - passed) / weight));
    yield Math.floor(startMs + within * (endOfHour(startMs) - startMs - 1));
  }
}

const opensAt = 7;
const closesAt = 22;

/** When an agent gets to something: at once during opening hours, otherwise the next morning, after a random delay. */
export function atWork(random: Random, atMs: number): number {
  const midnight = Math.floor(atMs / dayMs) * dayMs;
  const hour = (atMs - midnight) / hourMs;
  if (hour >= opensAt && hour < closesAt) return atMs;
  const opensMs = midnight + opensAt * hourMs + (hour < opensAt ? 0 : dayMs);
  return Math.floor(opensMs + random.logNormal(25 * minuteMs, 0.8));
}
