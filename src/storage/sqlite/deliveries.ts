import { type Attempt, type DeliveryOfWebhook, longestLeaseMs } from '../../domain/delivery-record.ts';
import type { StoredEvent } from '../../domain/events.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { AttemptRange, DeliveryReads, DeliveryWrites, ReleasedDelivery } from '../../domain/storage-port.ts';
import { aboveAllIds, sliceOf } from '../lists.ts';
import {
  type AttemptRow,
  attemptColumns,
  changingOfDelivery,
  type DeliveryRow,
  deliveryColumns,
  toAttempt,
  toDelivery,
  toDeliveryRow,
} from '../rows/deliveries.ts';
import { type EventRow, toEvent } from '../rows/events.ts';
import { alignToIds, ifFound, toMs } from '../rows/values.ts';
import { type Receiver, type ReceiverRow, toReceiver, webhookColumns } from '../rows/webhooks.ts';
import { assignments, insertInto } from '../sql.ts';
import { isBeingErased } from './erasure.ts';
import { eventColumns } from './events.ts';
import { countInSteps, pageAfterSkipping, type RangeReader, readRanges } from './paging.ts';
import { columnsOf, jsonList, type Statements } from './statements.ts';
import type { attempts, deliveries } from './tables.ts';
import { isPresent } from './webhooks.ts';

type KeyedRow = DeliveryRow & Pick<typeof deliveries.$inferSelect, 'key' | 'webhookKey'>;
type NumberedAttempt = AttemptRow & Pick<typeof attempts.$inferSelect, 'number'>;

// Conditions of partial indexes have to appear word for word in a statement that is to use them.

const isPending = `deliveries.status = 'pending'`;
const ofEnabledWebhook = `webhooks.enabled = 1 AND ${isPresent}`;

const lease = 'SELECT 1 FROM delivery_leases WHERE delivery_key = deliveries.key';
/** Whether there is a lease: an attempt is under way, or the process that made it died before it could release it. */
const isTried = `EXISTS (${lease})`;
/** Whether the lease keeps others from claiming the delivery; see `longestLeaseMs` for its upper bound. */
const isHeld = `EXISTS (${lease} AND ends_at - :nowMs BETWEEN 1 AND ${longestLeaseMs})`;

interface JoinedRow extends DeliveryRow {
  readonly webhookId: string;
  readonly webhookEnabled: 0 | 1;
  readonly isTried: 0 | 1;
}

function toDeliveryOfWebhook(row: JoinedRow): DeliveryOfWebhook {
  return { ...toDelivery(row, row.webhookId), webhookEnabled: row.webhookEnabled === 1, isTried: row.isTried === 1 };
}

