import { and, asc, count, desc, eq, getTableColumns, gte, lt, min, sql } from 'drizzle-orm';
import type { Attempt, DeliveryOfWebhook } from '../../domain/delivery-record.ts';
import type { DeliveryReads } from '../../domain/storage-port.ts';
import { deliveryBacklog } from './delivery-backlog.ts';
import { type DeliveryRow, isPresent, isTried, toDelivery } from './delivery-rows.ts';
import { countInSpans, firstId, pageFrom } from './index-spans.ts';
import { inList, isBeingErased, jsonList, type Queries } from './queries.ts';
import { alignToIds, sliceOf, toTimestamp } from './rows.ts';
import { attempts, deliveries, webhooks } from './tables.ts';

function toAttempt(row: typeof attempts.$inferSelect): Attempt {
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

interface Joined {
  readonly delivery: DeliveryRow;
  readonly webhookId: string;
  readonly enabled: boolean;
  readonly isTried: boolean;
}

function toDeliveryOfWebhook({ delivery, webhookId, enabled, isTried }: Joined): DeliveryOfWebhook {
  return { ...toDelivery(delivery, webhookId), webhookEnabled: enabled, isTried };
}

/** The columns of an attempt, without the response body if the conversation of its event is being erased. */
const attemptColumns = {
  ...getTableColumns(attempts),
  responseBody: sql<string | null>`CASE WHEN EXISTS (SELECT 1 FROM events
      WHERE events.account_id = ${webhooks.accountId} AND events.sequence = ${deliveries.eventSequence}
        AND ${isBeingErased('events')})
    THEN NULL ELSE ${attempts.responseBody} END`,
};

const joined = { delivery: deliveries, webhookId: webhooks.id, enabled: webhooks.enabled, isTried };

const ofAccount = and(eq(webhooks.accountId, sql.placeholder('accountId')), isPresent);
const ofWebhook = and(
  ofAccount,
  eq(webhooks.id, sql.placeholder('webhookId')),
  eq(deliveries.webhookKey, webhooks.key),
);

// CROSS JOIN makes SQLite begin with the table that is named first.
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
    .limit(sql.placeholder('limit'))
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
  return {
    ...deliveryBacklog(db),
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
      countInSpans(
        (limit, before = firstId) =>
          countSome.get({ accountId, webhookId, before, limit }) ?? { count: 0, lastId: null },
      ),
    attempts: (accountId, asked) => {
      const lists: Attempt[][] = asked.map(() => []);
      const ranges = jsonList(asked.map(({ deliveryId, from, to }) => [deliveryId, from, to]));
      for (const { index, attempt } of attemptRanges.all({ accountId, ranges })) lists[index]?.push(toAttempt(attempt));
      return lists;
    },
    failed: (accountId, webhookId, range) =>
      failed.all({ ...range, accountId, webhookId }).map(({ delivery }) => toDelivery(delivery, webhookId)),
  };
}
