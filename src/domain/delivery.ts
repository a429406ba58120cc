import { z } from 'zod';
import { type EventType, eventTypes } from './event-types.ts';
import { idShape } from './ids.ts';
import type { Context } from './operation.ts';
import { type Timestamp, timeShape, timestamp } from './time.ts';

const deliveryStatuses = ['pending', 'succeeded', 'failed', 'paused'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

const attemptTriggers = ['schedule', 'manual'] as const;
/** What made an attempt: the schedule, or somebody who asked for it. */
export type AttemptTrigger = (typeof attemptTriggers)[number];

export const deliveryShape = z
  .object({
    id: idShape('delivery').describe('Its id.'),
    webhookId: idShape('webhook').describe('The webhook it is sent to.'),
    eventId: idShape('event').describe('The event it delivers.'),
    eventType: z.enum(eventTypes).describe('The type of the event.'),
    test: z.boolean().describe('Whether it is a sample sent by testWebhook.'),
    status: z.enum(deliveryStatuses).describe('Its status; `paused` means pending while the webhook is disabled.'),
    attemptCount: z
      .int()
      .min(0)
      .describe('Number of attempts that have ended.')
      .meta({ examples: [1] }),
    nextAttemptAt: timeShape
      .nullable()
      .describe('When the next attempt is due; null during an attempt, while paused and when completed.'),
    createdAt: timeShape.describe('When it was created.'),
    completedAt: timeShape
      .nullable()
      .describe('When it succeeded or finally failed; null until then.')
      .meta({ examples: [null] }),
  })
  .meta({ id: 'Delivery', description: 'The delivery of one event to one webhook.' });

export type Delivery = Readonly<z.output<typeof deliveryShape>>;

export const attemptShape = z
  .object({
    id: idShape('attempt').describe('Its id.'),
    startedAt: timeShape.describe('When it started.'),
    durationMs: z
      .int()
      .min(0)
      .describe('Duration in milliseconds.')
      .meta({ examples: [84] }),
    trigger: z.enum(attemptTriggers).describe('What triggered it: the schedule or a request.'),
    responseStatus: z
      .int()
      .nullable()
      .describe('HTTP status of the response; null if there was none.')
      .meta({ examples: [503] }),
    responseBody: z
      .string()
      .nullable()
      .describe(
        'The first 16 KiB of the response body, as text; null if there was no response or its conversation was deleted.',
      )
      .meta({ examples: ['try again later'] }),
    error: z
      .string()
      .nullable()
      .describe('The error, unless it was the response status; null otherwise.')
      .meta({ examples: [null] }),
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
  /** When the next attempt is planned; null when it is done. */
  readonly dueAt: Timestamp | null;
  /** The trace of the request that has caused it, as a `traceparent`; null when it was in none. */
  readonly traceparent: string | null;
  readonly createdAt: Timestamp;
  readonly completedAt: Timestamp | null;
}

/** How long a claim of a delivery holds. Longer than an attempt and the storing of its result can take. */
export const leaseMs = 30_000;
/**
 * What seems to hold for longer was claimed by a clock that has been set back since, and holds no more. It is longer than
 * a lease: somebody else may have claimed after the time was read that it is held against.
 */
export const longestLeaseMs = 2 * leaseMs;

/** A stored delivery and what else decides on it. */
export interface DeliveryOfWebhook extends StoredDelivery {
  readonly webhookEnabled: boolean;
  /** Whether somebody is making an attempt, or has died in the midst of one. */
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

/** A new delivery, without attempts and due at once. */
export function newDelivery(
  { caller, ids, now }: Pick<Context, 'caller' | 'ids' | 'now'>,
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
    dueAt: at,
    traceparent: caller.traceparent ?? null,
    createdAt: at,
    completedAt: null,
  };
}

/**
 * A delivery to be made at once, whatever became of it before, with the whole schedule ahead of it.
 * One that is being tried right now is left to that attempt.
 */
export function startedAnew<T extends StoredDelivery>(delivery: T, now: Timestamp): T {
  return { ...delivery, status: 'pending', step: 0, trigger: 'manual', dueAt: now, completedAt: null };
}