// CROSS JOIN makes SQLite begin with the table that is named first.
export function deliveryReads(db: Statements): DeliveryReads {
  const select = `SELECT ${columnsOf('deliveries', deliveryColumns)}, webhooks.id AS webhookId,
    webhooks.enabled AS webhookEnabled, ${isTried} AS isTried`;
  const ofAccount = `webhooks.account_id = :accountId AND ${isPresent}`;
  const withWebhook = `FROM deliveries CROSS JOIN webhooks WHERE webhooks.key = deliveries.webhook_key AND ${ofAccount}`;
  const ofWebhook = `FROM webhooks CROSS JOIN deliveries
    WHERE ${ofAccount} AND webhooks.id = :webhookId AND deliveries.webhook_key = webhooks.key`;
  const before = `${ofWebhook} AND deliveries.id < :before ORDER BY deliveries.id DESC`;

  const find = db.prepare<JoinedRow>(`${select} ${withWebhook} AND deliveries.id = :id`);
  const findMany = db.prepare<JoinedRow>(
    `${select} ${withWebhook} AND deliveries.id IN (SELECT value FROM json_each(:ids))`,
  );
  const page = db.prepare<JoinedRow>(`${select} ${before} LIMIT :limit OFFSET :offset`);
  const place = db.prepare<Pick<typeof deliveries.$inferSelect, 'id'>>(
    `SELECT deliveries.id AS id ${before} LIMIT 1 OFFSET :offset`,
  );
  const countUpTo = db.prepare<{ count: number; lastId: string | null }>(
    `SELECT count(*) AS count, min(id) AS lastId FROM (SELECT deliveries.id AS id ${before} LIMIT :limit) AS some`,
  );
  const failed = db.prepare<DeliveryRow>(
    `${select} ${ofWebhook} AND deliveries.status = 'failed' AND deliveries.id >= :fromId
      ORDER BY deliveries.id LIMIT :limit`,
  );
  // Without the response body if the conversation of the event is being erased.
  const attemptRanges = db.prepare<NumberedAttempt & { range: number }>(
    `SELECT ${columnsOf('attempts', attemptColumns)}, attempts.number, range.key AS range,
        CASE WHEN EXISTS (SELECT 1 FROM events WHERE events.account_id = webhooks.account_id
            AND events.sequence = deliveries.event_sequence AND ${isBeingErased('events')})
          THEN NULL ELSE attempts.response_body END AS responseBody
      FROM json_each(:ranges) AS range CROSS JOIN deliveries CROSS JOIN webhooks CROSS JOIN attempts
      WHERE deliveries.id = range.value ->> 0 AND webhooks.key = deliveries.webhook_key AND ${ofAccount}
        AND attempts.delivery_key = deliveries.key
        AND attempts.number BETWEEN range.value ->> 1 AND range.value ->> 2`,
  );
  const anyBefore = db.prepare('SELECT 1 FROM deliveries WHERE id < :beforeId LIMIT 1');
  const attemptReader = (accountId: string): RangeReader<AttemptRange, NumberedAttempt, Attempt> => ({
    rows(asked, areFew) {
      const ranges = jsonList(asked.map(({ deliveryId, from, to }) => [deliveryId, from, to]));
      return attemptRanges[areFew ? 'all' : 'each']({ accountId, ranges });
    },
    numberOf: ({ number }) => number,
    textsOf: ({ responseBody }) => [responseBody],
    toItem: toAttempt,
  });
  return {
    ...backlogReads(db),
    hasBefore: (beforeMs) => anyBefore.get({ beforeId: lowestIdAt('delivery', beforeMs) }) !== undefined,
    find: (accountId, id) => ifFound(find.get({ accountId, id }), toDeliveryOfWebhook),
    findMany: (accountId, ids) =>
      alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toDeliveryOfWebhook)),
    page: (accountId, webhookId, query) =>
      pageAfterSkipping(
        accountId,
        query,
        ({ limit, offset, after = aboveAllIds }) =>
          sliceOf(
            page.all({ accountId, webhookId, before: after, limit: limit + 1, offset }),
            limit,
            toDeliveryOfWebhook,
          ),
        (after = aboveAllIds, entries) => place.get({ accountId, webhookId, before: after, offset: entries - 1 })?.id,
      ),
    count: (accountId, webhookId) =>
      countInSteps(
        accountId,
        (limit, after = aboveAllIds) =>
          countUpTo.get({ accountId, webhookId, before: after, limit }) ?? { count: 0, lastId: null },
      ),
    attempts: (accountId, asked, onRead) => readRanges(accountId, asked, attemptReader(accountId), onRead),
    failed: (accountId, webhookId, range) =>
      failed.all({ ...range, accountId, webhookId }).map((row) => toDelivery(row, webhookId)),
  };
}

interface DueRow {
  readonly accountId: string;
  readonly webhookId: string;
  readonly dueAtMs: number | null;
}

/** What the sender asks of all accounts: which webhooks have deliveries due, and how much is waiting. */
function backlogReads(db: Statements): Pick<DeliveryReads, 'due' | 'backlog'> {
  /** When the first pending delivery of a webhook is due, without those that are excluded. */
  const earliestDue = (isExcluded: string) =>
    `(SELECT deliveries.due_at FROM deliveries
      WHERE deliveries.webhook_key = webhooks.key AND ${isPending} AND NOT ${isExcluded}
      ORDER BY deliveries.due_at LIMIT 1)`;
  const pending = `FROM webhooks CROSS JOIN deliveries
    WHERE ${ofEnabledWebhook} AND deliveries.webhook_key = webhooks.key AND ${isPending}`;
  const due = db.prepare<DueRow>(
    `SELECT account_id AS accountId, id AS webhookId, ${earliestDue(isTried)} AS dueAtMs
      FROM webhooks WHERE ${ofEnabledWebhook}`,
  );
  // One row per attempt under way: when its delivery can be claimed again.
  const leases = db.prepare<DueRow>(
    `SELECT webhooks.account_id AS accountId, webhooks.id AS webhookId,
        iif(ends_at - :nowMs > ${longestLeaseMs}, deliveries.due_at, ends_at) AS dueAtMs
      FROM delivery_leases CROSS JOIN deliveries CROSS JOIN webhooks
      WHERE deliveries.key = delivery_key AND ${isPending} AND webhooks.key = deliveries.webhook_key
        AND ${ofEnabledWebhook}`,
  );
  const countPending = db.prepare<{ count: number }>(
    `SELECT count(*) AS count FROM (SELECT 1 ${pending} LIMIT :countedTo)`,
  );
  const countDue = db.prepare<{ count: number }>(
    `SELECT count(*) AS count
      FROM (SELECT 1 ${pending} AND deliveries.due_at <= :nowMs AND NOT ${isHeld} LIMIT :countedTo)`,
  );
  const firstDue = db.prepare<Pick<DueRow, 'dueAtMs'>>(
    `SELECT min(${earliestDue(isHeld)}) AS dueAtMs FROM webhooks WHERE ${ofEnabledWebhook}`,
  );
  return {
    due: (nowMs) => {
      const first = new Map<string, { accountId: string; webhookId: string; dueAtMs: number }>();
      for (const { accountId, webhookId, dueAtMs } of [...due.all(), ...leases.all({ nowMs })]) {
        if (dueAtMs === null) continue;
        const earliestMs = Math.min(dueAtMs, first.get(webhookId)?.dueAtMs ?? dueAtMs);
        first.set(webhookId, { accountId, webhookId, dueAtMs: earliestMs });
      }
      return [...first.values()];
    },
    backlog: (nowMs, countedTo) => {
      const dueAtMs = firstDue.get({ nowMs })?.dueAtMs ?? Number.POSITIVE_INFINITY;
      return {
        pending: countPending.get({ countedTo })?.count ?? 0,
        due: countDue.get({ countedTo, nowMs })?.count ?? 0,
        oldestDueAtMs: dueAtMs > nowMs ? undefined : dueAtMs,
      };
    },
  };
}

