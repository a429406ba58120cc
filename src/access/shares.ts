import { bindingOf, type Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Clock, RateLimit } from '../domain/ports.ts';
import {
  countOf,
  freeAtMs,
  minuteOf,
  minutesBefore,
  type RateWindow,
  type ReservedBlock,
  remainingOf,
  withFewer,
} from '../domain/rate-window.ts';
import { shareOf } from '../domain/tokens.ts';
import type { Charge, RateLimiter } from './rate-limit.ts';

/**
 * How many conversations' and visitors' requests are counted. Beyond, of the account that has most of them, the one not
 * used for longest counts from 0 again.
 */
const defaultMaxBindings = 10_000;

/** An admission with the minute in which it is counted for the share, too. */
interface ShareCharge extends Charge {
  readonly shareMinute: number;
}

/**
 * What tokens bound to a conversation or a visitor may spend of their account's budget: each conversation and each
 * visitor its share, and all of them together no more than leaves a fifth to the account's own programs.
 *
 * The shares are counted in the memory of this process, on its monotonic clock: they divide the budget among visitors,
 * while that itself is exact across processes and restarts.
 */
export class Shares {
  readonly #limiter: RateLimiter;
  readonly #clock: Clock;
  readonly #maxBindings: number;
  /** What has been spent of each share, by account and binding, by ascending minute; the one used last comes last. */
  readonly #spent = new Map<string, Map<string, readonly RateWindow[]>>();
  #bindings = 0;

  constructor(limiter: RateLimiter, clock: Clock, maxBindings = defaultMaxBindings) {
    this.#limiter = limiter;
    this.#clock = clock;
    this.#maxBindings = maxBindings;
  }

  /**
   * Spends units of the share and of the account's budget, all or none.
   * @throws RATE_LIMITED, with the share as the rate limit; UNAVAILABLE
   */
  async admit(caller: Caller, units = 1): Promise<ShareCharge> {
    const { account } = caller;
    const before = this.#blockOf(caller);
    if (remainingOf(before) < units) {
      this.#set(caller, before.windows); // it is in use
      throw this.#refusal(before, units, await this.#limiter.secondsUntilSpare(account, units));
    }
    const { minute } = before;
    this.#set(caller, [
      ...before.windows.filter((window) => window.minute !== minute),
      { minute, count: units + countOf(before.windows.filter((window) => window.minute === minute)) },
    ]);
    try {
      const { minute: ofAccount } = await this.#limiter.admitSparing(account, units);
      return { ...this.peek(caller), minute: ofAccount, shareMinute: minute, units };
    } catch (error) {
      this.#giveBack(caller, minute, units);
      if (!(error instanceof DomainError) || error.code !== 'RATE_LIMITED') throw error;
      const { retryAfterSeconds } = error.facts;
      const rateLimit = this.#stateOf(this.#blockOf(caller), retryAfterSeconds);
      throw new DomainError(error.code, error.message, { ...error.facts, rateLimit });
    }
  }

  /**
   * Gives back what was charged for a request that was not executed.
   * @throws UNAVAILABLE
   */
  async refund(caller: Caller, charged: Charge): Promise<void> {
    if ('shareMinute' in charged) this.#giveBack(caller, Number(charged.shareMinute), charged.units);
    await this.#limiter.refund(caller.account, charged);
  }

  /** What is left of the share. */
  peek(caller: Caller): RateLimit {
    return this.#stateOf(this.#blockOf(caller));
  }

  /** The share in the form of a budget, as of now. */
  #blockOf(caller: Caller): ReservedBlock {
    const now = this.#clock.uptimeMs();
    const minute = minuteOf(now);
    const spent = this.#spentOf(caller);
    const windows = spent.filter((window) => window.minute >= minute - minutesBefore);
    return { limit: shareOf(caller.account, caller.requestsPerHour), minute, left: 0, windows, readAtMs: now };
  }

  #spentOf(caller: Caller): readonly RateWindow[] {
    return this.#spent.get(caller.account.id)?.get(bindingOf(caller) ?? '') ?? [];
  }

  #set(caller: Caller, windows: readonly RateWindow[]): void {
    const binding = bindingOf(caller) ?? '';
    this.#forget(caller.account.id, binding);
    if (windows.length === 0) return;
    const ofAccount = this.#spent.get(caller.account.id) ?? new Map<string, readonly RateWindow[]>();
    this.#spent.set(caller.account.id, ofAccount.set(binding, windows));
    if (++this.#bindings <= this.#maxBindings) return;
    const [accountId, most] = [...this.#spent].reduce((one, other) => (other[1].size > one[1].size ? other : one));
    const [oldest = ''] = most.keys();
    this.#forget(accountId, oldest);
  }

  #forget(accountId: string, binding: string): void {
    const ofAccount = this.#spent.get(accountId);
    if (ofAccount?.delete(binding) !== true) return;
    this.#bindings--;
    if (ofAccount.size === 0) this.#spent.delete(accountId);
  }

  #giveBack(caller: Caller, minute: number, units: number): void {
    this.#set(caller, withFewer(this.#spentOf(caller), minute, units));
  }

  /** @param waitSeconds how long to wait, where that is known already */
  #stateOf(block: ReservedBlock, waitSeconds?: number, units = remainingOf(block) + 1): RateLimit {
    const freeMs = freeAtMs(block, Math.min(units, block.limit), block.readAtMs) - block.readAtMs;
    const waitMs = waitSeconds === undefined ? freeMs : waitSeconds * 1_000;
    return {
      limit: block.limit,
      remaining: remainingOf(block),
      resetAtMs: this.#clock.now() + waitMs,
      resetAfterSeconds: Math.ceil(waitMs / 1_000),
      policy: 'share',
    };
  }

  /** @param accountSeconds how long to wait for the account's budget; undefined if that never has so much */
  #refusal(block: ReservedBlock, units: number, accountSeconds: number | undefined): DomainError {
    if (units > block.limit || accountSeconds === undefined) {
      const detail = `This token may send ${block.limit} requests per hour, together with others that are bound to the same: ${units} are never admitted together; send them in parts.`;
      return new DomainError('RATE_LIMITED', detail, { limit: 'share', rateLimit: this.#stateOf(block) });
    }
    const { resetAfterSeconds } = this.#stateOf(block, undefined, units);
    const retryAfterSeconds = Math.max(resetAfterSeconds, accountSeconds);
    return new DomainError(
      'RATE_LIMITED',
      `The ${block.limit} requests per hour that tokens bound to the same may send are used, or fewer are left than this needs.`,
      { limit: 'share', retryAfterSeconds, rateLimit: this.#stateOf(block, retryAfterSeconds) },
    );
  }
}
