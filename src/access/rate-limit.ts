import { type Account, limitOf } from '../domain/accounts.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { DomainError } from '../domain/errors.ts';
import type { Clock, Limiter, RateLimit } from '../domain/ports.ts';
import {
  countOf,
  freeAtMs,
  isUsable,
  minuteOf,
  minutesBefore,
  type ReservedBlock,
  remainingOf,
  spareOf,
  takenOf,
  type Wanted,
  withFewer,
} from '../domain/rate-window.ts';
import { leadsTo, SteadyClock } from '../domain/steady-clock.ts';
import type { Storage, Transaction } from '../domain/storage-port.ts';

/** A process reserves 1/64 of the remaining budget at a time: small enough to share, large enough to save writes. */
const blockShare = 64;
/**
 * How long an exhausted budget is cached before reading the storage again: another process may have handed units back.
 */
const refusalMs = 1_000;
/** Of how many accounts one transaction hands blocks back. Other writes wait for it, and other processes for its accounts. */
const handedBackTogether = 32;

/** The budget after an admission, with what a refund of it needs. */
export interface Charge extends RateLimit {
  /** The minute in which it is counted. */
  readonly minute: number;
  readonly units: number;
}

interface Waiting extends Wanted {
  readonly account: Account;
  readonly resolve: (charged: Charge) => void;
  readonly reject: (error: unknown) => void;
}

interface Entry {
  block?: ReservedBlock | undefined;
  /** While requests wait, the block is being replaced and must not be spent from. */
  waiting: Waiting[];
  /** Number of refunds to the storage, to detect one during a reservation. */
  refunds: number;
}

/**
 * The rate limiter of all faces.
 *
 * It spends from blocks that were durably reserved beforehand, so an admission costs no write of its own, and a crash
 * can lose part of the budget but never admit more. All processes on a database reserve from the same budget.
 */
export class RateLimiter implements Limiter {
  readonly #storage: Storage;
  readonly #clock: SteadyClock;
  readonly #entries = new Map<string, Entry>();

  constructor({ storage, clock }: { storage: Storage; clock: Clock }) {
    this.#storage = storage;
    this.#clock = new SteadyClock(clock);
  }

  /**
   * Spends units of the account's budget, all or none.
   * @throws RATE_LIMITED, with the seconds until the units are free; UNAVAILABLE
   */
  admit(account: Account, units = 1): Awaitable<Charge> {
    const entry = this.#entry(account.id);
    const { block } = entry;
    const now = this.#clock.earliest();
    if (block !== undefined && entry.waiting.length === 0 && this.#isUsable(block, limitOf(account))) {
      if (block.left >= units) return this.#spend(block, units, now);
      const believed = now - block.readAtMs < refusalMs;
      if (believed && remainingOf(block) < units) throw this.#refusal(block, { units, spare: 0 }, now);
    }
    return this.#reserveFor(account, entry, { units, spare: 0 });
  }

  /**
   * The same, with a fifth of the budget left to others. What other processes have reserved by now counts as spent, so the
   * storage is asked each time.
   */
  async admitSparing(account: Account, units: number): Promise<Charge> {
    const limit = limitOf(account);
    const wanted = { units, spare: spareOf(limit) };
    const before = this.#entries.get(account.id)?.block;
    const windows = await this.#storage.read.rateWindows.since(account.id, this.#firstMinute());
    const entry = this.#entry(account.id);
    const { block } = entry;
    const now = this.#clock.earliest();
    // A block that was reserved meanwhile need not be among what was read.
    if (block === undefined || block !== before || entry.waiting.length > 0 || !this.#isUsable(block, limit)) {
      return await this.#reserveFor(account, entry, wanted);
    }
    const current = { ...block, windows };
    if (!isFree(current, wanted)) throw this.#refusal(current, wanted, now);
    return block.left >= units ? this.#spend(block, units, now) : await this.#reserveFor(account, entry, wanted);
  }

  /** The seconds until units are free beside a fifth of the budget, if nothing else is sent; undefined if they never are. */
  async secondsUntilSpare(account: Account, units: number): Promise<number | undefined> {
    const limit = limitOf(account);
    const total = units + spareOf(limit);
    if (total > limit) return undefined;
    const { block, now } = await this.#read(account);
    return Math.ceil((freeAtMs(block, total, now) - now) / 1_000);
  }