/** @param onDue called with a webhook that may have a delivery due; the transaction may still be rolled back */
export function deliveryWrites(db: Statements, onDue: (accountId: string, webhookId: string) => void): DeliveryWrites {
  const insert = db.prepare(
    insertInto('deliveries', deliveryColumns, { webhookKey: '(SELECT key FROM webhooks WHERE id = :webhookId)' }),
  );
  const update = db.prepare(`UPDATE deliveries SET ${assignments(changingOfDelivery)} WHERE id = :id`);
  const insertAttempt = db.prepare(
    insertInto('attempts', [...attemptColumns, 'responseBody'], {
      deliveryKey: '(SELECT key FROM deliveries WHERE id = :deliveryId)',
    }),
  );
  return {
    ...claims(db),
    ...pruning(db),
    insert: (accountId, delivery) => {
      insert.run({ ...toDeliveryRow(delivery), webhookId: delivery.webhookId });
      onDue(accountId, delivery.webhookId);
    },
    update: (accountId, delivery) => {
      update.run({ ...toDeliveryRow(delivery) });
      if (delivery.status === 'pending') onDue(accountId, delivery.webhookId);
    },
    insertAttempt: (deliveryId, number, attempt) => {
      insertAttempt.run({ ...attempt, deliveryId, number, startedAt: toMs(attempt.startedAt) });
    },
  };
}

/** What a claim finds of one webhook. */
interface Due {
  /** Undefined when the webhook is disabled or was removed. */
  readonly receiver: Receiver | undefined;
  readonly due: readonly KeyedRow[];
  readonly nextDueAtMs: number | undefined;
}

