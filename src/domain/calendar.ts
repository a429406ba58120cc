// The calendar of a time zone, by what the runtime knows of it (`Intl`). A time on its clocks is a
// number, too: the epoch milliseconds at which a clock in UTC shows the same.

export const intervals = ['hour', 'day', 'week', 'month'] as const;
export type Interval = (typeof intervals)[number];

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** The grid that all bounds lie on: every offset that is in use today is a multiple of it. */
const gridMs = 15 * minuteMs;

/** Whether this names a zone of the IANA database. Offsets such as `+01:00` are taken by `Intl`, but are no zones. */
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

  /** @param timeZone one that `isTimeZone` */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
  }

  /**
   * Cuts a period where the hours, days, ISO weeks (from Monday) or months begin on the zone's clocks. The
   * first and the last part are what of theirs lies in the period.
   *
   * A change of the clocks makes a day of 23 or 25 hours. An hour in which they change ends there, so none
   * is longer than 60 minutes, and one that comes twice is two.
   * @returns the bounds from `fromMs` to `toMs`, both included; undefined when there are more parts than `limit`
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
   * When the period before this one began, which ends where this one begins: as many hours earlier, or for
   * the longer intervals as many days by the zone's calendar, or months if it is whole months.
   */
  startBefore(fromMs: number, toMs: number, interval: Interval): number {
    const [from, to] = [this.#clock(fromMs), this.#clock(toMs)];
    if (interval === 'hour' || to - from < dayMs) return fromMs - (toMs - fromMs);
    const months = monthOf(to) - monthOf(from);
    const isWholeMonths = interval === 'month' && months > 0 && addMonths(from, months) === to;
    const startMs = this.#instant(isWholeMonths ? addMonths(from, -months) : from - (to - from));
    // The day before may be one that the zone has skipped: some have changed sides of the date line.
    return Math.min(startMs, fromMs - gridMs);
  }

  /** The same time on the clocks, so many days earlier. */
  daysBefore(atMs: number, days: number): number {
    return this.#instant(this.#clock(atMs) - days * dayMs);
  }

  #next(atMs: number, interval: Exclude<Interval, 'hour'>): number {
    let start = startOf(this.#clock(atMs), interval);
    for (;;) {
      start = interval === 'month' ? addMonths(start, 1) : start + (interval === 'week' ? 7 : 1) * dayMs;
      const nextMs = this.#instant(start);
      // Clocks that were set back over midnight show a day's beginning again after it has begun.
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

  /** What the clocks show at an instant. */
  #clock(epochMs: number): number {
    return epochMs + this.#offset(epochMs);
  }

  /** The first instant at which the clocks show a time, or a later one where they skip it. */
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

  /** What the clocks are ahead of UTC, in milliseconds. No zone has changed its offset and back within a day of UTC. */
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

/** The next place on the grid: old offsets of odd minutes, and seconds, lie beside it. */
function onGrid(epochMs: number): number {
  return Math.ceil(epochMs / gridMs) * gridMs;
}

function monthOf(clock: number): number {
  const date = new Date(clock);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** The same day and time in another month, or the last day of it if it is shorter. @param clock epoch milliseconds, as in UTC */
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
