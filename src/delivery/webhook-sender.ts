import { randomBytes, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Attempt, leaseMs, type StoredDelivery } from '../domain/delivery.ts';
import { erasedJson, LogEvent, type StoredEvent } from '../domain/events.ts';
import type { Ids } from '../domain/ids.ts';
import type { ClaimedDelivery, Clock, ReleasedDelivery, Storage, Telemetry, Transaction } from '../domain/ports.ts';
import { timestamp } from '../domain/time.ts';
import { childTraceparent, traceIdOf } from '../domain/trace.ts';
import { type StoredWebhook, signingSecrets } from '../domain/webhook.ts';
import { applyOutcome, failedWithoutEvent, isSuccess, rescheduled } from './attempt-outcome.ts';
import { Lanes, type Turn } from './lanes.ts';
import type { ThreadedWebhookClient } from './threaded-webhook-client.ts';
import type { WebhookRequest } from './webhook-request.ts';

/** How often it looks for what nobody has told it of: what another process planned, or held when it died. */
const lookMs = 5_000;
/** After commits of other processes it looks sooner, but not more often than this. */
const minLookMs = 250;
/** The most attempts that are recorded together: others want to write, too. */
const maxRecords = 64;
/** After trouble with the storage it tries again. */
const retryMs = 1_000;
/** When there were no descriptors left to send with, it tries again. */
const shortageMs = 2_000;

export interface WebhookSenderOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly client: ThreadedWebhookClient;
  readonly log: Logger;
  readonly telemetry: Pick<Telemetry, 'attempted'>;
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

/** A delivery that was claimed and is tried. */
interface Begun {
  readonly turn: Turn;
  readonly claimed: ClaimedDelivery;
  /** What is sent; undefined when the log does not have the event any more. */
  readonly body: string | undefined;
  /** How many erasures there had been when its event was read. */
  readonly erasures: number;
}

/** What is to be recorded of an attempt. */
interface Tried {
  /** Whether the receiver took it; undefined when that says nothing of the receiver. */
  readonly succeeded?: boolean;
  /** Makes it of the row as it is by then: it may have been redelivered since it was claimed. */
  readonly change: (now: number, current: Current) => Recorded;
}

/** An attempt that is over and is to be recorded. */
interface Ended extends Tried, Begun {
  /** Until when it is tried to be recorded, as `performance.now()` has it. */
  readonly deadlineMs: number;
  readonly resolve: () => void;
}

/**
 * Sends what is due to webhooks. The log of deliveries is in the storage: this claims rows that are due
 * for a while, tries them, and records what became of it and when the next attempt is. So it can be
 * killed at any instant, and several of it can share the work.
 */