/** Taking deliveries for an attempt, and giving them back after it. */
function claims(db: Statements): Pick<DeliveryWrites, 'claim' | 'release'> {
  // No joins: so a webhook or an event is read once for all of its deliveries.
  const selectWebhook = `SELECT webhooks.key AS key, webhooks.account_id AS accountId, ${columnsOf('webhooks', webhookColumns)} FROM webhooks
    WHERE ${isPresent}`;
  const webhookById = db.prepare<ReceiverRow & { key: number }>(`${selectWebhook} AND id = :webhookId`);
  const webhookByKey = db.prepare<ReceiverRow>(`${selectWebhook} AND key = :key`);
  const selectDelivery = `SELECT ${columnsOf('deliveries', ['key', 'webhookKey', ...deliveryColumns])} FROM deliveries`;
  const firstFree = db.prepare<KeyedRow>(
    `${selectDelivery} WHERE webhook_key = :webhookKey AND ${isPending} AND NOT ${isHeld}
      ORDER BY due_at LIMIT :limit`,
  );
  const deliveriesByIds = db.prepare<KeyedRow>(`${selectDelivery} WHERE id IN (SELECT value FROM json_each(:ids))`);
  const eventsBySequence = db.prepare<EventRow>(
    `SELECT ${eventColumns} FROM events
      WHERE account_id = :accountId AND sequence IN (SELECT value FROM json_each(:sequences))`,
  );
  // Without `WHERE true` SQLite would parse ON CONFLICT as the ON of a join.
  const putLeases = db.prepare(
    `INSERT INTO delivery_leases (delivery_key, lease, ends_at)
      SELECT value, :lease, :endsMs FROM json_each(:keys) WHERE true
      ON CONFLICT DO UPDATE SET lease = excluded.lease, ends_at = excluded.ends_at`,
  );
  const endLeases = db.prepare<{ key: number }>(
    `DELETE FROM delivery_leases WHERE delivery_key IN (SELECT value FROM json_each(:keys)) AND lease = :lease
      RETURNING delivery_key AS key`,
  );

  const eventsAt = (accountId: string, sequences: ReadonlySet<number | null>): Map<number, StoredEvent> => {
    const ofLog = [...sequences].filter((sequence) => sequence !== null);
    const found = ofLog.length === 0 ? [] : eventsBySequence.all({ accountId, sequences: jsonList(ofLog) });
    return new Map(found.map((row) => [row.sequence, toEvent(row)]));
  };
  const dueOf = (webhookId: string, limit: number, nowMs: number): Due => {
    const webhook = webhookById.get({ webhookId });
    if (!webhook?.enabled) return { receiver: undefined, due: [], nextDueAtMs: undefined };
    const free = firstFree.all({ webhookKey: webhook.key, nowMs, limit: limit + 1 });
    const due = free.slice(0, limit).filter(({ dueAt }) => dueAt !== null && dueAt <= nowMs);
    return { receiver: toReceiver(webhook), due, nextDueAtMs: free[due.length]?.dueAt ?? undefined };
  };
  return {
    claim: (wanted, lease) => {
      const claims = wanted.map(({ webhookId, limit }) => dueOf(webhookId, limit, lease.nowMs));
      const keys = claims.flatMap(({ due }) => due.map(({ key }) => key));
      if (keys.length > 0) putLeases.run({ lease: lease.id, endsMs: lease.endsMs, keys: jsonList(keys) });
      const eventsOfAccount = new Map(
        [...Map.groupBy(claims, ({ receiver }) => receiver?.accountId)].map(([accountId, own]) => {
          const sequences = new Set(own.flatMap(({ due }) => due.map(({ eventSequence }) => eventSequence)));
          return [accountId, accountId === undefined ? undefined : eventsAt(accountId, sequences)];
        }),
      );
      return claims.map(({ receiver, due, nextDueAtMs }) => {
        if (receiver === undefined) return { claimed: [], nextDueAtMs };
        const events = eventsOfAccount.get(receiver.accountId);
        const claimed = due.map((row) => ({
          delivery: toDelivery(row, receiver.webhook.id),
          ...receiver,
          event: events?.get(row.eventSequence ?? -1) ?? null,
        }));
        return { claimed, nextDueAtMs };
      });
    },
    release: (lease, ids) => {
      const rows = deliveriesByIds.all({ ids: jsonList(ids) });
      const ended = endLeases.all({ lease, keys: jsonList(rows.map(({ key }) => key)) });
      const wasHeld = new Set(ended.map(({ key }) => key));
      const receivers = new Map<number, Receiver | undefined>();
      const found = new Map<string, ReleasedDelivery>();
      for (const row of rows) {
        if (!wasHeld.has(row.key)) continue;
        const { webhookKey } = row;
        if (!receivers.has(webhookKey)) {
          const webhook = webhookByKey.get({ key: webhookKey });
          receivers.set(webhookKey, webhook && toReceiver(webhook));
        }
        const receiver = receivers.get(webhookKey);
        if (receiver !== undefined) found.set(row.id, { delivery: toDelivery(row, receiver.webhook.id), ...receiver });
      }
      return ids.map((id) => found.get(id));
    },
  };
}

/** Deleting old deliveries, and what is left of webhooks that were removed. */
function pruning(db: Statements): Pick<DeliveryWrites, 'prune'> {
  const removeOldest = db.prepare(
    `DELETE FROM deliveries WHERE key IN
      (SELECT key FROM deliveries WHERE id < :beforeId ORDER BY id LIMIT :limit)`,
  );
  const removedWebhook = db.prepare<{ key: number }>('SELECT key FROM webhooks WHERE removed = 1 LIMIT 1');
  const removeOfWebhook = db.prepare(
    'DELETE FROM deliveries WHERE key IN (SELECT key FROM deliveries WHERE webhook_key = :webhookKey LIMIT :limit)',
  );
  const removeWebhook = db.prepare('DELETE FROM webhooks WHERE key = :key');
  /** Deletes deliveries of removed webhooks, and each of those webhooks after its last delivery: so many of both. */
  const removeOrphans = (limit: number): number => {
    let removed = 0;
    while (removed < limit) {
      const webhook = removedWebhook.get();
      if (webhook === undefined) break;
      removed += removeOfWebhook.run({ webhookKey: webhook.key, limit: limit - removed });
      if (removed < limit) removed += removeWebhook.run({ key: webhook.key });
    }
    return removed;
  };
  return {
    prune: (beforeMs, limit) => {
      const removed = removeOldest.run({ beforeId: lowestIdAt('delivery', beforeMs), limit });
      return removed + (removed < limit ? removeOrphans(limit - removed) : 0);
    },
  };
}
