// The arithmetic of the rate limit's sliding window. Times and minutes are those of the limiter's clock
// (steady-clock.ts), not of the time of day.

export const minuteMs = 60_000;
/**
 * The window is the current minute and the 60 before it: any 60 minutes lie within these 61, so none sees more than the
 * limit.
 */
export const minutesBefore = 60;

/** Requests counted against an account in one minute. */
export interface RateWindow {
  /** Whole minutes of the limiter's clock. */
  readonly minute: number;
  readonly count: number;
}

/** A part of an account's budget that one process has reserved. */
export interface ReservedBlock {
  readonly limit: number;
  /** The minute in which it is counted, and the only one in which it can be spent. */
  readonly minute: number;
  /** Reserved and not yet spent. */
  left: number;
  /** The counts in the storage, this block included, by ascending minute. */
  windows: readonly RateWindow[];
  /** When they were read, which is when the block was reserved. */
  readonly readAtMs: number;
}

export function minuteOf(atMs: number): number {
  return Math.floor(atMs / minuteMs);
}

export function isUsable(block: ReservedBlock, limit: number, nowMs: number): boolean {
  return block.limit === limit && block.minute === minuteOf(nowMs);
}

export function countOf(windows: readonly RateWindow[]): number {
  return windows.reduce((sum, window) => sum + window.count, 0);
}

/** The windows after giving back units in one minute. */
export function withFewer(windows: readonly RateWindow[], minute: number, units: number): RateWindow[] {
  return windows
    .map((window) => (window.minute === minute ? { ...window, count: window.count - units } : window))
    .filter(({ count }) => count > 0);
}

/**
 * What a sparing request leaves to others. It is admitted only while a fifth of the budget is left, the last of its
 * units included.
 */
export function spareOf(limit: number): number {
  return Math.ceil(limit / 5) - 1;
}

/** Units that are admitted together or not at all, and how many have to be left after them. */
export interface Wanted {
  readonly units: number;
  readonly spare: number;
}

/** How many of the remaining units go to the waiting requests in their order, each admitted whole or not at all. */
export function takenOf(remaining: number, waiting: readonly Wanted[]): number {
  return waiting.reduce((taken, { units, spare }) => (taken + units + spare <= remaining ? taken + units : taken), 0);
}

function usedOf(block: ReservedBlock): number {
  return countOf(block.windows) - block.left;
}

export function remainingOf(block: ReservedBlock): number {
  return Math.max(0, block.limit - usedOf(block));
}

/** When at least this many units are free, provided nothing else is sent: the oldest minutes leave the window first. */
export function freeAtMs(block: ReservedBlock, units: number, nowMs: number): number {
  let used = usedOf(block);
  if (block.limit - used >= units) return nowMs;
  let freeAt = nowMs;
  for (const window of block.windows) {
    used -= window.minute === block.minute ? window.count - block.left : window.count;
    freeAt = Math.max(freeAt, leavesAtMs(window));
    if (block.limit - used >= units) break;
  }
  return freeAt;
}

function leavesAtMs({ minute }: RateWindow): number {
  return (minute + minutesBefore + 1) * minuteMs;
}