export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  /** Which claims are this sender's. */
  readonly #lease = randomUUID();
  readonly #lanes = new Lanes();
  /** The deliveries that it is trying. */
  readonly #trying = new Set<string>();
  readonly #giveUp = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #ended: Ended[] = [];
  #pumping = false;
  #started = false;
  #unwatch = (): void => {};
  #looking: NodeJS.Timeout | undefined;
  #alarm: NodeJS.Timeout | undefined;
  #nextLookMs = 0;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
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
      const { storage, clock } = this.#options;
      for (const { webhookId, dueAtMs } of await storage.read.deliveries.due(clock.now())) {
        this.#lanes.plan(webhookId, dueAtMs);
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
    clearTimeout(this.#looking);
    const waitMs = Math.max(0, this.#nextLookMs - performance.now());
    this.#looking = setTimeout(() => void this.look(), waitMs).unref();
  }

  #wake(webhookIds: Iterable<string>): void {
    for (const webhookId of webhookIds) this.#lanes.plan(webhookId, 0);
    this.#pump();
  }

  #pump(): void {
    if (this.#pumping) return; // it goes on until nobody has a turn
    this.#pumping = true;
    this.#track(this.#claimAll());
  }

  /** Claims and starts what is due as far as there is room, then sets the clock for the next. Never rejects. */
  async #claimAll(): Promise<void> {
    while (this.#started) {
      const turns = this.#lanes.take(this.#options.clock.now());
      if (turns.length === 0) break;
      try {
        await this.#claim(turns);
      } catch (error) {
        this.#options.log.warn({ err: error }, 'could not claim deliveries');
        for (const turn of turns) this.#lanes.claimed(turn, 0, 0);
        await pause(retryMs, this.#giveUp.signal);
      }
    }
    this.#pumping = false;
    this.#setAlarm();
  }

  async #claim(turns: readonly Turn[]): Promise<void> {
    const { storage, clock } = this.#options;
    const nowMs = clock.now();
    const wanted = turns.map(({ lane: { webhookId }, limit }) => ({ webhookId, limit }));
    const lease = { id: this.#lease, nowMs, endsMs: nowMs + leaseMs };
    const { epoch, erasures, claims } = await storage.write(async (tx) => ({
      epoch: await tx.events.epoch(),
      erasures: await tx.events.erasures(),
      claims: await tx.deliveries.claim(wanted, lease),
    }));
    const bodyOf = bodies(epoch);
    for (const [index, turn] of turns.entries()) {
      const { claimed = [], nextDueAtMs } = claims[index] ?? {};
      // After a jump of the clock its own leases may have ended: what it is at already, it has only claimed anew.
      const fresh = claimed.filter(({ delivery }) => !this.#trying.has(delivery.id));
      for (const one of fresh) this.#start({ turn, claimed: one, body: bodyOf(one), erasures });
      this.#lanes.claimed(turn, fresh.length, nextDueAtMs);
    }
  }

  #start(begun: Begun): void {
    const { id } = begun.claimed.delivery;
    this.#trying.add(id);
    this.#track(this.#deliver(begun).finally(() => this.#trying.delete(id)));
  }

  /** Makes one attempt and records what became of it. Never rejects. */
  async #deliver(begun: Begun): Promise<void> {
    const tried = await this.#try(begun);
    await this.#record({ ...tried, ...begun });
  }

  /** Makes one attempt. Never rejects. @returns what is to be recorded of it */
  async #try({ claimed: { delivery, webhook }, body }: Begun): Promise<Tried> {
    if (body === undefined)
      return { change: (now, current) => ({ delivery: failedWithoutEvent(current.delivery, now) }) };
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
      log.warn({ deliveryId: delivery.id, error: outcome.error }, 'could not send for want of something here');
      return { change: (now, current) => ({ delivery: rescheduled(current.delivery, now + shortageMs) }) };
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
      responseBody: outcome.body,
      error,
    };
    const { traceId, spanId } = trace ?? {};
    log[succeeded ? 'debug' : 'info'](
      { webhookId: webhook.id, deliveryId: delivery.id, traceId, spanId, status, error, durationMs },
      'webhook attempt',
    );
    const random = Math.random();
    return { succeeded, change: (now, current) => ({ ...applyOutcome(current, outcome, { now, random }), attempt }) };
  }

  /** Stores what an attempt came to, together with others that end in the same turn of the event loop. Never rejects. */
  #record(ended: Omit<Ended, 'deadlineMs' | 'resolve'>): Promise<void> {
    return new Promise((resolve) => {
      this.#ended.push({ ...ended, deadlineMs: performance.now() + leaseMs, resolve });
      if (this.#ended.length === 1) setImmediate(() => this.#recordEnded());
    });
  }

  #recordEnded(): void {
    const ended = this.#ended.splice(0);
    for (let index = 0; index < ended.length; index += maxRecords) {
      void this.#recordTogether(ended.slice(index, index + maxRecords));
    }
    // What takes their places is claimed in the same transaction, if that does not take too long.
    for (const { turn, succeeded } of ended) this.#lanes.ended(turn, succeeded);
    this.#pump();
  }

  /**
   * When the storage has trouble, it is tried again for as long as a lease is. By then the attempt's own, which began
   * before it, has ended: what somebody else has claimed meanwhile is not recorded. Never rejects.
   */
  async #recordTogether(ended: readonly Ended[]): Promise<void> {
    const { storage, clock, log } = this.#options;
    try {
      await storage.write(async (tx) => await recordAttempts(tx, this.#lease, ended, clock.now()));
      for (const { resolve } of ended) resolve();
    } catch (error) {
      log.warn(
        { deliveryIds: ended.map(({ claimed }) => claimed.delivery.id), err: error },
        'could not record attempts',
      );
      await pause(retryMs, this.#giveUp.signal);
      const isOver = (one: Ended): boolean => performance.now() > one.deadlineMs || this.#giveUp.signal.aborted;
      for (const one of ended) {
        if (isOver(one))
          one.resolve(); // it will be sent once more
        else void this.#recordTogether([one]); // alone: whatever is wrong with one is not wrong with all
      }
    }
  }

  /** Wakes up when the first of what is planned is due. */
  #setAlarm(): void {
    clearTimeout(this.#alarm);
    const waitMs = this.#lanes.firstMs - this.#options.clock.now();
    if (!this.#started || waitMs > lookMs) return; // looking comes first
    this.#alarm = setTimeout(() => this.#pump(), Math.max(1, waitMs)).unref();
  }

  #track(work: Promise<void>): void {
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }
}

/** Makes what is sent of deliveries; of one event once, however many webhooks are told of it. */
function bodies(epoch: string): (claimed: ClaimedDelivery) => string | undefined {
  const made = new Map<StoredEvent, string>();
  return ({ delivery, accountId, event }) => {
    if (delivery.sample !== null || event === null) return delivery.sample ?? undefined;
    const body = made.get(event) ?? new LogEvent(accountId, epoch, event).json;
    made.set(event, body);
    return body;
  };
}

/** Stores what attempts came to, each beside its delivery and its webhook as they are by now. */
async function recordAttempts(tx: Transaction, lease: string, ended: readonly Ended[], now: number): Promise<void> {
  const ids = ended.map(({ claimed }) => claimed.delivery.id);
  const found = await tx.deliveries.release(lease, ids);
  const erasuresByNow = await tx.events.erasures();
  const webhooks = new Map(found.map((current) => [current?.webhook.id, current?.webhook]));
  for (const [index, { claimed, erasures, change }] of ended.entries()) {
    const current = found[index];
    // Its webhook was deleted, or the lease had ended and the delivery is another's now.
    if (current === undefined) continue;
    const before = webhooks.get(current.webhook.id) ?? current.webhook; // with what others have made of it
    const { delivery, webhook = before, attempt } = change(now, { delivery: current.delivery, webhook: before });
    if (attempt !== undefined) {
      // What was told when it was sent, or in an earlier attempt, may be erased by now, and answers like to repeat it.
      const isErased =
        claimed.event?.data === erasedJson || (erasures !== erasuresByNow && (await wasErased(tx, current)));
      const kept = isErased ? { ...attempt, responseBody: null } : attempt;
      await tx.deliveries.insertAttempt(delivery.id, delivery.attemptCount, kept);
    }
    await tx.deliveries.update(delivery);
    if (webhook === before) continue;
    await tx.webhooks.update(current.accountId, webhook);
    webhooks.set(webhook.id, webhook);
  }
}

async function wasErased(tx: Transaction, { accountId, delivery }: ReleasedDelivery): Promise<boolean> {
  if (delivery.eventSequence === null) return false;
  const { events } = await tx.events.after(accountId, delivery.eventSequence - 1, { filter: {}, limit: 1, span: 1 });
  return events[0]?.data === erasedJson;
}

/** The trace of the request that has caused a delivery, with a span for the next attempt. */
function traceOf({
  traceparent,
}: StoredDelivery): { traceId: string; spanId: string; traceparent: string } | undefined {
  if (traceparent === null) return undefined;
  const spanId = randomBytes(8).toString('hex');
  return { traceId: traceIdOf(traceparent), spanId, traceparent: childTraceparent(traceparent, spanId) };
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
