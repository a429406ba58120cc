import { type DomainError, overloaded } from '../domain/errors.ts';
import type { Storage } from '../domain/storage-port.ts';
import type { Scheduler } from '../runtime/scheduler.ts';

/** A request that would probably wait longer than this is refused at once. */
const patienceMs = 1_000;
/** One that has waited longer than this, because the estimate was wrong, is refused when its turn comes. */
const maxWaitMs = 2 * patienceMs;
/** Overload must last this long: after a pause every estimate is briefly too high. */
const stallMs = 500;
/**
 * For so long after a refusal, further requests with the same credential are refused without looking it up, which costs as
 * much as the refusal. Their `Retry-After` asks for longer.
 */
const refusedForMs = 100;
/** Credentials that are remembered at most, so that the memory is bounded. */
const maxRemembered = 10_000;
/** This many may always wait: a pool of clients, each waiting for its response, is no overload. */
const neverRefused = 256;

/**
 * What a request asks for. Of a GraphQL request, and of the call of a tool, that is known when the body has been read: it
 * waits as a read, and a change once more then, among the writes. It is refused as a write is, or no change ever would be.
 */
export type Asked = 'read' | 'write' | 'either';

interface LoadShedderOptions {
  readonly scheduler: Scheduler;
  readonly storage: Pick<Storage, 'waitingWrites' | 'writeWaitMs'>;
  /**
   * Called at the first refusal, and every ten seconds while refusals continue, with the number since the last call.
   */
  readonly onRefusal: (refused: number) => void;
}

/**
 * Load shedding: refuses requests that would wait too long before any work is done for them. How long that is depends on
 * what their own account has waiting, since accounts take turns: one that sends too much is refused, and the others
 * hardly wait.
 *
 * A single thread does all the work, so excess requests have to wait somewhere. In the sockets' buffers they could not
 * be counted, and begun all at once they would delay the requests in progress, so they wait in the scheduler. The wait
 * is estimated from their number and their average cost, so a pause such as a garbage collection delays requests but
 * refuses none.
 */
export class LoadShedder {
  readonly #options: LoadShedderOptions;
  /** Since when there has been more work than can be done in time. */
  #overloadedSinceMs: number | undefined;
  #refused = 0;
  /** The credentials that were refused lately, and since when they are remembered. */
  readonly #lately = new Set<string>();
  #latelySinceMs = 0;
  readonly #reported = { refused: 0, atMs: Number.NEGATIVE_INFINITY };
  /** One shared error: in a flood, a refusal has to cost next to nothing. */
  readonly #refusal = overloaded('The service is overloaded and cannot answer in time.');

  constructor(options: LoadShedderOptions) {
    this.#options = options;
  }

  /** Total number of refusals. */
  get refused(): number {
    return this.#refused;
  }

  /** Estimated time to process everything that waits. */
  get backlogMs(): number {
    const { scheduler, storage } = this.#options;
    return scheduler.requestsMs + storage.writeWaitMs();
  }

  /** Whether more wait for an answer than a pool of clients would explain. */
  get #isFlood(): boolean {
    const { scheduler, storage } = this.#options;
    return scheduler.waitingRequests + storage.waitingWrites > neverRefused;
  }

  /**
   * Refuses a credential that has just been refused.
   * @param credential as the client has sent it
   * @throws UNAVAILABLE
   */
  refuseAgain(credential: string | undefined): void {
    if (this.#lately.size === 0) return;
    const nowMs = performance.now();
    if (nowMs - this.#latelySinceMs > refusedForMs) this.#lately.clear();
    else if (credential !== undefined && this.#lately.has(credential)) throw this.#refuse(nowMs);
  }

  /**
   * Lets a request of an account run, at once or after a wait.
   * @param credential as the client has sent it
   * @returns undefined if it may run at once
   * @throws UNAVAILABLE when overloaded; the promise can reject with it, too
   */
  enter(accountId: string, asked: Asked, credential?: string): Promise<void> | undefined {
    const { scheduler, storage } = this.#options;
    const sinceMs = performance.now();
    if (this.#isOverloaded(sinceMs)) {
      const waitMs = scheduler.waitMs(accountId) + (asked === 'read' ? 0 : storage.writeWaitMs(accountId));
      if (waitMs > patienceMs) {
        if (this.#lately.size === 0) this.#latelySinceMs = sinceMs;
        if (credential !== undefined && this.#lately.size < maxRemembered) this.#lately.add(credential);
        throw this.#refuse(sinceMs);
      }
    }
    return scheduler.request(accountId, asked !== 'write')?.then(() => {
      const nowMs = performance.now();
      if (nowMs - sinceMs > maxWaitMs && this.#isFlood) throw this.#refuse(nowMs);
    });
  }

  #isOverloaded(nowMs: number): boolean {
    const backlogMs = this.#isFlood ? this.backlogMs : 0;
    if (backlogMs < patienceMs / 2) this.#overloadedSinceMs = undefined;
    if (backlogMs <= patienceMs) return false;
    this.#overloadedSinceMs ??= nowMs;
    return nowMs - this.#overloadedSinceMs >= stallMs;
  }

  #refuse(nowMs: number): DomainError {
    this.#refused++;
    if (nowMs - this.#reported.atMs > 10_000) {
      this.#options.onRefusal(this.#refused - this.#reported.refused);
      this.#reported.refused = this.#refused;
      this.#reported.atMs = nowMs;
    }
    return this.#refusal;
  }
}
