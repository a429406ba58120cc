import { eq, sql } from 'drizzle-orm';
import type { StoredDelivery } from '../../domain/delivery-record.ts';
import type { DeliveryWrites } from '../../domain/storage-port.ts';
import { deliveryClaims } from './delivery-claims.ts';
import { deliveryPruning } from './delivery-pruning.ts';
import { bindings, type Queries } from './queries.ts';
import { toMs } from './rows.ts';
import { attempts, deliveries, webhooks } from './tables.ts';

/** The values of the columns that can change after creation. */
function changing(delivery: StoredDelivery) {
  return {
    status: delivery.status,
    attemptCount: delivery.attemptCount,
    step: delivery.step,
    trigger: delivery.trigger,
    dueAt: toMs(delivery.dueAt),
    completedAt: toMs(delivery.completedAt),
  };
}

const bound = bindings('status', 'attemptCount', 'step', 'trigger', 'dueAt', 'completedAt');

/** @param onDue called with a webhook that may have a delivery due; the transaction may still be rolled back */
export function deliveryWrites(db: Queries, onDue: (webhookId: string) => void): DeliveryWrites {
  const insert = db
    .insert(deliveries)
    .values({
      id: sql.placeholder('id'),
      webhookKey: sql`(SELECT ${webhooks.key} FROM ${webhooks} WHERE ${webhooks.id} = ${sql.placeholder('webhookId')})`,
      eventId: sql.placeholder('eventId'),
      eventType: sql.placeholder('eventType'),
      eventSequence: sql.placeholder('eventSequence'),
      sample: sql.placeholder('sample'),
      traceparent: sql.placeholder('traceparent'),
      createdAt: sql.placeholder('createdAt'),
      ...bound,
    })
    .prepare();
  const update = db
    .update(deliveries)
    .set(bound)
    .where(eq(deliveries.id, sql.placeholder('id')))
    .prepare();
  const insertAttempt = db
    .insert(attempts)
    .values({
      deliveryKey: sql`(SELECT ${deliveries.key} FROM ${deliveries} WHERE ${deliveries.id} = ${sql.placeholder('deliveryId')})`,
      number: sql.placeholder('number'),
      id: sql.placeholder('id'),
      startedAt: sql.placeholder('startedAt'),
      durationMs: sql.placeholder('durationMs'),
      trigger: sql.placeholder('trigger'),
      responseStatus: sql.placeholder('responseStatus'),
      responseBody: sql.placeholder('responseBody'),
      error: sql.placeholder('error'),
    })
    .prepare();
  return {
    ...deliveryClaims(db),
    ...deliveryPruning(db),
    insert: (delivery) => {
      insert.run({
        ...changing(delivery),
        id: delivery.id,
        webhookId: delivery.webhookId,
        eventId: delivery.eventId,
        eventType: delivery.eventType,
        eventSequence: delivery.eventSequence,
        sample: delivery.sample,
        traceparent: delivery.traceparent,
        createdAt: toMs(delivery.createdAt),
      });
      onDue(delivery.webhookId);
    },
    update: (delivery) => {
      update.run({ ...changing(delivery), id: delivery.id });
      if (delivery.status === 'pending') onDue(delivery.webhookId);
    },
    insertAttempt: (deliveryId, number, attempt) => {
      insertAttempt.run({ ...attempt, deliveryId, number, startedAt: toMs(attempt.startedAt) });
    },
  };
}