  /**
   * Gives back the units of an admission whose request was not executed. They are taken off the minute in which they were
   * counted: credited to a later minute, they would leave the window later than the admission they undo.
   * @throws UNAVAILABLE
   */
  async refund(account: Account, { minute, units }: Charge): Promise<void> {
    if (!this.#counts(minute)) return;
    const entry = this.#entries.get(account.id);
    if (entry?.block?.minute === minute && entry.waiting.length === 0) {
      entry.block.left += units;
      return;
    }
    await this.#storage.write((tx) => this.#giveBack(tx, account.id, minute, units), account.id);
    if (entry === undefined) return;
    entry.refunds++;
    if (entry.block !== undefined) entry.block.windows = withFewer(entry.block.windows, minute, units);
  }

  peek(account: Account): Awaitable<RateLimit> {
    const block = this.#entries.get(account.id)?.block;
    return block !== undefined && this.#isUsable(block, limitOf(account))
      ? this.#stateOf(block, this.#clock.earliest())
      : this.#readState(account);
  }

  /**
   * Hands unspent units reserved for past minutes back to the storage, for other processes and later minutes.
   * @param all also those of the current minute, at shutdown
   */
  async handBack({ all = false } = {}): Promise<void> {
    const minute = all ? Number.POSITIVE_INFINITY : minuteOf(this.#clock.latest());
    for (const [accountId, { block }] of this.#passed(minute)) if (!block?.left) this.#entries.delete(accountId);
    while (this.#passed(minute).next().done !== true) {
      let blocks: readonly [string, ReservedBlock][] | undefined;
      await this.#storage.write(async (tx) => {
        // Only within the transaction: if it cannot begin, the blocks are still there next time. From here on it may be
        // committed even if it reports an error, and nothing may be handed back twice.
        blocks ??= this.#takeSome(minute);
        await this.#goOn(tx);
        for (const [accountId, block] of blocks) await this.#giveBack(tx, accountId, block.minute, block.left);
      });
    }
  }

  /** The entries without waiting requests, and without a block of this minute or later. */
  #passed(minute: number): IteratorObject<[string, Entry], undefined> {
    return this.#entries
      .entries()
      .filter(([, { block, waiting }]) => waiting.length === 0 && (block === undefined || block.minute < minute));
  }

  /**
   * Removes some of those entries.
   * @returns their blocks, in the order in which all processes lock what is counted of them
   */
  #takeSome(minute: number): [string, ReservedBlock][] {
    const taken = [...this.#passed(minute).take(handedBackTogether)];
    for (const [accountId] of taken) this.#entries.delete(accountId);
    return taken
      .flatMap<[string, ReservedBlock]>(([accountId, { block }]) => (block === undefined ? [] : [[accountId, block]]))
      .sort(([one], [other]) => (one < other ? -1 : 1));
  }

