import type { StoredDelivery } from '../domain/delivery.ts';
import { timestamp } from '../domain/time.ts';
import { type StoredWebhook, withEnabled } from '../domain/webhook.ts';
import type { Outcome } from './letter.ts';
import { failingMs, waitMs } from './schedule.ts';

interface Settled {
  readonly delivery: StoredDelivery;
  /** The very same object if the attempt says nothing new of it. */
  readonly webhook: StoredWebhook;
}

/** Only an answer of 2xx is a success. */
export function isSuccess({ status }: Outcome): boolean {
  return status !== null && status >= 200 && status < 300;
}

/**
 * What an attempt makes of its delivery and of its webhook.
 * @param random from 0 to 1, for the jitter
 */
export function settle(
  { delivery, webhook }: Settled,
  outcome: Outcome,
  { now, random }: { now: number; random: number },
): Settled {
  const at = timestamp(now);
  const tried = { ...delivery, attemptCount: delivery.attemptCount + 1 };
  if (isSuccess(outcome)) {
    return {
      delivery: { ...tried, status: 'succeeded', dueAt: null, completedAt: at },
      webhook: webhook.failingSince === null ? webhook : { ...webhook, failingSince: null },
    };
  }
  const step = delivery.step + 1;
  // Whoever tries a receiver out wants to know now, and not again tomorrow.
  const wait = delivery.sample === null ? waitMs(step, random, outcome.retryAfterMs) : undefined;
  const failed: StoredDelivery =
    wait === undefined
      ? { ...tried, step, status: 'failed', dueAt: null, completedAt: at }
      : { ...tried, step, trigger: 'schedule', dueAt: timestamp(now + wait) };
  return { delivery: failed, webhook: afterFailure(webhook, delivery, outcome, now) };
}

function afterFailure(webhook: StoredWebhook, delivery: StoredDelivery, outcome: Outcome, now: number): StoredWebhook {
  if (!webhook.enabled) return webhook;
  const at = timestamp(now);
  if (outcome.status === 410) return { ...withEnabled(webhook, 'gone'), updatedAt: at };
  // The five days begin with an event that failed, not with somebody who tried something out.
  if (webhook.failingSince === null && delivery.trigger === 'manual') return webhook;
  const failingSince = webhook.failingSince ?? at;
  if (now - Date.parse(failingSince) >= failingMs) return { ...withEnabled(webhook, 'failing'), updatedAt: at };
  return webhook.failingSince === null ? { ...webhook, failingSince } : webhook;
}

/** A delivery whose event is in the log no more: there is nothing to send. */
export function withoutEvent(delivery: StoredDelivery, now: number): StoredDelivery {
  return { ...delivery, status: 'failed', dueAt: null, completedAt: timestamp(now) };
}

/** A delivery whose attempt was given up before it had an answer: due again, at a time, for whoever comes. */
export function givenBack(delivery: StoredDelivery, dueAtMs: number): StoredDelivery {
  return { ...delivery, dueAt: timestamp(dueAtMs) };
}
