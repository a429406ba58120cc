import { setTimeout } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Attempt, leaseMs, type StoredDelivery } from '../domain/delivery-record.ts';
import { erasedJson } from '../domain/events.ts';
import type { Clock } from '../domain/ports.ts';
import type { ClaimedDelivery, ReleasedDelivery, Storage, Transaction } from '../domain/storage-port.ts';
import type { StoredWebhook } from '../domain/webhook-record.ts';
import type { Grant } from './delivery-queue.ts';

/** The most attempts that one transaction records, so that it does not hold up other writers for long. */
const maxTogether = 64;
/** The pause after a failed write. */
const retryMs = 1_000;
const hourMs = 3_600_000;
/** How much of the responses to an account's attempts is kept in full within an hour, in UTF-16 code units. */
const fullLength = 8 * 1024 * 1024;
/** How much of each further one. */
const shortLength = 256;

/** A delivery and its webhook as they are in the storage when an attempt is recorded. */
interface CurrentRows {
  readonly delivery: StoredDelivery;
  readonly webhook: StoredWebhook;
}

interface ChangedRows {
  readonly delivery: StoredDelivery;
  readonly webhook?: StoredWebhook;
  readonly attempt?: Attempt;
}

/** What an attempt has to change in the storage. */
export interface AttemptResult {
  /** Whether the receiver accepted it; undefined if the attempt says nothing about the receiver. */
  readonly succeeded?: boolean;
  /** Computes the new rows from the current ones: the delivery may have been redelivered since it was claimed. */
  readonly change: (now: number, current: CurrentRows) => ChangedRows;
}

/** An attempt that is over and not recorded yet. */
interface FinishedAttempt extends AttemptResult {
  readonly grant: Grant;
  readonly claimed: ClaimedDelivery;
  /** The number of erasures when its event was read. */
  readonly erasures: number;
}

interface QueuedAttempt extends FinishedAttempt {
  /** Until when recording is retried, by `performance.now()`. */
  readonly deadlineMs: number;
  readonly resolve: () => void;
}

interface RecorderOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  /** The lease by which the deliveries were claimed. */
  readonly lease: string;
  /** Ends retries. */
  readonly signal: AbortSignal;
  /** Called after the writes for these attempts were queued, and before they are committed. */
  readonly onQueued: (finished: readonly FinishedAttempt[]) => void;
}

/** Records finished attempts: those of the same turn of the event loop together, in few transactions. */
export class AttemptRecorder {
  readonly #options: RecorderOptions;
  #queue: QueuedAttempt[] = [];

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  /** Never rejects. */
  record(finished: FinishedAttempt): Promise<void> {
    return new Promise((resolve) => {
      const length = this.#queue.push({ ...finished, deadlineMs: performance.now() + leaseMs, resolve });
      if (length === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const queued = this.#queue;
    this.#queue = [];
    for (let index = 0; index < queued.length; index += maxTogether) {
      void this.#write(queued.slice(index, index + maxTogether));
    }
    this.#options.onQueued(queued);
  }

  /**
   * Retries after an error for as long as a lease lasts. The attempt's own lease, which began earlier, has expired by
   * then: a delivery that another process has claimed meanwhile is left alone. Never rejects.
   */
  async #write(queued: readonly QueuedAttempt[]): Promise<void> {
    const { storage, clock, log, lease, signal } = this.#options;
    try {
      await storage.write(async (tx) => await recordAttempts(tx, lease, queued, clock.now()));
      for (const { resolve } of queued) resolve();
    } catch (error) {
      log.warn(
        { deliveryIds: queued.map(({ claimed }) => claimed.delivery.id), err: error },
        'could not record attempts',
      );
      await pause(retryMs, signal);
      const isOver = (one: QueuedAttempt): boolean => performance.now() > one.deadlineMs || signal.aborted;
      for (const one of queued) {
        if (isOver(one))
          one.resolve(); // the delivery will be sent again
        else void this.#write([one]); // alone, so that a fault of one does not affect the others
      }
    }
  }
}

/** Stores attempts, and updates each delivery and webhook from its current row. */
async function recordAttempts(
  tx: Transaction,
  lease: string,
  finished: readonly FinishedAttempt[],
  now: number,
): Promise<void> {
  const ids = finished.map(({ claimed }) => claimed.delivery.id);
  const released = await tx.deliveries.release(lease, ids);
  const currentErasures = await tx.events.erasures();
  const webhooks = new Map(released.map((current) => [current?.webhook.id, current?.webhook]));
  for (const [index, { claimed, erasures, change }] of finished.entries()) {
    const current = released[index];
    // The webhook was deleted, or the lease expired and another sender claimed the delivery.
    if (current === undefined) continue;
    const before = webhooks.get(current.webhook.id) ?? current.webhook; // with changes made by earlier attempts of this loop
    const { delivery, webhook = before, attempt } = change(now, { delivery: current.delivery, webhook: before });
    if (attempt !== undefined) {
      // Responses often echo the request, whose data may have been erased since this attempt or an earlier one was made.
      const isErased =
        claimed.event?.dataJson === erasedJson || (erasures !== currentErasures && (await wasErased(tx, current)));
      const stored = isErased ? { ...attempt, responseBody: null } : attempt;
      await tx.deliveries.insertAttempt(delivery.id, delivery.attemptCount, stored);
    }
    await tx.deliveries.update(current.accountId, delivery);
    if (webhook === before) continue;
    await tx.webhooks.update(current.accountId, webhook);
    webhooks.set(webhook.id, webhook);
  }
}

async function wasErased(tx: Transaction, { accountId, delivery }: ReleasedDelivery): Promise<boolean> {
  if (delivery.eventSequence === null) return false;
  const { events } = await tx.events.after(accountId, delivery.eventSequence - 1, { filter: {}, limit: 1, span: 1 });
  return events[0]?.dataJson === erasedJson;
}

/**
 * Bounds what the responses of receivers take on the disk: an account's own receivers may answer each of ten attempts
 * at each of twenty deliveries of an event with 16 KiB.
 */
export class ResponseBudget {
  #hour = 0;
  /** What was kept within this hour, by account. */
  readonly #kept = new Map<string, number>();

  /** @returns as much of a response as is to be kept */
  cut(accountId: string, body: string | null, nowMs: number): string | null {
    const hour = Math.floor(nowMs / hourMs);
    if (hour !== this.#hour) this.#kept.clear();
    this.#hour = hour;
    const before = this.#kept.get(accountId) ?? 0;
    if (body === null || body.length <= shortLength) return body;
    if (before + body.length > fullLength) return body.slice(0, shortLength).toWellFormed();
    this.#kept.set(accountId, before + body.length);
    return body;
  }
}

/** Resolves after a time, or as soon as the signal is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal }).catch(() => {});
}
