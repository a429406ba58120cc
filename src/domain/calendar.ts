// Calendar arithmetic in a time zone, based on the runtime's time zone data (`Intl`). Local times are numbers, too:
// the epoch milliseconds at which a clock in UTC shows the same.

export const intervals = ['hour', 'day', 'week', 'month'] as const;
type Interval = (typeof intervals)[number];

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** All bounds are multiples of this, and so is every UTC offset in use today. */
const gridMs = 15 * minuteMs;

/**
 * Whether this names a zone of the IANA database. `Intl` also accepts offsets such as `+01:00`, which are not zones.
 */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][\w+/-]{0,63}$/.test(name)) return false;
  try {
    return Boolean(new Intl.DateTimeFormat('en-US', { timeZone: name }));
  } catch {
    return false;
  }
}

export class Calendar {
  readonly #format: Intl.DateTimeFormat;
  readonly #offsets = new Map<number, number>();

  /** @param timeZone has to pass `isTimeZone` */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
  }

  /**
   * Divides a period at the starts of the local hours, days, ISO weeks (from Monday) or months. The first and the
   * last part may be incomplete.
   *
   * With daylight saving time a day can have 23 or 25 hours. An hour ends where the offset changes, so none is longer
   * than 60 minutes, and an hour that occurs twice counts as two.
   * @returns the bounds from `fromMs` to `toMs`, both included; undefined when there would be more than `limit` parts
   */
  cut(fromMs: number, toMs: number, interval: Interval, limit: number): number[] | undefined {
    const bounds = [fromMs];
    for (let atMs = fromMs; atMs < toMs; bounds.push(atMs)) {
      if (bounds.length > limit) return undefined;
      atMs = Math.min(toMs, interval === 'hour' ? this.#nextHour(atMs) : this.#next(atMs, interval));
    }
    return bounds;
  }

  /**
   * The start of the preceding period, which ends where this one begins: as many hours earlier, or with longer
   * intervals as many local days, or as many months if the period consists of whole months.
   */
  startBefore(fromMs: number, toMs: number, interval: Interval): number {
    const [from, to] = [this.#clock(fromMs), this.#clock(toMs)];
    if (interval === 'hour' || to - from < dayMs) return fromMs - (toMs - fromMs);
    const months = monthOf(to) - monthOf(from);
    const isWholeMonths = interval === 'month' && months > 0 && addMonths(from, months) === to;
    const startMs = this.#instant(isWholeMonths ? addMonths(from, -months) : from - (to - from));
    // The zone may have skipped that day: some have moved across the date line.
    return Math.min(startMs, fromMs - gridMs);
  }

  /** The same local time, this many days earlier. */
  daysBefore(atMs: number, days: number): number {
    return this.#instant(this.#clock(atMs) - days * dayMs);
  }

  #next(atMs: number, interval: Exclude<Interval, 'hour'>): number {
    let start = startOf(this.#clock(atMs), interval);
    for (;;) {
      start = interval === 'month' ? addMonths(start, 1) : start + (interval === 'week' ? 7 : 1) * dayMs;
      const nextMs = this.#instant(start);
      // When clocks are set back across midnight, the start of a day occurs twice.
      if (nextMs > atMs) return nextMs;
    }
  }

  #nextHour(atMs: number): number {
    const offset = this.#offset(atMs);
    const nextMs = (Math.floor((atMs + offset) / hourMs) + 1) * hourMs - offset;
    for (let betweenMs = atMs + gridMs; betweenMs < nextMs; betweenMs += gridMs) {
      if (this.#offset(betweenMs) !== offset) return betweenMs;
    }
    return onGrid(nextMs);
  }

  /** The local time at an instant. */
  #clock(epochMs: number): number {
    return epochMs + this.#offset(epochMs);
  }

  /** The first instant with this local time, or a later one if it is skipped. */
  #instant(clock: number): number {
    const [before, after] = [this.#offset(clock - dayMs), this.#offset(clock + dayMs)];
    const early = clock - before;
    if (before === after || this.#offset(early) === before) return onGrid(early);
    const late = clock - after;
    if (this.#offset(late) === after) return onGrid(late);
    let instant = onGrid(late);
    while (this.#offset(instant) !== after) instant += gridMs;
    return instant;
  }

  /** The zone's offset from UTC in milliseconds. No zone has changed its offset and back within one UTC day. */
  #offset(epochMs: number): number {
    const day = Math.floor(epochMs / dayMs) * dayMs;
    const offset = this.#lookUp(day);
    return offset === this.#lookUp(day + dayMs) ? offset : this.#lookUp(epochMs);
  }

  #lookUp(epochMs: number): number {
    const known = this.#offsets.get(epochMs);
    if (known !== undefined) return known;
    const [, sign, hours, minutes, seconds = 0] =
      /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(this.#format.format(epochMs)) ?? [];
    const size = sign === undefined ? 0 : Number(hours) * hourMs + Number(minutes) * minuteMs + Number(seconds) * 1_000;
    const offset = sign === '-' ? -size : size;
    this.#offsets.set(epochMs, offset);
    return offset;
  }
}

/** Rounds up to the grid: historical offsets can have odd minutes and seconds. */
function onGrid(epochMs: number): number {
  return Math.ceil(epochMs / gridMs) * gridMs;
}

function monthOf(clock: number): number {
  const date = new Date(clock);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/**
 * The same day and time in another month, or its last day if it is shorter.
 * @param clock a local time, see above
 */
export function addMonths(clock: number, months: number): number {
  const date = new Date(clock);
  const day = date.getUTCDate();
  date.setUTCMonth(date.getUTCMonth() + months, 1);
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  return date.setUTCDate(Math.min(day, lastDay));
}

function startOf(clock: number, interval: Exclude<Interval, 'hour'>): number {
  const day = Math.floor(clock / dayMs) * dayMs;
  const date = new Date(day);
  if (interval === 'week') return day - ((date.getUTCDay() + 6) % 7) * dayMs;
  return interval === 'month' ? date.setUTCDate(1) : day;
}
