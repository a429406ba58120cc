import { type Account, limitOf } from '../domain/accounts.ts';
import { DomainError } from '../domain/errors.ts';
import type { Awaitable, Clock, Limiter, RateLimit, RateWindow, Storage, Transaction } from '../domain/ports.ts';

// The window is the current minute and the 60 before it: 61 buckets that any 60 minutes lie within,
// so no 60 minutes can see more than the limit.
const bucketsBefore = 60;
const minuteMs = 60_000;
/** How long what was counted stays in the window. */
const windowMs = (bucketsBefore + 1) * minuteMs;
/** So many minutes of an account are kept: a window of the past, and another in what a clock made of it that was ahead. */
const maxKept = 2 * (bucketsBefore + 1);
/** The share of what is left that a process reserves at once: small enough to share, large enough to spare writes. */
const blockShare = 64;
/** For how long a refusal is believed before the storage is asked again (another process may have handed back). */
const refusalMs = 1_000;

/** What was reserved of a budget, and what is not spent of it has to be given back to. */
interface Reservation {
  /** The minute that it is counted in, and that it can be spent in. */
  readonly minute: number;
  /** When it was reserved, by a clock that nobody sets. */
  readonly atUptimeMs: number;
}

/** A process's part of an account's budget. */
interface Block extends Reservation {
  readonly limit: number;
  /** Reserved and not yet spent. */
  left: number;
  /** What is counted in the storage, this block included, by ascending minute. */
  windows: readonly RateWindow[];
  /** When that was so, which was when it was reserved. */
  readonly readAtMs: number;
  readonly ahead: Ahead | undefined;
}

/**
 * What was counted in minutes that were still to come: the clock was ahead and was set back, or it has been set back too
 * far. Nobody can tell which, so new requests are counted there, too. But when nothing was added for as long as a window
 * is, by a clock that nobody sets, all of it has left the window, whatever the minutes say. From then on the clock is
 * taken to be right: if it is set forward after all, what was counted until then looks older than it is.
 */
interface Ahead {
  /** The minute that it was when this was noticed; all after it, up to `to`, are meant. */
  readonly after: number;
  readonly to: number;
  /** All that was ever added to each of them, which grows only, also when some is given back or forgotten. */
  readonly added: ReadonlyMap<number, number>;
  readonly sinceUptimeMs: number;
}

/** What an account has left after it was let in, and what a refund has to name. */
export interface Admission extends RateLimit, Reservation {}

interface Waiting {
  readonly account: Account;
  readonly units: number;
  readonly resolve: (admission: Admission) => void;
  readonly reject: (error: unknown) => void;
}

interface Entry {
  block?: Block | undefined;
  ahead?: Ahead | undefined;
  /** While any wait, the block is being replaced and nothing else may spend of it. */
  waiting: Waiting[];
}

/**
 * The one rate limiter, whichever face a request comes through.
 *
 * It spends from blocks that are reserved durably before they are spent: an admission costs no write
 * of its own, and a crash can lose a part of the budget but never admit more. Several processes on
 * one database share the budget, since all of them reserve from it.
 */
export class RateLimiter implements Limiter {
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #uptimeMs: () => number;
  readonly #entries = new Map<string, Entry>();

  /** @param uptimeMs a clock that nobody sets, in milliseconds since any moment */
  constructor({ storage, clock, uptimeMs }: { storage: Storage; clock: Clock; uptimeMs?: () => number }) {
    this.#storage = storage;
    this.#clock = clock;
    this.#uptimeMs = uptimeMs ?? (() => performance.now());
  }

