import { and, asc, eq, sql } from 'drizzle-orm';
import type { StoredEvent } from '../../domain/events.ts';
import type { DeliveryWrites, ReleasedDelivery } from '../../domain/storage-port.ts';
import { type DeliveryRow, isHeld, isPending, isPresent, toDelivery } from './delivery-rows.ts';
import { eventColumns, toEvent } from './events.ts';
import { inList, jsonList, type Queries } from './queries.ts';
import { deliveries, deliveryLeases, events, webhooks } from './tables.ts';
import { toWebhook } from './webhooks.ts';

/** The webhook of a delivery, and its account. */
type Owner = Pick<ReleasedDelivery, 'accountId' | 'webhook'>;

function toOwner(row: typeof webhooks.$inferSelect): Owner {
  return { accountId: row.accountId, webhook: toWebhook(row) };
}

/** What a claim finds of one webhook. */
interface Due {
  /** Undefined when the webhook is disabled or was removed. */
  readonly owner: Owner | undefined;
  readonly due: readonly DeliveryRow[];
  readonly nextDueAtMs: number | undefined;
}

/** Taking deliveries for an attempt, and giving them back after it. */
export function deliveryClaims(db: Queries): Pick<DeliveryWrites, 'claim' | 'release'> {
  // No joins: so a webhook or an event is read once for all of its deliveries.
  const webhookById = db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.id, sql.placeholder('webhookId')), isPresent))
    .prepare();
  const webhookByKey = db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.key, sql.placeholder('key')), isPresent))
    .prepare();
  const firstFree = db
    .select()
    .from(deliveries)
    .where(and(eq(deliveries.webhookKey, sql.placeholder('webhookKey')), isPending, sql`NOT ${isHeld}`))
    .orderBy(asc(deliveries.dueAt))
    .limit(sql.placeholder('limit'))
    .prepare();
  const eventsBySequence = db
    .select(eventColumns)
    .from(events)
    .where(and(eq(events.accountId, sql.placeholder('accountId')), inList(events.sequence, 'sequences')))
    .prepare();
  const putLeases = db
    .insert(deliveryLeases)
    .select(
      db
        .select({
          deliveryKey: sql<number>`value`.as('delivery_key'),
          lease: sql<string>`${sql.placeholder('lease')}`.as('lease'),
          endsAt: sql<number>`${sql.placeholder('endsMs')}`.as('ends_at'),
        })
        .from(sql`json_each(${sql.placeholder('keys')})`)
        .where(sql`true`), // without it SQLite would parse ON CONFLICT as the ON of a join
    )
    .onConflictDoUpdate({
      target: deliveryLeases.deliveryKey,
      set: { lease: sql`excluded.lease`, endsAt: sql`excluded.ends_at` },
    })
    .prepare();
  const findByIds = db.select().from(deliveries).where(inList(deliveries.id, 'ids')).prepare();
  const endLeases = db
    .delete(deliveryLeases)
    .where(and(inList(deliveryLeases.deliveryKey, 'keys'), eq(deliveryLeases.lease, sql.placeholder('lease'))))
    .returning({ key: deliveryLeases.deliveryKey })
    .prepare();

  const eventsAt = (accountId: string, sequences: ReadonlySet<number | null>): Map<number, StoredEvent> => {
    const ofLog = [...sequences].filter((sequence) => sequence !== null);
    const found = ofLog.length === 0 ? [] : eventsBySequence.all({ accountId, sequences: jsonList(ofLog) });
    return new Map(found.map((row) => [row.sequence, toEvent(row)]));
  };
  const dueOf = (webhookId: string, limit: number, nowMs: number): Due => {
    const webhookRow = webhookById.get({ webhookId });
    if (!webhookRow?.enabled) return { owner: undefined, due: [], nextDueAtMs: undefined };
    const free = firstFree.all({ webhookKey: webhookRow.key, nowMs, limit: limit + 1 });
    const due = free.slice(0, limit).filter(({ dueAt }) => dueAt !== null && dueAt <= nowMs);
    return { owner: toOwner(webhookRow), due, nextDueAtMs: free[due.length]?.dueAt ?? undefined };
  };
  return {
    claim: (wanted, lease) => {
      const claims = wanted.map(({ webhookId, limit }) => dueOf(webhookId, limit, lease.nowMs));
      const keys = claims.flatMap(({ due }) => due.map(({ key }) => key));
      if (keys.length > 0) putLeases.run({ lease: lease.id, endsMs: lease.endsMs, keys: jsonList(keys) });
      const eventsOfAccount = new Map(
        [...Map.groupBy(claims, ({ owner }) => owner?.accountId)].map(([accountId, own]) => {
          const sequences = new Set(own.flatMap(({ due }) => due.map(({ eventSequence }) => eventSequence)));
          return [accountId, accountId === undefined ? undefined : eventsAt(accountId, sequences)];
        }),
      );
      return claims.map(({ owner, due, nextDueAtMs }) => {
        if (owner === undefined) return { claimed: [], nextDueAtMs };
        const events = eventsOfAccount.get(owner.accountId);
        const claimed = due.map((row) => ({
          delivery: toDelivery(row, owner.webhook.id),
          ...owner,
          event: events?.get(row.eventSequence ?? -1) ?? null,
        }));
        return { claimed, nextDueAtMs };
      });
    },
    release: (lease, ids) => {
      const rows = findByIds.all({ ids: jsonList(ids) });
      const ended = endLeases.all({ lease, keys: jsonList(rows.map(({ key }) => key)) });
      const wasHeld = new Set(ended.map(({ key }) => key));
      const owners = new Map<number, Owner | undefined>();
      const found = new Map<string, ReleasedDelivery>();
      for (const row of rows) {
        if (!wasHeld.has(row.key)) continue;
        const { webhookKey } = row;
        if (!owners.has(webhookKey)) {
          const webhookRow = webhookByKey.get({ key: webhookKey });
          owners.set(webhookKey, webhookRow && toOwner(webhookRow));
        }
        const owner = owners.get(webhookKey);
        if (owner !== undefined) found.set(row.id, { delivery: toDelivery(row, owner.webhook.id), ...owner });
      }
      return ids.map((id) => found.get(id));
    },
  };
}
