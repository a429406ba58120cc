import type { EventType } from './events.ts';
import type { Timestamp } from './time.ts';

export const deliveryStatuses = ['pending', 'succeeded', 'failed', 'paused'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

export const attemptTriggers = ['schedule', 'manual'] as const;
/** What made an attempt: the schedule, or somebody who asked for it. */
export type AttemptTrigger = (typeof attemptTriggers)[number];

/** One event on its way to one webhook. */
export interface Delivery {
  readonly id: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly eventType: EventType;
  /** Whether it is a sample that somebody asked for. */
  readonly test: boolean;
  /** `paused` is pending while its webhook is disabled. */
  readonly status: DeliveryStatus;
  readonly attemptCount: number;
  /** When it is tried next; null when it is being tried now, is paused or is done. */
  readonly nextAttemptAt: Timestamp | null;
  readonly createdAt: Timestamp;
  readonly completedAt: Timestamp | null;
}

export interface Attempt {
  readonly id: string;
  readonly startedAt: Timestamp;
  readonly durationMs: number;
  readonly trigger: AttemptTrigger;
  /** The status of the answer; null when there was none. */
  readonly responseStatus: number | null;
  /** The beginning of the answer's body, as text; null when there was no answer. */
  readonly responseBody: string | null;
  /** What went wrong, if it was not the status; null when nothing did. */
  readonly error: string | null;
}

export interface DeliveryWithAttempts extends Delivery {
  /** All of them, oldest first. */
  readonly attempts: readonly Attempt[];
}

/** Bytes of an answer's body that are kept. */
export const maxResponseBytes = 16 * 1024;

/** A delivery as a storage keeps it: its place in the schedule, and who is at it. */
export interface StoredDelivery {
  readonly id: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly eventType: EventType;
  /** The event's place in the log; null for a sample, which is in no log. */
  readonly eventSequence: number | null;
  /** What is sent of a sample, as JSON; null when it is the event of the log. */
  readonly sample: string | null;
  readonly status: 'pending' | 'succeeded' | 'failed';
  readonly attemptCount: number;
  /** How many attempts of the schedule have failed. */
  readonly step: number;
  /** What the next attempt is made by. */
  readonly trigger: AttemptTrigger;
  /** When it may be claimed for an attempt: the time planned, or the end of the lease; null when it is done. */
  readonly dueAt: Timestamp | null;
  /** Who is making an attempt; null when nobody is. */
  readonly lease: string | null;
  readonly createdAt: Timestamp;
  readonly completedAt: Timestamp | null;
}

/** A stored delivery and what of its webhook decides on it. */
export type DeliveryOfWebhook = StoredDelivery & { readonly webhookEnabled: boolean };

export function deliveryView(stored: DeliveryOfWebhook): Delivery {
  const { status, webhookEnabled } = stored;
  const paused = status === 'pending' && !webhookEnabled;
  return {
    id: stored.id,
    webhookId: stored.webhookId,
    eventId: stored.eventId,
    eventType: stored.eventType,
    test: stored.sample !== null,
    status: paused ? 'paused' : status,
    attemptCount: stored.attemptCount,
    nextAttemptAt: paused || stored.lease !== null ? null : stored.dueAt,
    createdAt: stored.createdAt,
    completedAt: stored.completedAt,
  };
}

/**
 * A delivery to be made at once, whatever became of it before, with the whole schedule ahead of it.
 * One that is being tried right now is left to that attempt.
 */
export function startedAnew(delivery: StoredDelivery, now: Timestamp): StoredDelivery {
  const anew: StoredDelivery = { ...delivery, status: 'pending', step: 0, trigger: 'manual', completedAt: null };
  return delivery.lease === null ? { ...anew, dueAt: now } : anew;
}
