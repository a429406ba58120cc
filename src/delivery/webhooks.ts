import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { Attempt, StoredDelivery } from '../domain/delivery.ts';
import { erasedJson, LogEvent } from '../domain/events.ts';
import type { Ids } from '../domain/ids.ts';
import type { ClaimedDelivery, Clock, Storage } from '../domain/ports.ts';
import { timestamp } from '../domain/time.ts';
import { type StoredWebhook, signingSecrets } from '../domain/webhook.ts';
import type { Post } from './post.ts';
import { givenBack, isSuccess, settle, withoutEvent } from './settle.ts';
import { sign } from './signature.ts';

/** How long a claim holds. Longer than an attempt and the storing of its result can take. */
const leaseMs = 30_000;
/** How often it looks for what nobody has told it of: what another process planned, or held when it died. */
const lookMs = 5_000;
/** After commits of other processes it looks sooner, but not more often than this. */
const minLookMs = 250;
/** After trouble with the storage it tries again. */
const retryMs = 1_000;
/** Attempts in flight, of all webhooks. */
const maxInFlight = 256;
/** Attempts in flight of one webhook, once it has shown that it can take them. */
const maxWindow = 32;
/** And before it has shown anything. */
const firstWindow = 4;

export interface WebhookSenderOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly post: Post;
  readonly log: Logger;
  /** From 0 to 1, for the jitter of the schedule. */
  readonly random?: () => number;
}

/** What is known of one webhook that has something pending. */
interface Lane {
  readonly webhookId: string;
  /** When something of it may be claimed; infinite when nothing is known of. */
  dueAtMs: number;
  inFlight: number;
  /**
   * How many attempts may be in flight: it doubles with each success and falls to one with a failure, so
   * that receivers which hang do not use up what there is for all.
   */
  window: number;
}

/** A delivery and its webhook as they are when the end of an attempt is recorded. */
interface Current {
  readonly delivery: StoredDelivery;
  readonly webhook: StoredWebhook;
}

interface Recorded {
  readonly delivery: StoredDelivery;
  readonly webhook?: StoredWebhook;
  readonly attempt?: Attempt;
}

/**
 * Sends what is due to webhooks. The log of deliveries is in the storage: this claims rows that are due
 * for a while, tries them, and records what became of it and when the next attempt is. So it can be
 * killed at any instant, and several of it can share the work.
 */