  /**
   * Spends units of the account's budget, all or none.
   * @throws RATE_LIMITED, with the seconds after which so many units will be free; UNAVAILABLE
   */
  admit(account: Account, units = 1): Awaitable<Admission> {
    const entry = this.#entry(account.id);
    const { block } = entry;
    const now = this.#clock.now();
    if (
      block !== undefined &&
      entry.waiting.length === 0 &&
      block.limit === limitOf(account) &&
      minuteOf(now) <= block.minute &&
      this.#uptimeMs() - block.atUptimeMs < minuteMs
    ) {
      if (block.left >= units) return spend(block, units, now);
      // Before it was read is as bad as long after: a clock that went back must not make a refusal last.
      const believed = Math.abs(now - block.readAtMs) < refusalMs;
      if (believed && remainingOf(block) < units) throw refusal(block, units, now);
    }
    return this.#reserveFor(account, entry, units);
  }

  /**
   * Gives back units of an admission whose request was not carried out. They go back to the minute that
   * they were counted in: in a later one they would outlast the admissions that they make room for.
   * @throws UNAVAILABLE
   */
  async refund(account: Account, admission: Admission, units: number): Promise<void> {
    if (!this.#counts(admission)) return;
    const { minute } = admission;
    const entry = this.#entries.get(account.id);
    const block = entry?.block;
    const isOfIt = block?.minute === minute && block.atUptimeMs === admission.atUptimeMs;
    if (isOfIt && entry?.waiting.length === 0) {
      block.left += units;
      return;
    }
    await this.#storage.write((tx) => this.#giveBack(tx, account.id, admission, units));
    if (entry?.block !== undefined) entry.block.windows = withFewer(entry.block.windows, minute, units);
  }

  peek(account: Account): Awaitable<RateLimit> {
    const block = this.#entries.get(account.id)?.block;
    const now = this.#clock.now();
    if (block !== undefined && block.limit === limitOf(account) && minuteOf(now) <= block.minute)
      return stateOf(block, now);
    return this.#readState(account, now);
  }

  /**
   * Hands back to the storage what is reserved for a minute that has passed, so that another process
   * or a later minute can use it.
   * @param all also what is reserved for the current minute, as at a shutdown
   */
  async handBack({ all = false } = {}): Promise<void> {
    const current = minuteOf(this.#clock.now());
    const stale: [string, Block][] = [];
    for (const [accountId, entry] of this.#entries) {
      if (entry.waiting.length > 0 || (entry.block !== undefined && !all && entry.block.minute >= current)) continue;
      this.#entries.delete(accountId);
      if (entry.block !== undefined && entry.block.left > 0) stale.push([accountId, entry.block]);
    }
    if (stale.length === 0) return;
    await this.#storage.write(async (tx) => {
      for (const [accountId, block] of stale) await this.#giveBack(tx, accountId, block, block.left);
    });
  }

