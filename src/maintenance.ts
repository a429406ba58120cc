import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { RateLimiter } from './access/rate-limit.ts';
import { finishErasures } from './domain/conversations.ts';
import type { Clock } from './domain/ports.ts';
import { removeOld } from './domain/retention.ts';
import { indexTexts } from './domain/search.ts';
import type { Storage } from './domain/storage-port.ts';

/** Indexing rests for as many times as long as it took. */
const restAfterIndexing = 4;

interface MaintenanceOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  readonly limiter: RateLimiter;
  /** Events older than this are removed. */
  readonly eventRetentionMs: number;
}

/** The periodic work of a server: what each does for itself, and what one that leads does for all on the same storage. */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  #removal: Promise<void> | undefined;
  #indexing: Promise<void> | undefined;
  #leads = false;
  #isStopping = false;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  /**
   * Returns rate-limit reservations of past minutes. Who leads also removes expired data in small steps, finishes
   * interrupted erasures, and indexes texts for search. To be called about every minute.
   */
  async tick(): Promise<void> {
    const { limiter, log } = this.#options;
    if (!this.#leads) return await limiter.handBack();
    // A failure of one must not prevent another. A removal can outlast several ticks; two would only compete.
    this.#removal ??= this.#removeExpired()
      .catch((error: unknown) => {
        // What a stop interrupts, the next process goes on with.
        if (!this.#isStopping) log.warn({ err: error }, 'could not remove expired data');
      })
      .finally(() => {
        this.#removal = undefined;
      });
    const indexing = this.#indexTexts().catch((error: unknown) => log.warn({ err: error }, 'could not index texts'));
    await Promise.all([limiter.handBack(), this.#removal, indexing]);
  }

  /** Leads from now on. Finishes what a process was killed in the midst of: erasures, and indexing texts for search. */
  async lead(): Promise<void> {
    this.#leads = true;
    await this.#finishErasures();
    await this.#indexTexts();
  }

  /** Leaves to the next process what can wait. To be called before the storage is closed. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Rests after each transaction, so that requests keep most of the time where many texts wait. */
  #indexTexts(): Promise<void> {
    let startedMs = performance.now();
    this.#indexing ??= indexTexts(this.#options.storage, async () => {
      await pause((performance.now() - startedMs) * restAfterIndexing, undefined, { ref: false });
      startedMs = performance.now();
      return !this.#isStopping;
    }).finally(() => {
      this.#indexing = undefined;
    });
    return this.#indexing;
  }

  async #finishErasures(): Promise<void> {
    const { storage, log } = this.#options;
    const count = await finishErasures(storage);
    if (count > 0) log.info({ count }, 'finished erasing conversations');
  }

  async #removeExpired(): Promise<void> {
    const { storage, clock, eventRetentionMs } = this.#options;
    await removeOld(storage, clock.now(), eventRetentionMs);
    await this.#finishErasures();
  }
}
