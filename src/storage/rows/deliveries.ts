import type { Attempt, StoredDelivery } from '../../domain/delivery-record.ts';
import { toMs, toTimestamp } from './values.ts';

/** The columns that can change after creation. */
export const changingOfDelivery = [
  'status',
  'attemptCount',
  'step',
  'trigger',
  'dueAt',
  'completedAt',
] as const satisfies readonly (keyof StoredDelivery)[];

/** All columns but those that say whose it is. */
export const deliveryColumns = [
  'id',
  'eventId',
  'eventType',
  'eventSequence',
  'sample',
  'traceparent',
  'createdAt',
  ...changingOfDelivery,
] as const satisfies readonly (keyof StoredDelivery)[];

export type DeliveryRow = Pick<ReturnType<typeof toDeliveryRow>, (typeof deliveryColumns)[number]>;

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

export function toDeliveryRow(delivery: StoredDelivery) {
  return {
    ...delivery,
    dueAt: toMs(delivery.dueAt),
    createdAt: toMs(delivery.createdAt),
    completedAt: toMs(delivery.completedAt),
  };
}

export const attemptColumns = [
  'number',
  'id',
  'startedAt',
  'durationMs',
  'trigger',
  'responseStatus',
  'error',
] as const;

export interface AttemptRow extends Omit<Attempt, 'startedAt'> {
  readonly startedAt: number;
}

export function toAttempt(row: AttemptRow): Attempt {
  return {
    id: row.id,
    startedAt: toTimestamp(row.startedAt),
    durationMs: row.durationMs,
    trigger: row.trigger,
    responseStatus: row.responseStatus,
    responseBody: row.responseBody,
    error: row.error,
  };
}
