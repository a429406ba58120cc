import { sql } from 'drizzle-orm';
import { longestLeaseMs, type StoredDelivery } from '../../domain/delivery-record.ts';
import { toTimestamp } from './rows.ts';
import { deliveries, webhooks } from './tables.ts';

// What reading, writing and claiming deliveries share: their rows, and conditions on them.

export type DeliveryRow = typeof deliveries.$inferSelect;

export function toDelivery(row: DeliveryRow, webhookId: string): StoredDelivery {
  return {
    id: row.id,
    webhookId,
    eventId: row.eventId,
    eventType: row.eventType,
    eventSequence: row.eventSequence,
    sample: row.sample,
    status: row.status,
    attemptCount: row.attemptCount,
    step: row.step,
    trigger: row.trigger,
    dueAt: toTimestamp(row.dueAt),
    traceparent: row.traceparent,
    createdAt: toTimestamp(row.createdAt),
    completedAt: toTimestamp(row.completedAt),
  };
}

// Conditions of partial indexes have to appear word for word in a statement that is to use them.

/** Whether a webhook has not been removed. */
export const isPresent = sql`${webhooks.removed} = 0`;
export const isPending = sql`${deliveries.status} = 'pending'`;

/** For how long a lease will still hold. */
export const leaseLeftMs = sql`delivery_leases.ends_at - ${sql.placeholder('nowMs')}`;
const lease = sql`SELECT 1 FROM delivery_leases WHERE delivery_leases.delivery_key = deliveries.key`;
/** Whether there is a lease: an attempt is under way, or the process that made it died before it could release it. */
export const isTried = sql`EXISTS (${lease})`.mapWith(Boolean);
/** Whether the lease keeps others from claiming the delivery; see `longestLeaseMs` for its upper bound. */
export const isHeld = sql`EXISTS (${lease} AND ${leaseLeftMs} BETWEEN 1 AND ${longestLeaseMs})`;
