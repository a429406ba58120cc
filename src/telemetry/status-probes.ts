import type { Logger } from 'pino';
import type { Clock } from '../domain/ports.ts';
import type { DeliveryBacklog, Storage } from '../domain/storage-port.ts';
import { countedTo, type Metrics, type MetricsSnapshot, metricsText, metricsType } from './metrics.ts';

/** The service is not ready if the storage takes longer than this to answer. */
const patienceMs = 1_000;
/** How long the count of deliveries is cached. */
const countMaxAgeMs = 1_000;

interface StatusProbesOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly sessions: { readonly size: number };
  readonly liveLog: { readonly followers: number };
  /** Gets the metrics of all processes that serve together, if there are others. */
  readonly scrapeAll?: (() => Promise<string>) | undefined;
  readonly loadShedder: { readonly backlogMs: number };
  /** How many requests were refused because of overload. */
  readonly refused: () => number;
}

/**
 * Readiness and metrics for monitoring. Anybody may ask, as often as they like: who does while the storage is being asked
 * gets the same answer.
 */
export class StatusProbes {
  readonly #options: StatusProbesOptions;
  #draining = false;
  #check: Promise<'ready' | 'unavailable'> | undefined;
  /** Whether the log says that the storage cannot be read. */
  #isUnreadable = false;
  #backlog: { readonly value: Promise<DeliveryBacklog | undefined>; readonly atMs: number } | undefined;

  constructor(options: StatusProbesOptions) {
    this.#options = options;
  }

  /** From here on the service is not ready. */
  drain(): void {
    this.#draining = true;
  }

  /**
   * Whether requests should be routed here, which includes a read from the storage. Writing is not tested: a lock held
   * by one process blocks the writers of all, so routing requests elsewhere would not help. Never rejects.
   */
  async readiness(): Promise<'ready' | 'draining' | 'unavailable'> {
    if (this.#draining) return 'draining';
    this.#check ??= this.#checkStorage().finally(() => {
      this.#check = undefined;
    });
    return await this.#check;
  }

  async #checkStorage(): Promise<'ready' | 'unavailable'> {
    const { storage, log } = this.#options;
    try {
      await within(patienceMs, async () => await storage.check());
      this.#isUnreadable = false;
      return 'ready';
    } catch (error) {
      if (!this.#isUnreadable) log.warn({ err: error }, 'the storage cannot be read');
      this.#isUnreadable = true;
      return 'unavailable';
    }
  }

  /** All metrics in the text format of Prometheus, and its media type: of all processes that serve together. */
  async metrics(): Promise<{ type: string; text: string }> {
    const text = await (this.#options.scrapeAll?.() ?? this.snapshot().then((own) => metricsText([own])));
    return { type: metricsType, text };
  }

  /** The metrics of this process. */
  async snapshot(): Promise<MetricsSnapshot> {
    const { storage, clock, metrics, sessions, liveLog, loadShedder, refused } = this.#options;
    const nowMs = clock.now();
    const backlog = await this.#currentBacklog(nowMs);
    return await metrics.snapshot({
      nowMs,
      backlogMs: loadShedder.backlogMs,
      waitingWrites: storage.waitingWrites,
      refused: refused(),
      sessions: sessions.size,
      subscribers: liveLog.followers,
      backlog,
    });
  }

  #currentBacklog(nowMs: number): Promise<DeliveryBacklog | undefined> {
    if (this.#backlog === undefined || performance.now() - this.#backlog.atMs > countMaxAgeMs) {
      const counted = { value: this.#countBacklog(nowMs), atMs: Number.POSITIVE_INFINITY };
      void counted.value.then(() => {
        counted.atMs = performance.now();
      });
      this.#backlog = counted;
    }
    return this.#backlog.value;
  }

  /** @returns undefined when the storage cannot be read: the other metrics are needed then more than ever */
  async #countBacklog(nowMs: number): Promise<DeliveryBacklog | undefined> {
    const { storage, log } = this.#options;
    try {
      return await within(patienceMs, async () => await storage.read.deliveries.backlog(nowMs, countedTo));
    } catch (error) {
      log.warn({ err: error }, 'could not count deliveries');
      return undefined;
    }
  }
}

/** @throws Error after the timeout */
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
