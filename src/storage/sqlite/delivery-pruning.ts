import { asc, eq, inArray, lt, sql } from 'drizzle-orm';
import { lowestIdAt } from '../../domain/ids.ts';
import type { DeliveryWrites } from '../../domain/storage-port.ts';
import type { Queries } from './queries.ts';
import { deliveries, webhooks } from './tables.ts';

/** Deleting old deliveries, and what is left of webhooks that were removed. */
export function deliveryPruning(db: Queries): Pick<DeliveryWrites, 'prune'> {
  const removeOldest = db
    .delete(deliveries)
    .where(
      inArray(
        deliveries.key,
        db
          .select({ key: deliveries.key })
          .from(deliveries)
          .where(lt(deliveries.id, sql.placeholder('beforeId')))
          .orderBy(asc(deliveries.id))
          .limit(sql.placeholder('limit')),
      ),
    )
    .prepare();
  const removedWebhook = db
    .select({ key: webhooks.key })
    .from(webhooks)
    .where(sql`${webhooks.removed} = 1`)
    .limit(1)
    .prepare();
  const removeOfWebhook = db
    .delete(deliveries)
    .where(
      inArray(
        deliveries.key,
        db
          .select({ key: deliveries.key })
          .from(deliveries)
          .where(eq(deliveries.webhookKey, sql.placeholder('webhookKey')))
          .limit(sql.placeholder('limit')),
      ),
    )
    .prepare();
  const removeWebhook = db
    .delete(webhooks)
    .where(eq(webhooks.key, sql.placeholder('key')))
    .prepare();
  /** Deletes deliveries of removed webhooks, and each of those webhooks after its last delivery. */
  const removeOrphans = (limit: number): number => {
    let removed = 0;
    while (removed < limit) {
      const webhook = removedWebhook.get();
      if (webhook === undefined) break;
      const { changes } = removeOfWebhook.run({ webhookKey: webhook.key, limit: limit - removed });
      if (removed + changes < limit) removeWebhook.run({ key: webhook.key });
      removed += changes;
    }
    return removed;
  };
  return {
    prune: (beforeMs, limit) => {
      const { changes } = removeOldest.run({ beforeId: lowestIdAt('delivery', beforeMs), limit });
      return changes + (changes < limit ? removeOrphans(limit - changes) : 0);
    },
  };
}
