import type { Logger } from 'pino';
import type { Clock } from '../domain/ports.ts';
import type { DeliveryBacklog, Storage } from '../domain/storage-port.ts';
import { contentType } from './exposition.ts';
import type { Metrics } from './metrics.ts';

/** How long the storage may take to answer before the service is not ready. */
const patienceMs = 1_000;
/** Deliveries are counted up to here, which takes some milliseconds. */
const countedTo = 100_000;
/** The count is good for so long, however often somebody asks. */
const countIsGoodMs = 1_000;

export interface StatusProbesOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly sessions: { readonly size: number };
  readonly liveLog: { readonly followers: number };
  readonly turnstile: { readonly refused: number; readonly backlogMs: number };
}

/** Answers those who watch over the service. */
export class StatusProbes {
  readonly #options: StatusProbesOptions;
  #draining = false;
  #backlog: { readonly value: DeliveryBacklog | undefined; readonly atMs: number } | undefined;

  constructor(options: StatusProbesOptions) {
    this.#options = options;
  }

  /** From here on the service is not ready. */
  drain(): void {
    this.#draining = true;
  }

  /**
   * Whether requests should be sent here: the storage is asked. It is read only: a lock that keeps writers waiting is
   * held by one process for all, so to send requests elsewhere would not help. Never rejects.
   */
  async readiness(): Promise<'ready' | 'draining' | 'unavailable'> {
    if (this.#draining) return 'draining';
    const { storage, log } = this.#options;
    try {
      await within(patienceMs, async () => await storage.check());
      return 'ready';
    } catch (error) {
      log.warn({ err: error }, 'the storage cannot be read');
      return 'unavailable';
    }
  }

  async metrics(): Promise<{ type: string; text: string }> {
    const { storage, clock, metrics, sessions, liveLog, turnstile } = this.#options;
    const nowMs = clock.now();
    const backlog = await this.#currentBacklog(nowMs);
    const state = {
      backlogMs: turnstile.backlogMs,
      refused: turnstile.refused,
      waitingWrites: storage.waitingWrites,
      sessions: sessions.size,
      subscribers: liveLog.followers,
      backlog,
    };
    return { type: contentType, text: metrics.text(state, nowMs) };
  }

  /** @returns undefined when the storage cannot tell: the other numbers are wanted then more than ever */
  async #currentBacklog(nowMs: number): Promise<DeliveryBacklog | undefined> {
    const { storage, log } = this.#options;
    if (this.#backlog === undefined || performance.now() - this.#backlog.atMs > countIsGoodMs) {
      let value: DeliveryBacklog | undefined;
      try {
        value = await within(patienceMs, async () => await storage.read.deliveries.backlog(nowMs, countedTo));
      } catch (error) {
        log.warn({ err: error }, 'could not count deliveries');
      }
      this.#backlog = { value, atMs: performance.now() };
    }
    return this.#backlog.value;
  }
}

/** @throws Error when it takes longer */
async function within<T>(timeoutMs: number, work: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`It took longer than ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([work(), late]);
  } finally {
    clearTimeout(timer);
  }
}
