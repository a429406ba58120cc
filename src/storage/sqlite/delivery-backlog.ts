import { and, count, eq, lte, type SQL, sql } from 'drizzle-orm';
import { longestLeaseMs } from '../../domain/delivery-record.ts';
import type { DeliveryReads } from '../../domain/storage-port.ts';
import { isHeld, isPending, isPresent, isTried, leaseLeftMs } from './delivery-rows.ts';
import type { Queries } from './queries.ts';
import { deliveries, deliveryLeases, webhooks } from './tables.ts';

const ofEnabledWebhook = and(sql`${webhooks.enabled} = 1`, isPresent);

/** When the first pending delivery of a webhook is due, without those that are excluded. */
function earliestDue(isExcluded: SQL): SQL<number | null> {
  // Written out: in a query of one table drizzle omits the tables' names, and `key` would be the inner table's.
  return sql<number | null>`(SELECT deliveries.due_at FROM deliveries
      WHERE deliveries.webhook_key = webhooks.key AND deliveries.status = 'pending' AND NOT ${isExcluded}
      ORDER BY deliveries.due_at LIMIT 1)`;
}

/** What the sender asks of all accounts: which webhooks have deliveries due, and how much is waiting. */
export function deliveryBacklog(db: Queries): Pick<DeliveryReads, 'due' | 'backlog'> {
  const due = db
    .select({ webhookId: webhooks.id, dueAtMs: earliestDue(isTried) })
    .from(webhooks)
    .where(ofEnabledWebhook)
    .prepare();
  // One row per attempt under way: when its delivery can be claimed again.
  const leases = db
    .select({
      webhookId: webhooks.id,
      dueAtMs: sql<
        number | null
      >`iif(${leaseLeftMs} > ${longestLeaseMs}, ${deliveries.dueAt}, ${deliveryLeases.endsAt})`,
    })
    .from(deliveryLeases)
    .crossJoin(deliveries)
    .crossJoin(webhooks)
    .where(
      and(
        eq(deliveries.key, deliveryLeases.deliveryKey),
        isPending,
        eq(webhooks.key, deliveries.webhookKey),
        ofEnabledWebhook,
      ),
    )
    .prepare();
  const pending = (isDue?: SQL) =>
    db
      .select({ key: deliveries.webhookKey })
      .from(webhooks)
      .crossJoin(deliveries)
      .where(and(ofEnabledWebhook, eq(deliveries.webhookKey, webhooks.key), isPending, isDue))
      .limit(sql.placeholder('countedTo'));
  const countPending = db.select({ count: count() }).from(pending().as('counted')).prepare();
  const countDue = db
    .select({ count: count() })
    .from(pending(and(lte(deliveries.dueAt, sql.placeholder('nowMs')), sql`NOT ${isHeld}`)).as('counted'))
    .prepare();
  const firstDue = db
    .select({ dueAtMs: sql<number | null>`min(${earliestDue(isHeld)})` })
    .from(webhooks)
    .where(ofEnabledWebhook)
    .prepare();
  return {
    due: (nowMs) => {
      const first = new Map<string, number>();
      for (const { webhookId, dueAtMs } of [...due.all(), ...leases.all({ nowMs })]) {
        if (dueAtMs !== null) first.set(webhookId, Math.min(dueAtMs, first.get(webhookId) ?? dueAtMs));
      }
      return [...first].map(([webhookId, dueAtMs]) => ({ webhookId, dueAtMs }));
    },
    backlog: (nowMs, countedTo) => {
      const dueAtMs = firstDue.get({ nowMs })?.dueAtMs ?? Number.POSITIVE_INFINITY;
      return {
        pending: countPending.get({ countedTo })?.count ?? 0,
        due: countDue.get({ countedTo, nowMs })?.count ?? 0,
        oldestDueAtMs: dueAtMs > nowMs ? undefined : dueAtMs,
        countedTo,
      };
    },
  };
}
