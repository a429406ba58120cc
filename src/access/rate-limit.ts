import { type Account, limitOf } from '../domain/accounts.ts';
import { DomainError } from '../domain/errors.ts';
import type { Awaitable, Clock, Limiter, RateLimit, RateWindow, Storage } from '../domain/ports.ts';

// The window is the current minute and the 60 before it: 61 buckets that any 60 minutes lie within,
// so no 60 minutes can see more than the limit.
const bucketsBefore = 60;
const minuteMs = 60_000;
/** The share of what is left that a process reserves at once: small enough to share, large enough to spare writes. */
const blockShare = 64;
/** For how long a refusal is believed before the storage is asked again (another process may have handed back). */
const refusalMs = 1_000;

/** A process's part of an account's budget. */
interface Block {
  /** The minute that the reservation is counted in, and that it can be spent in. */
  readonly minute: number;
  readonly limit: number;
  /** Reserved and not yet spent. */
  left: number;
  /** What is counted in the storage, this block included, by ascending minute. */
  readonly windows: readonly RateWindow[];
  readonly readAtMs: number;
}

interface Waiting {
  readonly units: number;
  readonly resolve: (state: RateLimit) => void;
  readonly reject: (error: unknown) => void;
}

interface Entry {
  block?: Block | undefined;
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
  readonly #entries = new Map<string, Entry>();

  constructor({ storage, clock }: { storage: Storage; clock: Clock }) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /**
   * Spends units of the account's budget, all or none.
   * @returns what is left
   * @throws RATE_LIMITED, with the seconds after which so many units will be free
   */
  admit(account: Account, units = 1): Awaitable<RateLimit> {
    const entry = this.#entry(account.id);
    const { block } = entry;
    const now = this.#clock.now();
    if (
      block !== undefined &&
      entry.waiting.length === 0 &&
      block.limit === limitOf(account) &&
      minuteOf(now) <= block.minute
    ) {
      if (block.left >= units) {
        block.left -= units;
        return stateOf(block, now);
      }
      if (remainingOf(block) < units && now - block.readAtMs < refusalMs) throw refusal(block, units, now);
    }
    return this.#reserveFor(account, entry, units);
  }

  /** Gives back units that were admitted just now, for requests that were not carried out. */
  refund(account: Account, units: number): void {
    const block = this.#entries.get(account.id)?.block;
    if (block !== undefined && block.minute === minuteOf(this.#clock.now())) block.left += units;
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
      for (const [accountId, { minute, left }] of stale) await tx.rateWindows.add(accountId, minute, -left);
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

  #reserveFor(account: Account, entry: Entry, units: number): Promise<RateLimit> {
    return new Promise((resolve, reject) => {
      entry.waiting.push({ units, resolve, reject });
      if (entry.waiting.length === 1) void this.#serve(account, entry);
    });
  }

  /** Reserves for those that wait, in the order of their coming, until none waits. Never rejects. */
  async #serve(account: Account, entry: Entry): Promise<void> {
    while (entry.waiting.length > 0) {
      const count = entry.waiting.length;
      const units = entry.waiting.reduce((sum, waiting) => sum + waiting.units, 0);
      const leftover = entry.block;
      entry.block = undefined; // if the write fails, what was left counts as spent
      try {
        const block = await this.#reserve(account, units, leftover);
        entry.block = block;
        const now = this.#clock.now();
        // The minute may have passed while it was written; its units are for that minute only.
        if (minuteOf(now) <= block.minute)
          for (const waiting of entry.waiting.splice(0, count)) spend(block, waiting, now);
      } catch (error) {
        for (const { reject } of entry.waiting.splice(0, count)) reject(error);
      }
    }
  }

  async #reserve(account: Account, units: number, leftover: Block | undefined): Promise<Block> {
    const limit = limitOf(account);
    return await this.#storage.write(async (tx) => {
      const now = this.#clock.now();
      // A block is spent in its own minute only, else it would leave the window before its requests do.
      if (leftover !== undefined && leftover.left > 0)
        await tx.rateWindows.add(account.id, leftover.minute, -leftover.left);
      const all = await tx.rateWindows.since(account.id, 0);
      // A clock that went back must not open a window that was already used.
      const minute = Math.max(minuteOf(now), all.at(-1)?.minute ?? 0);
      const windows = all.filter((window) => window.minute >= minute - bucketsBefore);
      const remaining = Math.max(0, limit - countOf(windows));
      const left = Math.min(remaining, Math.max(units, Math.floor(remaining / blockShare)));
      if (left > 0) {
        await tx.rateWindows.add(account.id, minute, left);
        await tx.rateWindows.prune(account.id, minute - bucketsBefore);
      }
      return { minute, limit, left, windows: withBlock(windows, minute, left), readAtMs: now };
    });
  }

  async #readState(account: Account, now: number): Promise<RateLimit> {
    const all = await this.#storage.read.rateWindows.since(account.id, 0);
    const minute = Math.max(minuteOf(now), all.at(-1)?.minute ?? 0);
    const windows = all.filter((window) => window.minute >= minute - bucketsBefore);
    return stateOf({ minute, limit: limitOf(account), left: 0, windows, readAtMs: now }, now);
  }
}

function spend(block: Block, { units, resolve, reject }: Waiting, nowMs: number): void {
  if (block.left < units) {
    reject(refusal(block, units, nowMs));
    return;
  }
  block.left -= units;
  resolve(stateOf(block, nowMs));
}

function minuteOf(epochMs: number): number {
  return Math.floor(epochMs / minuteMs);
}

function countOf(windows: readonly RateWindow[]): number {
  return windows.reduce((sum, window) => sum + window.count, 0);
}

function withBlock(windows: readonly RateWindow[], minute: number, count: number): RateWindow[] {
  const earlier = windows.filter((window) => window.minute !== minute);
  const current = windows.find((window) => window.minute === minute)?.count ?? 0;
  return current + count === 0 ? earlier : [...earlier, { minute, count: current + count }];
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
  for (const { minute, count } of block.windows) {
    used -= minute === block.minute ? count - block.left : count;
    freeAt = (minute + bucketsBefore + 1) * minuteMs;
    if (block.limit - used >= units) break;
  }
  return freeAt;
}

function stateOf(block: Block, nowMs: number): RateLimit {
  const remaining = remainingOf(block);
  return { limit: block.limit, remaining, resetAtMs: freeAtMs(block, Math.min(remaining + 1, block.limit), nowMs) };
}

function refusal(block: Block, units: number, nowMs: number): DomainError {
  const retryAfterSeconds = Math.max(1, Math.ceil((freeAtMs(block, units, nowMs) - nowMs) / 1_000));
  return new DomainError('RATE_LIMITED', `The account has used its ${block.limit} requests per hour.`, {
    retryAfterSeconds,
    rateLimit: stateOf(block, nowMs),
  });
}
