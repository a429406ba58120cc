import * as z from 'zod';
import { type EventType, eventTypes } from './event-types.ts';
import { idShape } from './ids.ts';
import type { Context } from './operation.ts';
import { countShape, nullableText, nullableTime } from './shapes.ts';
import { type Timestamp, timeShape, timestamp } from './time.ts';

const deliveryStatuses = ['pending', 'succeeded', 'failed', 'paused'] as const;

const attemptTriggers = ['schedule', 'manual'] as const;
/** What triggered an attempt: the schedule, or a request of the account. */
export type AttemptTrigger = (typeof attemptTriggers)[number];

export const deliveryShape = z
  .object({
    id: idShape('delivery').describe('Its id.'),
    webhookId: idShape('webhook').describe('The webhook it is sent to.'),
    eventId: idShape('event').describe('The event it delivers; the `webhook-id` header of each attempt.'),
    eventType: z.enum(eventTypes).describe('The type of the event.'),
    test: z.boolean().describe('Whether it is a sample sent by testWebhook.'),
    status: z.enum(deliveryStatuses).describe('Its status; `paused` means pending while the webhook is disabled.'),
    attemptCount: countShape('Number of attempts that have ended.', 1),
    nextAttemptAt: timeShape
      .nullable()
      .describe('When the next attempt is due; null during an attempt, while paused and when completed.'),
    createdAt: timeShape.describe('When it was created.'),
    completedAt: nullableTime('When it succeeded or finally failed; null until then.'),
  })
  .meta({ id: 'Delivery', description: 'The delivery of one event to one webhook.' });

export type Delivery = Readonly<z.output<typeof deliveryShape>>;

export const attemptShape = z
  .object({
    id: idShape('attempt').describe('Its id.'),
    startedAt: timeShape.describe('When it started.'),
    durationMs: countShape('Duration in milliseconds.', 84),
    trigger: z.enum(attemptTriggers).describe('What triggered it: the schedule or a request.'),
    responseStatus: z
      .int()
      .nullable()
      .describe('HTTP status of the response; null if there was none.')
      .meta({ examples: [503] }),
    responseBody: nullableText(
      'The first 16 KiB of the response body, as text, or 256 characters once an account has kept 8 MiB within an hour; null if there was no response or its conversation was deleted.',
      'try again later',
    ),
    error: nullableText('The error, unless it was the response status; null otherwise.', null),
  })
  .meta({ id: 'Attempt', description: 'One attempt at a delivery.' });

export type Attempt = Readonly<z.output<typeof attemptShape>>;

export const deliveryWithAttemptsShape = deliveryShape
  .extend({ attempts: z.array(attemptShape).readonly().describe('All its attempts, oldest first.') })
  .meta({
    id: 'DeliveryWithAttempts',
    description: 'The delivery of one event to one webhook, with all its attempts.',
  });

export type DeliveryWithAttempts = Readonly<z.output<typeof deliveryWithAttemptsShape>>;

/** Bytes of a response body that are stored. */
export const maxResponseBytes = 16 * 1024;

/** A delivery as stored, with its state in the schedule. */
export interface StoredDelivery {
  readonly id: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly eventType: EventType;
  /** The event's sequence; null for a sample, which is not in the log. */
  readonly eventSequence: number | null;
  /** The JSON of a sample; null when the event is in the log. */
  readonly sample: string | null;
  readonly status: 'pending' | 'succeeded' | 'failed';
  readonly attemptCount: number;
  /** Number of scheduled attempts that have failed. */
  readonly step: number;
  /** What triggers the next attempt. */
  readonly trigger: AttemptTrigger;
  /** When the next attempt is due; null when the delivery is completed. */
  readonly dueAt: Timestamp | null;
  /** The trace of the request that caused it, as a `traceparent`; null if it was not traced. */
  readonly traceparent: string | null;
  readonly createdAt: Timestamp;
  readonly completedAt: Timestamp | null;
}

/** Duration of a lease on a delivery: longer than an attempt and storing its result can take. */
export const leaseMs = 30_000;
/**
 * A lease that ends later than this from now was taken before the clock was set back, and is void. The bound exceeds
 * `leaseMs` because another process may take a lease after the time to compare with was read.
 */
export const longestLeaseMs = 2 * leaseMs;

/** A stored delivery with what else determines its status. */
export interface DeliveryOfWebhook extends StoredDelivery {
  readonly webhookEnabled: boolean;
  /** Whether a lease on it is held: an attempt is in progress, or its process died during one. */
  readonly isTried: boolean;
}

export function deliveryView(stored: DeliveryOfWebhook): Delivery {
  const { status, webhookEnabled, isTried } = stored;
  const paused = status === 'pending' && !webhookEnabled;
  return {
    id: stored.id,
    webhookId: stored.webhookId,
    eventId: stored.eventId,
    eventType: stored.eventType,
    test: stored.sample !== null,
    status: paused ? 'paused' : status,
    attemptCount: stored.attemptCount,
    nextAttemptAt: paused || isTried ? null : stored.dueAt,
    createdAt: stored.createdAt,
    completedAt: stored.completedAt,
  };
}

/** A new delivery, without attempts and due at once: by the clock, which its event can be ahead of. */
export function newDelivery(
  { caller, clock, ids, now }: Pick<Context, 'caller' | 'clock' | 'ids' | 'now'>,
  webhookId: string,
  event: { id: string; type: EventType; eventSequence: number | null; sample?: string },
): StoredDelivery {
  const at = timestamp(now);
  return {
    id: ids.next('delivery', now),
    webhookId,
    eventId: event.id,
    eventType: event.type,
    eventSequence: event.eventSequence,
    sample: event.sample ?? null,
    status: 'pending',
    attemptCount: 0,
    step: 0,
    trigger: event.sample === undefined ? 'schedule' : 'manual',
    dueAt: timestamp(Math.min(now, clock.now())),
    traceparent: caller.traceparent ?? null,
    createdAt: at,
    completedAt: null,
  };
}

/**
 * The delivery restarted: due at once, whatever its status, with the whole schedule ahead of it. One with
 * an attempt in progress is left to that attempt.
 */
export function startedAnew<T extends StoredDelivery>(delivery: T, now: Timestamp): T {
  return { ...delivery, status: 'pending', step: 0, trigger: 'manual', dueAt: now, completedAt: null };
}