  #entry(accountId: string): Entry {
    let entry = this.#entries.get(accountId);
    if (entry === undefined) {
      entry = { waiting: [] };
      this.#entries.set(accountId, entry);
    }
    return entry;
  }

  #reserveFor(account: Account, entry: Entry, units: number): Promise<Admission> {
    return new Promise((resolve, reject) => {
      entry.waiting.push({ account, units, resolve, reject });
      if (entry.waiting.length === 1) void this.#serve(entry);
    });
  }

  /** Reserves for those that wait, in the order of their coming, until none waits. Never rejects. */
  async #serve(entry: Entry): Promise<void> {
    while (entry.waiting.length > 0) {
      const count = entry.waiting.length;
      try {
        const block = await this.#reserve(entry.waiting.slice(0, count), entry);
        entry.block = block;
        entry.ahead = block.ahead;
        const now = this.#clock.now();
        // The minute may have passed while it was written; its units are for that minute only.
        if (minuteOf(now) > block.minute || this.#uptimeMs() - block.atUptimeMs >= minuteMs) continue;
        for (const waiting of entry.waiting.splice(0, count)) settle(waiting, block, now);
        // Those that came meanwhile have their part of it, and need no write of their own.
        while (mayTake(entry.waiting[0], block)) settle(entry.waiting.shift() as Waiting, block, now);
      } catch (error) {
        entry.block = undefined; // the write may have happened all the same, so what was left counts as spent
        for (const { reject } of entry.waiting.splice(0, count)) reject(error);
      }
    }
  }

  async #reserve(waiting: readonly Waiting[], entry: Entry): Promise<Block> {
    const { account } = waiting.at(-1) as Waiting; // the one that was read last
    const { block: leftover } = entry;
    const limit = limitOf(account);
    return await this.#storage.write(async (tx) => {
      const now = this.#clock.now();
      const uptimeMs = this.#uptimeMs();
      // A block is spent in its own minute only, else it would leave the window before its requests do.
      if (leftover !== undefined) await this.#giveBack(tx, account.id, leftover, leftover.left);
      const all = await tx.rateWindows.since(account.id, 0);
      const ahead = aheadIn(all, { now, uptimeMs, known: entry.ahead });
      const isOver = ahead !== undefined && uptimeMs - ahead.sinceUptimeMs >= windowMs;
      if (isOver) {
        for (const { minute, count } of all.filter(isOf(ahead))) await tx.rateWindows.add(account.id, minute, -count);
      }
      const counted = isOver ? all.filter((window) => !isOf(ahead)(window)) : all;
      const { minute, windows } = windowsAt(counted, now);
      const remaining = Math.max(0, limit - countOf(windows));
      const left = Math.min(remaining, Math.max(takenOf(remaining, waiting), Math.floor(remaining / blockShare)));
      let reserved = windows;
      if (left > 0) {
        const window = await tx.rateWindows.add(account.id, minute, left);
        reserved = [...windows.filter((other) => other.minute !== minute), window]; // none is later
        await tx.rateWindows.prune(account.id, counted.at(-maxKept)?.minute ?? 0);
      }
      const aheadNow = aheadIn(reserved, { now, uptimeMs, known: ahead });
      return { minute, limit, left, windows: reserved, readAtMs: now, atUptimeMs: uptimeMs, ahead: aheadNow };
    });
  }

  /** Takes units off the count of their minute, unless they have left it. */
  async #giveBack(tx: Transaction, accountId: string, reservation: Reservation, units: number): Promise<void> {
    if (units === 0 || !this.#counts(reservation)) return;
    const [window] = await tx.rateWindows.since(accountId, reservation.minute);
    if (window?.minute !== reservation.minute) return;
    await tx.rateWindows.add(accountId, reservation.minute, -Math.min(units, window.count));
  }

  /** Later, another process may have forgotten it, and what its minute has now be of requests that came since. */
  #counts({ atUptimeMs }: Reservation): boolean {
    return this.#uptimeMs() - atUptimeMs < windowMs;
  }

  /** The state without a block of this minute: what is left of an earlier one is as good as handed back. */
  async #readState(account: Account, now: number): Promise<RateLimit> {
    const all = await this.#storage.read.rateWindows.since(account.id, 0);
    const entry = this.#entries.get(account.id);
    const own = entry?.block;
    const atUptimeMs = this.#uptimeMs();
    const { minute, windows } = windowsAt(own === undefined ? all : withFewer(all, own.minute, own.left), now);
    const ahead = aheadIn(windows, { now, uptimeMs: atUptimeMs, known: entry?.ahead });
    return stateOf({ minute, limit: limitOf(account), left: 0, windows, readAtMs: now, atUptimeMs, ahead }, now);
  }
}

/**
 * What counts at a time, and the minute that more is counted in: the current one, or a later one that was counted in
 * already. A clock that went back must not open a window that was already used.
 */
function windowsAt(all: readonly RateWindow[], nowMs: number): { minute: number; windows: readonly RateWindow[] } {
  const current = minuteOf(nowMs);
  return {
    minute: Math.max(current, all.at(-1)?.minute ?? 0),
    windows: all.filter(({ minute }) => minute >= current - bucketsBefore),
  };
}

