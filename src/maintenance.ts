import type { Logger } from 'pino';
import type { RateLimiter } from './access/rate-limit.ts';
import { finishErasures } from './domain/conversations.ts';
import type { Clock } from './domain/ports.ts';
import { removeOld } from './domain/retention.ts';
import { indexTexts } from './domain/search.ts';
import type { Storage } from './domain/storage-port.ts';

interface MaintenanceOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  readonly limiter: RateLimiter;
  /** Events older than this are removed. */
  readonly eventRetentionMs: number;
}

/** The periodic work of a server. */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  #removal: Promise<void> | undefined;
  #isStopping = false;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  /**
   * Returns rate-limit reservations of past minutes, removes expired data in small steps, finishes interrupted
   * erasures, and indexes texts for search. To be called about every minute.
   */
  async tick(): Promise<void> {
    const { limiter, log } = this.#options;
    // A failure of one must not prevent the other. A removal can outlast several ticks; two would only compete.
    this.#removal ??= this.#removeExpired()
      .catch((error: unknown) => log.warn({ err: error }, 'could not remove expired data'))
      .finally(() => {
        this.#removal = undefined;
      });
    await Promise.all([limiter.handBack(), this.#removal]);
  }

  /** Finishes what a process was killed in the midst of: erasures, and indexing texts for search. */
  async finishInterrupted(): Promise<void> {
    await this.#finishErasures();
    await indexTexts(this.#options.storage, () => this.#isStopping);
  }

  /** Leaves to the next process what can wait. To be called before the storage is closed. */
  stop(): void {
    this.#isStopping = true;
  }

  async #finishErasures(): Promise<void> {
    const { storage, log } = this.#options;
    const count = await finishErasures(storage);
    if (count > 0) log.info({ count }, 'finished erasing conversations');
  }

  async #removeExpired(): Promise<void> {
    const { storage, clock, eventRetentionMs } = this.#options;
    await removeOld(storage, clock.now(), eventRetentionMs);
    await this.finishInterrupted();
  }
}
