import { randomBytes, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Attempt, leaseMs, type StoredDelivery } from '../domain/delivery-record.ts';
import { LogEvent, type StoredEvent } from '../domain/events.ts';
import type { Ids } from '../domain/ids.ts';
import type { Clock, Telemetry } from '../domain/ports.ts';
import type { ClaimedDelivery, Storage } from '../domain/storage-port.ts';
import { timestamp } from '../domain/time.ts';
import { childTraceparent, traceIdOf } from '../domain/trace.ts';
import { signingSecrets } from '../domain/webhook-record.ts';
import { applyOutcome, failedWithoutEvent, isSuccess, rescheduled } from './attempt-outcome.ts';
import { AttemptRecorder, type AttemptResult, pause, ResponseBudget } from './attempt-recorder.ts';
import { DeliveryQueue, type Grant } from './delivery-queue.ts';
import type { ThreadedWebhookClient, WebhookRequest } from './threaded-client.ts';

/** The polling interval, for deliveries that no commit announced: those another process scheduled, or held when it died. */
const lookMs = 5_000;
/** The least time between two polls. A commit of another process causes one before the interval is over. */
const minLookMs = 250;
/** The pause after a failed claim. */
const retryMs = 1_000;
/** The pause before what is due is claimed again, while a transaction of another sender has it locked. */
const lockedMs = 100;
/** The delay of a delivery that could not be sent for a reason on this machine, such as a lack of file descriptors. */
const localRetryMs = 2_000;

interface WebhookSenderOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly client: ThreadedWebhookClient;
  readonly log: Logger;
  readonly telemetry: Pick<Telemetry, 'attempted'>;
}

/** A claimed delivery with what its attempt needs. */
interface StartedAttempt {
  readonly grant: Grant;
  readonly claimed: ClaimedDelivery;
  /** The request body; undefined if the event was removed from the log. */
  readonly body: string | undefined;
  /** The number of erasures when its event was read. */
  readonly erasures: number;
}

/**
 * Sends due deliveries to webhooks. All state is in the storage: a sender claims due rows for the time of a lease,
 * makes an attempt for each, and records its outcome and the time of the next. So it can be killed at any moment, and
 * several senders can share the work.
 */