/** @param known what was noticed before, which it still is if nothing was added to it, also when its time has come */
function aheadIn(
  windows: readonly RateWindow[],
  { now, uptimeMs, known }: { now: number; uptimeMs: number; known: Ahead | undefined },
): Ahead | undefined {
  const current = minuteOf(now);
  const to = windows.at(-1)?.minute ?? 0;
  if (known !== undefined && known.after <= current && to <= Math.max(current, known.to)) {
    if (windows.filter(isOf(known)).every(({ minute, added }) => added === known.added.get(minute))) return known;
  }
  if (to <= current) return undefined;
  const added = new Map(
    windows.filter(({ minute }) => minute > current).map((window) => [window.minute, window.added]),
  );
  return { after: current, to, added, sinceUptimeMs: uptimeMs };
}

function isOf({ after, to }: Ahead): (window: RateWindow) => boolean {
  return ({ minute }) => minute > after && minute <= to;
}

function mayTake(waiting: Waiting | undefined, block: Block): boolean {
  return waiting !== undefined && limitOf(waiting.account) === block.limit && waiting.units <= block.left;
}

function settle({ units, resolve, reject }: Waiting, block: Block, nowMs: number): void {
  if (block.left >= units) resolve(spend(block, units, nowMs));
  else reject(refusal(block, units, nowMs));
}

function spend(block: Block, units: number, nowMs: number): Admission {
  block.left -= units;
  const { minute, atUptimeMs } = block;
  return { ...stateOf(block, nowMs), minute, atUptimeMs };
}

/** How much of what remains those that wait will take, each all or nothing. */
function takenOf(remaining: number, waiting: readonly Waiting[]): number {
  return waiting.reduce((taken, { units }) => (taken + units <= remaining ? taken + units : taken), 0);
}

function minuteOf(epochMs: number): number {
  return Math.floor(epochMs / minuteMs);
}

function countOf(windows: readonly RateWindow[]): number {
  return windows.reduce((sum, window) => sum + window.count, 0);
}

/** The windows with so many fewer in one minute. */
function withFewer(windows: readonly RateWindow[], minute: number, units: number): RateWindow[] {
  return windows
    .map((window) => (window.minute === minute ? { ...window, count: window.count - units } : window))
    .filter(({ count }) => count > 0);
}

function usedOf(block: Block): number {
  return countOf(block.windows) - block.left;
}

function remainingOf(block: Block): number {
  return Math.max(0, block.limit - usedOf(block));
}

/** When at least so many units are free if nothing else is sent: as the oldest minutes leave the window. */
function freeAtMs(block: Block, units: number, nowMs: number): number {
  let used = usedOf(block);
  if (block.limit - used >= units) return nowMs;
  let freeAt = nowMs;
  for (const window of block.windows) {
    used -= window.minute === block.minute ? window.count - block.left : window.count;
    freeAt = Math.max(freeAt, leavesAtMs(window, block));
    if (block.limit - used >= units) break;
  }
  return freeAt;
}

function leavesAtMs(window: RateWindow, { ahead, readAtMs, atUptimeMs }: Block): number {
  const byItsMinuteMs = (window.minute + bucketsBefore + 1) * minuteMs;
  if (ahead === undefined || !isOf(ahead)(window)) return byItsMinuteMs;
  return Math.min(byItsMinuteMs, readAtMs + windowMs - (atUptimeMs - ahead.sinceUptimeMs));
}

function stateOf(block: Block, nowMs: number): RateLimit {
  const remaining = remainingOf(block);
  return { limit: block.limit, remaining, resetAtMs: freeAtMs(block, Math.min(remaining + 1, block.limit), nowMs) };
}

function refusal(block: Block, units: number, nowMs: number): DomainError {
  const rateLimit = stateOf(block, nowMs);
  if (units > block.limit) {
    // No wait is long enough, so none is named.
    return new DomainError('RATE_LIMITED', `The account may send ${block.limit} requests per hour, not ${units}.`, {
      rateLimit,
    });
  }
  const retryAfterSeconds = Math.max(1, Math.ceil((freeAtMs(block, units, nowMs) - nowMs) / 1_000));
  return new DomainError('RATE_LIMITED', `The account has used its ${block.limit} requests per hour.`, {
    retryAfterSeconds,
    rateLimit,
  });
}
