import { and, asc, count, desc, eq, getTableColumns, gte, inArray, lt, lte, min, type SQL, sql } from 'drizzle-orm';
import { type Attempt, type DeliveryOfWebhook, longestLeaseMs, type StoredDelivery } from '../../domain/delivery.ts';
import type { StoredEvent } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { DeliveryReads, DeliveryWrites, ReleasedDelivery } from '../../domain/ports.ts';
import { eventColumns, toEvent } from './events.ts';
import { countInSpans, firstId, pageFrom, span } from './index-spans.ts';
import { bindings, inList, isBeingErased, jsonList, type Queries } from './queries.ts';
import { alignToIds, sliceOf, toMs, toTimestamp } from './rows.ts';
import { attempts, deliveries, deliveryLeases, events, webhooks } from './tables.ts';
import { toWebhook } from './webhooks.ts';

type Row = typeof deliveries.$inferSelect;
type AttemptRow = typeof attempts.$inferSelect;
type WebhookRow = typeof webhooks.$inferSelect;

function toDelivery(row: Row, webhookId: string): StoredDelivery {
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

function toAttempt(row: AttemptRow): Attempt {
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

/** The webhook of a delivery. */
type Owner = Pick<ReleasedDelivery, 'accountId' | 'webhook'>;

function toOwner(row: WebhookRow): Owner {
  return { accountId: row.accountId, webhook: toWebhook(row) };
}

/** What a claim finds of a webhook, which is undefined when there is none that is enabled. */
interface Due {
  readonly owner: Owner | undefined;
  readonly due: readonly Row[];
  readonly nextDueAtMs: number | undefined;
}

interface Joined {
  readonly delivery: Row;
  readonly webhookId: string;
  readonly enabled: boolean;
  readonly isTried: boolean;
}

function toDeliveryOfWebhook({ delivery, webhookId, enabled, isTried }: Joined): DeliveryOfWebhook {
  return { ...toDelivery(delivery, webhookId), webhookEnabled: enabled, isTried };
}

/** What is read of an attempt: no answer to an event whose conversation is being erased. */
const attemptColumns = {
  ...getTableColumns(attempts),
  responseBody: sql<string | null>`CASE WHEN EXISTS (SELECT 1 FROM events
      WHERE events.account_id = ${webhooks.accountId} AND events.sequence = ${deliveries.eventSequence}
        AND ${isBeingErased('events')})
    THEN NULL ELSE ${attempts.responseBody} END`,
};

/** How long a claim is to hold from now on. */
const leftMs = sql`delivery_leases.ends_at - ${sql.placeholder('nowMs')}`;
const claim = sql`SELECT 1 FROM delivery_leases WHERE delivery_leases.delivery_key = deliveries.key`;
/** Whether somebody is trying a delivery, or has died in the midst of it. */
const isTried = sql`EXISTS (${claim})`.mapWith(Boolean);
/** Whether that keeps others from it. */
const isHeld = sql`EXISTS (${claim} AND ${leftMs} BETWEEN 1 AND ${longestLeaseMs})`;

const joined = { delivery: deliveries, webhookId: webhooks.id, enabled: webhooks.enabled, isTried };

// Conditions of partial indexes have to be in the statement word for word.
const kept = sql`${webhooks.removed} = 0`;
const pending = sql`${deliveries.status} = 'pending'`;
const ofAccount = and(eq(webhooks.accountId, sql.placeholder('accountId')), kept);
const ofWebhook = and(
  ofAccount,
  eq(webhooks.id, sql.placeholder('webhookId')),
  eq(deliveries.webhookKey, webhooks.key),
);

// CROSS JOIN has SQLite begin with the table that is named first.
export function deliveryReads(db: Queries): DeliveryReads {
  const find = db
    .select(joined)
    .from(deliveries)
    .crossJoin(webhooks)
    .where(and(eq(deliveries.id, sql.placeholder('id')), eq(webhooks.key, deliveries.webhookKey), ofAccount))
    .prepare();
  const findMany = db
    .select(joined)
    .from(deliveries)
    .crossJoin(webhooks)
    .where(and(inList(deliveries.id, 'ids'), eq(webhooks.key, deliveries.webhookKey), ofAccount))
    .prepare();
  const page = db
    .select(joined)
    .from(webhooks)
    .crossJoin(deliveries)
    .where(and(ofWebhook, lt(deliveries.id, sql.placeholder('before'))))
    .orderBy(desc(deliveries.id))
    .limit(sql.placeholder('limit'))
    .offset(sql.placeholder('offset'))
    .prepare();
  const place = db
    .select({ id: deliveries.id })
    .from(webhooks)
    .crossJoin(deliveries)
    .where(and(ofWebhook, lt(deliveries.id, sql.placeholder('before'))))
    .orderBy(desc(deliveries.id))
    .limit(1)
    .offset(sql.placeholder('offset'))
    .prepare();
  const some = db
    .select({ id: deliveries.id })
    .from(webhooks)
    .crossJoin(deliveries)
    .where(and(ofWebhook, lt(deliveries.id, sql.placeholder('before'))))
    .orderBy(desc(deliveries.id))
    .limit(span)
    .as('some');
  const countSome = db
    .select({ count: count(), lastId: min(some.id) })
    .from(some)
    .prepare();
  const attemptRanges = db
    .select({ index: sql<number>`range.key`, attempt: attemptColumns })
    .from(sql`json_each(${sql.placeholder('ranges')}) AS range`)
    .crossJoin(deliveries)
    .crossJoin(webhooks)
    .crossJoin(attempts)
    .where(
      and(
        sql`${deliveries.id} = range.value ->> 0`,
        eq(webhooks.key, deliveries.webhookKey),
        ofAccount,
        sql`${attempts.deliveryKey} = ${deliveries.key}
          AND ${attempts.number} BETWEEN range.value ->> 1 AND range.value ->> 2`,
      ),
    )
    .prepare();
  const failed = db
    .select({ delivery: deliveries })
    .from(webhooks)
    .crossJoin(deliveries)
    .where(and(ofWebhook, sql`${deliveries.status} = 'failed'`, gte(deliveries.id, sql.placeholder('fromId'))))
    .orderBy(asc(deliveries.id))
    .limit(sql.placeholder('limit'))
    .prepare();
  const ofEnabledWebhook = and(sql`${webhooks.enabled} = 1`, kept);
  // In a query of one table drizzle leaves out the tables' names, and `key` would be the inner one's.
  const firstFree = (isTaken: SQL) =>
    sql<number | null>`(SELECT deliveries.due_at FROM deliveries
      WHERE deliveries.webhook_key = webhooks.key AND deliveries.status = 'pending' AND NOT ${isTaken}
      ORDER BY deliveries.due_at LIMIT 1)`;
  const due = db
    .select({ webhookId: webhooks.id, dueAtMs: firstFree(isTried) })
    .from(webhooks)
    .where(ofEnabledWebhook)
    .prepare();
  // As many rows as there are attempts underway.
  const leases = db
    .select({
      webhookId: webhooks.id,
      dueAtMs: sql<number | null>`iif(${leftMs} > ${longestLeaseMs}, ${deliveries.dueAt}, ${deliveryLeases.endsAt})`,
    })
    .from(deliveryLeases)
    .crossJoin(deliveries)
    .crossJoin(webhooks)
    .where(
      and(
        eq(deliveries.key, deliveryLeases.deliveryKey),
        pending,
        eq(webhooks.key, deliveries.webhookKey),
        ofEnabledWebhook,
      ),
    )
    .prepare();
  const ofEnabled = (isDue?: SQL) =>
    db
      .select({ key: deliveries.webhookKey })
      .from(webhooks)
      .crossJoin(deliveries)
      .where(and(ofEnabledWebhook, eq(deliveries.webhookKey, webhooks.key), pending, isDue))
      .limit(sql.placeholder('countedTo'));
  const countPending = db.select({ count: count() }).from(ofEnabled().as('counted')).prepare();
  const countDue = db
    .select({ count: count() })
    .from(ofEnabled(and(lte(deliveries.dueAt, sql.placeholder('nowMs')), sql`NOT ${isHeld}`)).as('counted'))
    .prepare();
  const firstDue = db
    .select({ dueAtMs: sql<number | null>`min(${firstFree(isHeld)})` })
    .from(webhooks)
    .where(ofEnabledWebhook)
    .prepare();
  return {
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toDeliveryOfWebhook(row);
    },
    findMany: (accountId, ids) =>
      alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toDeliveryOfWebhook)),
    page: (accountId, webhookId, query) =>
      pageFrom(
        query,
        ({ limit, offset, after = firstId }) =>
          sliceOf(
            page.all({ accountId, webhookId, before: after, limit: limit + 1, offset }),
            limit,
            toDeliveryOfWebhook,
          ),
        (after = firstId, entries) => place.get({ accountId, webhookId, before: after, offset: entries - 1 })?.id,
      ),
    count: (accountId, webhookId) =>
      countInSpans((before = firstId) => countSome.get({ accountId, webhookId, before }) ?? { count: 0, lastId: null }),
    attempts: (accountId, asked) => {
      const lists: Attempt[][] = asked.map(() => []);
      const ranges = jsonList(asked.map(({ deliveryId, from, to }) => [deliveryId, from, to]));
      for (const { index, attempt } of attemptRanges.all({ accountId, ranges })) lists[index]?.push(toAttempt(attempt));
      return lists;
    },
    failed: (accountId, webhookId, range) =>
      failed.all({ ...range, accountId, webhookId }).map(({ delivery }) => toDelivery(delivery, webhookId)),
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

/** The columns that change after creation, as they are bound. */
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

/** @param onDue is told whose deliveries may be due now; the transaction may still be undone */
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
  // What a claim and the end of an attempt ask for is asked for table by table: a webhook is read once for all of its.
  const webhookById = db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.id, sql.placeholder('webhookId')), kept))
    .prepare();
  const webhookByKey = db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.key, sql.placeholder('key')), kept))
    .prepare();
  const firstFree = db
    .select()
    .from(deliveries)
    .where(and(eq(deliveries.webhookKey, sql.placeholder('webhookKey')), pending, sql`NOT ${isHeld}`))
    .orderBy(asc(deliveries.dueAt))
    .limit(sql.placeholder('limit'))
    .prepare();
  const eventsOf = db
    .select(eventColumns)
    .from(events)
    .where(and(eq(events.accountId, sql.placeholder('accountId')), inList(events.sequence, 'sequences')))
    .prepare();
  const take = db
    .insert(deliveryLeases)
    .select(
      db
        .select({
          deliveryKey: sql<number>`value`.as('delivery_key'),
          lease: sql<string>`${sql.placeholder('lease')}`.as('lease'),
          endsAt: sql<number>`${sql.placeholder('endsMs')}`.as('ends_at'),
        })
        .from(sql`json_each(${sql.placeholder('keys')})`)
        .where(sql`true`), // without it SQLite would take what follows for part of a join
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
  /** Deliveries of webhooks that were removed, and each of these when nothing points at it any more. */
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
  const eventsAt = (accountId: string, sequences: ReadonlySet<number | null>): Map<number, StoredEvent> => {
    const ofLog = [...sequences].filter((sequence) => sequence !== null);
    const found = ofLog.length === 0 ? [] : eventsOf.all({ accountId, sequences: jsonList(ofLog) }).map(toEvent);
    return new Map(found.map((event) => [event.sequence, event]));
  };
  const dueOf = (webhookId: string, limit: number, nowMs: number): Due => {
    const webhookRow = webhookById.get({ webhookId });
    if (!webhookRow?.enabled) return { owner: undefined, due: [], nextDueAtMs: undefined };
    const free = firstFree.all({ webhookKey: webhookRow.key, nowMs, limit: limit + 1 });
    const due = free.slice(0, limit).filter(({ dueAt }) => dueAt !== null && dueAt <= nowMs);
    return { owner: toOwner(webhookRow), due, nextDueAtMs: free[due.length]?.dueAt ?? undefined };
  };
  return {
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
    claim: (wanted, lease) => {
      const claims = wanted.map(({ webhookId, limit }) => dueOf(webhookId, limit, lease.nowMs));
      const keys = claims.flatMap(({ due }) => due.map(({ key }) => key));
      if (keys.length > 0) take.run({ lease: lease.id, endsMs: lease.endsMs, keys: jsonList(keys) });
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
    insertAttempt: (deliveryId, number, attempt) => {
      insertAttempt.run({ ...attempt, deliveryId, number, startedAt: toMs(attempt.startedAt) });
    },
    prune: (beforeMs, limit) => {
      const { changes } = removeOldest.run({ beforeId: lowestIdAt('delivery', beforeMs), limit });
      return changes + (changes < limit ? removeOrphans(limit - changes) : 0);
    },
  };
}