export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  /** Identifies this sender's claims. */
  readonly #lease = randomUUID();
  readonly #queue = new DeliveryQueue();
  readonly #responses = new ResponseBudget();
  readonly #recorder: AttemptRecorder;
  /** The ids of deliveries with an attempt in progress. */
  readonly #inProgress = new Set<string>();
  readonly #giveUp = new AbortController();
  /** Claims and attempts that `stop` has to wait for. */
  readonly #running = new Set<Promise<void>>();
  #pumping = false;
  #started = false;
  #unwatch = (): void => {};
  #lookTimer: NodeJS.Timeout | undefined;
  #claimTimer: NodeJS.Timeout | undefined;
  #earliestLookMs = 0;
  #isLooking = false;
  /** Whether something has happened since the present look began. */
  #looksAgain = false;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    const { storage, clock, log } = options;
    this.#recorder = new AttemptRecorder({
      storage,
      clock,
      log,
      lease: this.#lease,
      signal: this.#giveUp.signal,
      onQueued: (finished) => {
        for (const { grant, succeeded } of finished) this.#queue.ended(grant, succeeded);
        // Queued in the same turn of the event loop, the next claim can be part of the same commit.
        this.#pump();
      },
    });
  }

  /** Starts sending, beginning with what is due already. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#unwatch = this.#options.storage.watch((touched) => {
      if (touched === undefined) this.#lookSoon();
      else if (touched.webhooks.size > 0) this.#wake(touched.webhooks);
    });
    this.#lookSoon();
  }

  /** Polls for due deliveries. This happens regularly by itself; a test calls it after moving the clock. */
  async look(): Promise<void> {
    if (!this.#started) return;
    clearTimeout(this.#lookTimer);
    this.#isLooking = true;
    this.#looksAgain = false;
    const startedMs = performance.now();
    try {
      const { storage, clock } = this.#options;
      for (const { accountId, webhookId, dueAtMs } of await storage.read.deliveries.due(clock.now())) {
        this.#queue.plan(accountId, webhookId, dueAtMs);
      }
    } catch (error) {
      this.#options.log.warn({ err: error }, 'could not look for due deliveries');
    }
    this.#isLooking = false;
    // However many webhooks there are, polling takes a twentieth of the time at most.
    const leastMs = Math.max(minLookMs, 20 * (performance.now() - startedMs));
    this.#earliestLookMs = performance.now() + leastMs;
    if (this.#started) this.#lookAfter(this.#looksAgain ? leastMs : Math.max(lookMs, leastMs));
    this.#pump();
  }

  /**
   * Stops claiming, and resolves when all attempts in flight have ended. Those that take longer than the grace period
   * are given up, and are due again at once for other senders.
   */
  async stop(graceMs: number): Promise<void> {
    this.#started = false;
    this.#unwatch();
    clearTimeout(this.#lookTimer);
    clearTimeout(this.#claimTimer);
    const timer = setTimeout(() => {
      this.#giveUp.abort();
      this.#options.client.giveUp();
    }, graceMs);
    while (this.#running.size > 0) await Promise.all(this.#running);
    clearTimeout(timer);
    await this.#options.client.close();
  }

  #lookSoon(): void {
    if (!this.#started) return;
    if (this.#isLooking) this.#looksAgain = true;
    else this.#lookAfter(Math.max(0, this.#earliestLookMs - performance.now()));
  }

  #lookAfter(ms: number): void {
    clearTimeout(this.#lookTimer);
    this.#lookTimer = setTimeout(() => void this.look(), ms).unref();
  }

  #wake(webhooks: ReadonlyMap<string, string>): void {
    for (const [webhookId, accountId] of webhooks) this.#queue.plan(accountId, webhookId, 0);
    this.#pump();
  }

  #pump(): void {
    if (this.#pumping) return; // the running loop sees the new state
    this.#pumping = true;
    this.#track(this.#claimAll());
  }

  /** Claims and starts due deliveries until no more are granted, then sets the timer for the next one. Never rejects. */
  async #claimAll(): Promise<void> {
    while (this.#started) {
      const grants = this.#queue.grant(this.#options.clock.now());
      if (grants.length === 0) break;
      try {
        await this.#claim(grants);
      } catch (error) {
        this.#options.log.warn({ err: error }, 'could not claim deliveries');
        for (const grant of grants) this.#queue.claimed(grant, 0, 0);
        await pause(retryMs, this.#giveUp.signal);
      }
    }
    this.#pumping = false;
    this.#setClaimTimer();
  }

  async #claim(grants: readonly Grant[]): Promise<void> {
    const { storage, clock } = this.#options;
    const nowMs = clock.now();
    const wanted = grants.map(({ webhook, limit }) => ({ webhookId: webhook.id, limit }));
    const lease = { id: this.#lease, nowMs, endsMs: nowMs + leaseMs };
    const { epoch, erasures, claims } = await storage.write(async (tx) => ({
      epoch: await tx.events.epoch(),
      erasures: await tx.events.erasures(),
      claims: await tx.deliveries.claim(wanted, lease),
    }));
    const bodyOf = bodies(epoch);
    for (const [index, grant] of grants.entries()) {
      const { claimed = [], nextDueAtMs } = claims[index] ?? {};
      // If the clock jumps, own leases may expire early: a delivery in progress is then claimed again, but not sent twice.
      const fresh = claimed.filter(({ delivery }) => !this.#inProgress.has(delivery.id));
      for (const one of fresh) this.#start({ grant, claimed: one, body: bodyOf(one), erasures });
      const isLocked = fresh.length === 0 && nextDueAtMs !== undefined && nextDueAtMs <= nowMs;
      this.#queue.claimed(grant, fresh.length, isLocked ? nowMs + lockedMs : nextDueAtMs);
    }
  }

  #start(started: StartedAttempt): void {
    const { id } = started.claimed.delivery;
    this.#inProgress.add(id);
    this.#track(this.#deliver(started).finally(() => this.#inProgress.delete(id)));
  }

  /** Makes one attempt and records its outcome. Never rejects. */
  async #deliver(started: StartedAttempt): Promise<void> {
    const result = await this.#attempt(started);
    await this.#recorder.record({ ...result, ...started });
  }

  /** Never rejects. */
  async #attempt({ claimed: { delivery, webhook, accountId }, body }: StartedAttempt): Promise<AttemptResult> {
    if (body === undefined) {
      return { change: (now, current) => ({ delivery: failedWithoutEvent(current.delivery, now) }) };
    }
    const { clock, client, ids, log, telemetry } = this.#options;
    const startedMs = clock.now();
    const trace = traceOf(delivery);
    const request: WebhookRequest = {
      url: webhook.url,
      id: delivery.eventId,
      sentMs: startedMs,
      body,
      secrets: signingSecrets(webhook.secrets, startedMs).map(({ secret }) => secret),
      traceparent: trace?.traceparent,
    };
    const outcome = await client.send(request);
    if (outcome.status === null && this.#giveUp.signal.aborted) {
      return { change: (now, current) => ({ delivery: rescheduled(current.delivery, now) }) };
    }
    if (outcome.isLocalFailure === true) {
      log.warn({ deliveryId: delivery.id, error: outcome.error }, 'a local failure kept a webhook from being sent');
      return { change: (now, current) => ({ delivery: rescheduled(current.delivery, now + localRetryMs) }) };
    }
    const succeeded = isSuccess(outcome);
    const { status, error, durationMs } = outcome;
    telemetry.attempted(succeeded, durationMs);
    const attempt: Attempt = {
      id: ids.next('attempt', startedMs),
      startedAt: timestamp(startedMs),
      durationMs,
      trigger: delivery.trigger,
      responseStatus: status,
      responseBody: this.#responses.cut(accountId, outcome.body, startedMs),
      error,
    };
    const { traceId, spanId } = trace ?? {};
    log[succeeded ? 'debug' : 'info'](
      { webhookId: webhook.id, deliveryId: delivery.id, traceId, spanId, status, error, durationMs },
      'webhook attempt',
    );
    const { url } = webhook;
    const random = Math.random();
    return {
      succeeded,
      change: (now, current) => ({ ...applyOutcome(current, outcome, { url, now, random }), attempt }),
    };
  }

  #setClaimTimer(): void {
    clearTimeout(this.#claimTimer);
    const waitMs = this.#queue.firstMs - this.#options.clock.now();
    if (!this.#started || waitMs > lookMs) return; // the next poll comes first
    this.#claimTimer = setTimeout(() => this.#pump(), Math.max(1, waitMs)).unref();
  }

  #track(work: Promise<void>): void {
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }
}

/** Makes request bodies. An event's JSON is made once, however many webhooks it goes to. */
function bodies(epoch: string): (claimed: ClaimedDelivery) => string | undefined {
  const made = new Map<StoredEvent, string>();
  return ({ delivery, accountId, event }) => {
    if (delivery.sample !== null || event === null) return delivery.sample ?? undefined;
    const body = made.get(event) ?? new LogEvent(accountId, epoch, event).json;
    made.set(event, body);
    return body;
  };
}

/** The trace of the request that caused a delivery, with a new span for the attempt. */
function traceOf({
  traceparent,
}: StoredDelivery): { traceId: string; spanId: string; traceparent: string } | undefined {
  if (traceparent === null) return undefined;
  const spanId = randomBytes(8).toString('hex');
  return { traceId: traceIdOf(traceparent), spanId, traceparent: childTraceparent(traceparent, spanId) };
}