  #entry(accountId: string): Entry {
    let entry = this.#entries.get(accountId);
    if (entry === undefined) {
      entry = { waiting: [], refunds: 0 };
      this.#entries.set(accountId, entry);
    }
    return entry;
  }

  #reserveFor(account: Account, entry: Entry, wanted: Wanted): Promise<Charge> {
    return new Promise((resolve, reject) => {
      entry.waiting.push({ account, ...wanted, resolve, reject });
      if (entry.waiting.length === 1) void this.#serve(entry);
    });
  }

  /** Reserves for the waiting requests, in order of arrival, until none waits. Never rejects. */
  async #serve(entry: Entry): Promise<void> {
    while (entry.waiting.length > 0) {
      const count = entry.waiting.length;
      try {
        const { refunds } = entry;
        const block = await this.#reserve(entry.waiting.slice(0, count), entry);
        entry.block = block;
        // The minute may have ended during the write, and a block can only be spent in its own.
        if (minuteOf(this.#clock.latest()) > block.minute || entry.refunds > refunds) continue;
        const now = this.#clock.earliest();
        for (const waiting of entry.waiting.splice(0, count)) this.#settle(waiting, block, now);
        // Requests that arrived meanwhile share the block and need no write of their own.
        while (mayTake(entry.waiting[0], block)) this.#settle(entry.waiting.shift() as Waiting, block, now);
      } catch (error) {
        for (const { reject } of entry.waiting.splice(0, count)) reject(error);
      }
    }
  }

  async #reserve(waiting: readonly Waiting[], entry: Entry): Promise<ReservedBlock> {
    const { account } = waiting.at(-1) as Waiting; // the most recently read
    const { block: leftover } = entry;
    const limit = limitOf(account);
    let hasBegun = false;
    const reserving = this.#storage.write(async (tx) => {
      hasBegun = true;
      // Counted in the minute of the earliest time, and spent until the latest reaches its end: so no count leaves the
      // window too early.
      const { now, keep } = await this.#goOn(tx);
      const minute = minuteOf(now);
      const first = minute - minutesBefore;
      // A block is only spent in its own minute: otherwise it would leave the window before the requests it admitted.
      if (leftover !== undefined) await this.#giveBack(tx, account.id, leftover.minute, leftover.left);
      let windows = await tx.rateWindows.since(account.id, first);
      const remaining = Math.max(0, limit - countOf(windows));
      const taken = takenOf(remaining, waiting);
      const left = taken === 0 ? 0 : Math.min(remaining, Math.max(taken, Math.floor(remaining / blockShare)));
      if (left > 0) {
        await keep();
        const window = await tx.rateWindows.add(account.id, minute, left);
        windows = [...windows.filter((other) => other.minute !== minute), window]; // no window is later
        await tx.rateWindows.prune(account.id, first);
      }
      return { minute, limit, left, windows, readAtMs: now };
    }, account.id);
    return await reserving.catch((error: unknown) => {
      if (hasBegun) entry.block = undefined; // it may have been committed all the same, so the rest of the old block counts as spent
      throw error;
    });
  }

  /**
   * Continues the clock from its stored reading, and stores the current one if the former no longer leads to it.
   * @returns the time, and a function that stores a reading once a minute, to be called before anything is counted
   */
  async #goOn(tx: Transaction): Promise<{ now: number; keep: () => Promise<void> }> {
    const kept = await tx.rateWindows.clock();
    const reading = this.#clock.goOnFrom(kept);
    const isKnown = kept !== undefined && leadsTo(kept, reading);
    if (!isKnown) await tx.rateWindows.setClock(reading);
    const keep = async (): Promise<void> => {
      // So after a restart no counted minute lies in the future, whatever the machine's clock says.
      if (isKnown && minuteOf(kept.atMs) < minuteOf(reading.atMs)) await tx.rateWindows.setClock(reading);
    };
    return { now: reading.atMs, keep };
  }

  /** Takes units off the count of their minute, if it is still in the window. */
  async #giveBack(tx: Transaction, accountId: string, minute: number, units: number): Promise<void> {
    if (units === 0 || !this.#counts(minute)) return;
    const [window] = await tx.rateWindows.since(accountId, minute);
    if (window?.minute !== minute) return;
    await tx.rateWindows.add(accountId, minute, -Math.min(units, window.count));
  }

  #isUsable(block: ReservedBlock, limit: number): boolean {
    return isUsable(block, limit, this.#clock.latest());
  }

  #counts(minute: number): boolean {
    return minute >= this.#firstMinute();
  }

  #firstMinute(): number {
    return minuteOf(this.#clock.earliest()) - minutesBefore;
  }

  /** The state without a block of this minute. */
  async #readState(account: Account): Promise<RateLimit> {
    const { block, now } = await this.#read(account);
    return this.#stateOf(block, now);
  }

  /** The budget as it is stored. What is left of an own block counts as handed back. */
  async #read(account: Account): Promise<{ block: ReservedBlock; now: number }> {
    const { atMs: now } = this.#clock.goOnFrom(await this.#storage.read.rateWindows.clock());
    const minute = minuteOf(now);
    const all = await this.#storage.read.rateWindows.since(account.id, minute - minutesBefore);
    const own = this.#entries.get(account.id)?.block;
    const windows = own === undefined ? all : withFewer(all, own.minute, own.left);
    return { block: { minute, limit: limitOf(account), left: 0, windows, readAtMs: now }, now };
  }

  #settle({ resolve, reject, ...wanted }: Waiting, block: ReservedBlock, nowMs: number): void {
    if (block.left >= wanted.units && isFree(block, wanted)) resolve(this.#spend(block, wanted.units, nowMs));
    else reject(this.#refusal(block, wanted, nowMs));
  }

  #spend(block: ReservedBlock, units: number, nowMs: number): Charge {
    block.left -= units;
    return { ...this.#stateOf(block, nowMs), minute: block.minute, units };
  }

  /** @param units when at least this many are left is told; by default one more than now */
  #stateOf(block: ReservedBlock, nowMs: number, units = remainingOf(block) + 1): RateLimit {
    const freeAt = freeAtMs(block, Math.min(units, block.limit), nowMs);
    return {
      limit: block.limit,
      remaining: remainingOf(block),
      resetAtMs: this.#clock.toEpochMs(freeAt, nowMs),
      resetAfterSeconds: Math.ceil((freeAt - nowMs) / 1_000),
    };
  }

  /** The state that comes with a refusal says when these units are free, like the time to wait. */
  #refusal(block: ReservedBlock, { units, spare }: Wanted, nowMs: number): DomainError {
    if (units + spare > block.limit) {
      // No wait would be long enough, so there is no `retryAfterSeconds`.
      const detail = `The account may send ${block.limit} requests per hour: ${units} are never admitted together; send them in parts.`;
      return new DomainError('RATE_LIMITED', detail, { limit: 'account', rateLimit: this.#stateOf(block, nowMs) });
    }
    const rateLimit = this.#stateOf(block, nowMs, units + spare);
    const detail =
      spare > 0
        ? 'The account keeps the rest of its requests per hour for its own programs.'
        : rateLimit.remaining === 0
          ? `The account has used its ${block.limit} requests per hour.`
          : `The account has fewer of its ${block.limit} requests per hour left than this needs.`;
    return new DomainError('RATE_LIMITED', detail, {
      limit: 'account',
      retryAfterSeconds: rateLimit.resetAfterSeconds,
      rateLimit,
    });
  }
}

function mayTake(waiting: Waiting | undefined, block: ReservedBlock): boolean {
  return (
    waiting !== undefined &&
    limitOf(waiting.account) === block.limit &&
    waiting.units <= block.left &&
    isFree(block, waiting)
  );
}

function isFree(block: ReservedBlock, { units, spare }: Wanted): boolean {
  return remainingOf(block) >= units + spare;
}
