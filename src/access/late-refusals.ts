import { DomainError } from '../domain/errors.ts';
import type { Clock, RateLimit } from '../domain/ports.ts';
import { minuteMs } from '../domain/rate-window.ts';
import { type Holder, memoryOwner } from './memory-owner.ts';

const maxPerMinute = 20;

/**
 * Counts the requests that were refused for what they would cost. That is known when all of a request was parsed and
 * validated, which can take a hundred times as long as refusing it at once, and costs its client nothing.
 */
export class LateRefusals {
  readonly #clock: Clock;
  /** Of this minute, on the monotonic clock; those of tokens that are bound to the same together. */
  readonly #counts = new Map<string, number>();
  #untilMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  record(caller: Holder): void {
    const now = this.#clock.uptimeMs();
    if (this.#untilMs <= now) {
      this.#counts.clear();
      this.#untilMs = now + minuteMs;
    }
    const key = keyOf(caller);
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  /** Whether there were too many in this minute. */
  isOver(caller: Holder): boolean {
    if (this.#counts.size === 0 || this.#untilMs <= this.#clock.uptimeMs()) return false;
    return (this.#counts.get(keyOf(caller)) ?? 0) >= maxPerMinute;
  }

  /** @param left of the budget */
  refusal(left: RateLimit): DomainError {
    const waitMs = this.#untilMs - this.#clock.uptimeMs();
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1_000));
    return new DomainError(
      'RATE_LIMITED',
      'Too many requests were refused in this minute for what they would cost. GraphQL can be called again when it is over.',
      {
        retryAfterSeconds,
        rateLimit: { ...left, resetAtMs: this.#clock.now() + waitMs, resetAfterSeconds: retryAfterSeconds },
      },
    );
  }
}

function keyOf(caller: Holder): string {
  const { name, member = name } = memoryOwner(caller);
  return member;
}