export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #random: () => number;
  /** Which claims are this sender's. */
  readonly #lease = randomUUID();
  /** In the order in which they have their turn. */
  readonly #lanes = new Map<string, Lane>();
  readonly #giveUp = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #inFlight = 0;
  #pumping = false;
  #pumpAgain = false;
  #started = false;
  #unwatch = (): void => {};
  #looking: NodeJS.Timeout | undefined;
  #alarm: NodeJS.Timeout | undefined;
  #nextLookMs = 0;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
  }

  /** Begins to send, with what is due already. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#unwatch = this.#options.storage.watch((touched) => {
      if (touched === undefined) this.#lookSoon();
      else if (touched.webhookIds.size > 0) this.#wake(touched.webhookIds);
    });
    this.#lookSoon();
  }

  /** Looks for all that is due by now. It does so by itself; a test that moves the clock calls it. */
  async look(): Promise<void> {
    if (!this.#started) return;
    clearTimeout(this.#looking);
    this.#looking = undefined;
    const startedMs = performance.now();
    try {
      for (const { webhookId, dueAtMs } of await this.#options.storage.read.deliveries.due()) {
        const lane = this.#lane(webhookId);
        lane.dueAtMs = Math.min(lane.dueAtMs, dueAtMs);
      }
    } catch (error) {
      this.#options.log.warn({ err: error }, 'could not look for due deliveries');
    }
    const tookMs = performance.now() - startedMs;
    // However many webhooks there are, looking takes a twentieth of the time at most.
    this.#nextLookMs = performance.now() + Math.max(minLookMs, 20 * tookMs);
    if (this.#started) this.#looking ??= setTimeout(() => void this.look(), lookMs).unref();
    this.#pump();
  }

  /**
   * Claims nothing more and resolves when what is in flight has ended. What has not ended within the
   * grace time is given up, and is due again for others at once.
   */
  async stop(graceMs: number): Promise<void> {
    this.#started = false;
    this.#unwatch();
    clearTimeout(this.#looking);
    clearTimeout(this.#alarm);
    const timer = setTimeout(() => this.#giveUp.abort(), graceMs);
    while (this.#running.size > 0) await Promise.all(this.#running);
    clearTimeout(timer);
    await this.#options.post.close();
  }

  #lookSoon(): void {
    if (!this.#started) return;
    clearTimeout(this.#looking);
    const waitMs = Math.max(0, this.#nextLookMs - performance.now());
    this.#looking = setTimeout(() => void this.look(), waitMs).unref();
  }

  #wake(webhookIds: Iterable<string>): void {
    for (const webhookId of webhookIds) this.#lane(webhookId).dueAtMs = 0;
    this.#pump();
  }

  #lane(webhookId: string): Lane {
    let lane = this.#lanes.get(webhookId);
    if (lane === undefined) {
      lane = { webhookId, dueAtMs: Number.POSITIVE_INFINITY, inFlight: 0, window: firstWindow };
      this.#lanes.set(webhookId, lane);
    }
    return lane;
  }

  #pump(): void {
    if (this.#pumping) {
      this.#pumpAgain = true;
      return;
    }
    this.#pumping = true;
    this.#track(this.#claimAll());
  }

  /** Claims and starts what is due as far as there is room, then sets the clock for the next. Never rejects. */
  async #claimAll(): Promise<void> {
    do {
      this.#pumpAgain = false;
      if (!this.#started) break;
      const turns = this.#turns();
      if (turns.length === 0) break;
      try {
        await this.#claim(turns);
      } catch (error) {
        this.#options.log.warn({ err: error }, 'could not claim deliveries');
        for (const { lane } of turns) lane.dueAtMs = 0;
        await pause(retryMs, this.#giveUp.signal);
        this.#pumpAgain = true;
      }
    } while (this.#pumpAgain || this.#turns().length > 0);
    this.#pumping = false;
    this.#setAlarm();
  }

  /** Whose turn it is, with how many they may have: each gets one before any gets more. */
  #turns(): { lane: Lane; limit: number }[] {
    const now = this.#options.clock.now();
    const waiting = [...this.#lanes.values()].filter((lane) => lane.dueAtMs <= now && lane.inFlight < lane.window);
    const room = maxInFlight - this.#inFlight;
    const share = Math.max(1, Math.floor(room / Math.max(1, waiting.length)));
    return waiting
      .slice(0, Math.max(0, room))
      .map((lane) => ({ lane, limit: Math.min(lane.window - lane.inFlight, share) }));
  }

  async #claim(turns: readonly { lane: Lane; limit: number }[]): Promise<void> {
    const { storage, clock } = this.#options;
    const nowMs = clock.now();
    const claim = { nowMs, lease: this.#lease, leaseEndsMs: nowMs + leaseMs };
    for (const { lane } of turns) {
      lane.dueAtMs = Number.POSITIVE_INFINITY; // whatever lowers it from here on is news
      this.#lanes.delete(lane.webhookId); // it has had its turn
      this.#lanes.set(lane.webhookId, lane);
    }
    const { epoch, results } = await storage.write(async (tx) => ({
      epoch: await tx.events.epoch(),
      results: await Promise.all(
        turns.map(({ lane, limit }) => tx.deliveries.claim(lane.webhookId, { ...claim, limit })),
      ),
    }));
    for (const [index, { lane }] of turns.entries()) {
      const { claimed = [], nextDueAtMs } = results[index] ?? {};
      if (nextDueAtMs !== undefined) lane.dueAtMs = Math.min(lane.dueAtMs, nextDueAtMs);
      for (const one of claimed) this.#start(lane, one, epoch);
    }
  }

  #start(lane: Lane, claimed: ClaimedDelivery, epoch: string): void {
    lane.inFlight++;
    this.#inFlight++;
    this.#track(
      this.#try(lane, claimed, epoch).finally(() => {
        lane.inFlight--;
        this.#inFlight--;
        this.#pump();
      }),
    );
  }

  /** Makes one attempt and records what became of it. Never rejects. */
  async #try(lane: Lane, { delivery, accountId, webhook, event }: ClaimedDelivery, epoch: string): Promise<void> {
    const body = delivery.sample ?? (event === null ? undefined : new LogEvent(accountId, epoch, event).json);
    if (body === undefined) {
      await this.#record(delivery, (now) => ({ delivery: withoutEvent(delivery, now) }));
      return;
    }
    const { clock, post, ids, log } = this.#options;
    const startedMs = clock.now();
    const secrets = signingSecrets(webhook.secrets, startedMs).map(({ secret }) => secret);
    const letter = { url: webhook.url, body, signature: sign(delivery.eventId, startedMs, body, secrets) };
    const began = performance.now();
    const outcome = await post.send(letter, startedMs, this.#giveUp.signal);
    const durationMs = Math.round(performance.now() - began);
    if (outcome.status === null && this.#giveUp.signal.aborted) {
      await this.#record(delivery, (now) => ({ delivery: givenBack(delivery, now) }));
      return;
    }
    lane.window = isSuccess(outcome) ? Math.min(2 * lane.window, maxWindow) : 1;
    const attempt: Attempt = {
      id: ids.next('attempt', startedMs),
      startedAt: timestamp(startedMs),
      durationMs,
      trigger: delivery.trigger,
      responseStatus: outcome.status,
      responseBody: outcome.body,
      error: outcome.error,
    };
    log[isSuccess(outcome) ? 'debug' : 'info'](
      { webhookId: webhook.id, deliveryId: delivery.id, status: outcome.status, error: outcome.error, durationMs },
      'webhook attempt',
    );
    const random = this.#random();
    await this.#record(delivery, (now, current) => ({ ...settle(current, outcome, { now, random }), attempt }));
  }

  /** Stores what an attempt came to. When the storage has trouble, for as long as the lease holds. */
  async #record(claimed: StoredDelivery, change: (now: number, current: Current) => Recorded): Promise<void> {
    const { storage, clock, log } = this.#options;
    const deadlineMs = performance.now() + leaseMs;
    for (;;) {
      try {
        await storage.write(async (tx) => {
          const current = await tx.deliveries.findForAttempt(claimed.id);
          // Its webhook was deleted, or the lease had ended and the delivery is another's now.
          if (current === undefined || current.delivery.lease !== claimed.lease) return;
          const { delivery, webhook = current.webhook, attempt } = change(clock.now(), current);
          if (attempt !== undefined) {
            // What was told when it was sent may have been erased since, and answers like to repeat it.
            const kept = current.event?.data === erasedJson ? { ...attempt, responseBody: null } : attempt;
            await tx.deliveries.insertAttempt(claimed.id, delivery.attemptCount, kept);
          }
          await tx.deliveries.update(delivery);
          if (webhook !== current.webhook) await tx.webhooks.update(current.accountId, webhook);
        });
        return;
      } catch (error) {
        log.warn({ deliveryId: claimed.id, err: error }, 'could not record an attempt');
        if (performance.now() > deadlineMs || this.#giveUp.signal.aborted) return; // it will be sent once more
        await pause(retryMs, this.#giveUp.signal);
      }
    }
  }

  /** Wakes up when the first of what is planned is due. */
  #setAlarm(): void {
    clearTimeout(this.#alarm);
    let firstMs = Number.POSITIVE_INFINITY;
    for (const [webhookId, lane] of this.#lanes) {
      if (lane.dueAtMs === Number.POSITIVE_INFINITY && lane.inFlight === 0) this.#lanes.delete(webhookId);
      else if (lane.inFlight < lane.window) firstMs = Math.min(firstMs, lane.dueAtMs);
    }
    const waitMs = firstMs - this.#options.clock.now();
    if (!this.#started || waitMs > lookMs) return; // looking comes first
    this.#alarm = setTimeout(() => this.#pump(), Math.max(1, waitMs)).unref();
  }

  #track(work: Promise<void>): void {
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }
}

/** Resolves after a time, or at once when the signal comes. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}
