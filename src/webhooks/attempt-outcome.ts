import type { StoredDelivery } from '../domain/delivery-record.ts';
import { timestamp } from '../domain/time.ts';
import { type StoredWebhook, withEnabled } from '../domain/webhook-record.ts';
import type { Outcome } from './threaded-client.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** The wait after each failed attempt. The first attempt is made at once, so there are ten in all. */
const waitsMs = [
  5_000,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
];
/** Each wait is up to a fifth shorter or longer, so that deliveries that failed together are not retried together. */
const jitter = 0.2;
const maxRetryAfterMs = 24 * hourMs;
/** The longest time from the first to the tenth attempt, unless the receiver asks for longer waits. */
export const scheduleMs = waitsMs.reduce((sum, wait) => sum + wait * (1 + jitter), 0);
/** A webhook without a success for this long since its first failure is disabled. */
const failingMs = 5 * 24 * hourMs;

interface Attempted {
  readonly delivery: StoredDelivery;
  /** In a result, the same object if the attempt does not change it. */
  readonly webhook: StoredWebhook;
}

/** Only a 2xx response is a success. */
export function isSuccess({ status }: Outcome): boolean {
  return status !== null && status >= 200 && status < 300;
}

interface AttemptContext {
  /** Where it was sent to. */
  readonly url: string;
  readonly now: number;
  /** From 0 to 1, for the jitter. */
  readonly random: number;
}

/**
 * Applies the outcome of an attempt to its delivery and its webhook. If the webhook has a new URL by now, the outcome
 * says nothing about its receiver: an old address may well respond with 410.
 */
export function applyOutcome(
  { delivery, webhook }: Attempted,
  outcome: Outcome,
  { url, now, random }: AttemptContext,
): Attempted {
  const isOfReceiver = url === webhook.url;
  const at = timestamp(now);
  const attempted = { ...delivery, attemptCount: delivery.attemptCount + 1 };
  if (isSuccess(outcome)) {
    return {
      delivery: { ...attempted, status: 'succeeded', dueAt: null, completedAt: at },
      webhook: webhook.failingSince === null || !isOfReceiver ? webhook : { ...webhook, failingSince: null },
    };
  }
  const step = delivery.step + 1;
  // A sample is not retried: someone who tests a receiver wants a result now and no repeat tomorrow.
  const wait = delivery.sample === null ? waitMs(step, random, outcome.retryAfterMs) : undefined;
  const failed: StoredDelivery =
    wait === undefined
      ? { ...attempted, step, status: 'failed', dueAt: null, completedAt: at }
      : { ...attempted, step, trigger: 'schedule', dueAt: timestamp(now + wait) };
  return { delivery: failed, webhook: isOfReceiver ? afterFailure(webhook, delivery, outcome, now) : webhook };
}

function afterFailure(webhook: StoredWebhook, delivery: StoredDelivery, outcome: Outcome, now: number): StoredWebhook {
  if (!webhook.enabled) return webhook;
  const at = timestamp(now);
  if (outcome.status === 410) return { ...withEnabled(webhook, 'gone'), updatedAt: at };
  // A failed manual attempt does not start the five days: only a scheduled one does.
  if (webhook.failingSince === null && delivery.trigger === 'manual') return webhook;
  const failingSince = webhook.failingSince ?? at;
  if (now - Date.parse(failingSince) >= failingMs) return { ...withEnabled(webhook, 'failing'), updatedAt: at };
  return webhook.failingSince === null ? { ...webhook, failingSince } : webhook;
}

/** A delivery whose event was removed from the log, so that there is nothing to send. */
export function failedWithoutEvent(delivery: StoredDelivery, now: number): StoredDelivery {
  return { ...delivery, status: 'failed', dueAt: null, completedAt: timestamp(now) };
}

/** A delivery whose attempt does not count, to be attempted again at `dueAtMs` by any process. */
export function rescheduled(delivery: StoredDelivery, dueAtMs: number): StoredDelivery {
  return { ...delivery, dueAt: timestamp(dueAtMs) };
}

/**
 * The wait until the next attempt.
 * @param step how many attempts of the schedule have failed, including the last one
 * @param random from 0 to 1
 * @param retryAfterMs the wait that the receiver asked for, which can lengthen this one up to a day
 * @returns milliseconds, or undefined at the end of the schedule
 */
export function waitMs(step: number, random: number, retryAfterMs = 0): number | undefined {
  const wait = waitsMs[step - 1];
  if (wait === undefined) return undefined;
  return Math.max(Math.round(wait * (1 - jitter + 2 * jitter * random)), Math.min(retryAfterMs, maxRetryAfterMs));
}
