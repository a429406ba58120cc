import { type DeliveryOfWebhook, longestLeaseMs } from '../../domain/delivery-record.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import type { DeliveryReads, DeliveryWrites, ReleasedDelivery } from '../../domain/storage-port.ts';
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
import { type ReceiverRow, toReceiver, webhookColumns } from '../rows/webhooks.ts';
import { isBeingErased } from './erasure.ts';
import { eventColumns } from './events.ts';
import { readRanges } from './ranges.ts';
import { arrayOf, assignedRows, columnsOf, deleteFirst, insertRows, type Statements } from './statements.ts';
import type { deliveries } from './tables.ts';

type OwnRow = DeliveryRow & Pick<typeof deliveries.$inferSelect, 'webhookId'>;

const isPending = `deliveries.status = 'pending'`;
const ofEnabledWebhook = 'webhooks.enabled AND NOT webhooks.removed';
/** The deliveries of a webhook that is named before them. */
const itsOwn = 'deliveries.account_id = webhooks.account_id AND deliveries.webhook_id = webhooks.id';

const lease = `SELECT 1 FROM delivery_leases
  WHERE delivery_leases.account_id = deliveries.account_id AND delivery_id = deliveries.id`;
/** Whether there is a lease: an attempt is under way, or the process that made it died before it could release it. */
const isTried = `EXISTS (${lease})`;
/** Whether a lease keeps others from claiming the delivery; see `longestLeaseMs` for its upper bound. */
const holds = `delivery_leases.ends_at - :nowMs::bigint BETWEEN 1 AND ${longestLeaseMs}`;
const isHeld = `EXISTS (${lease} AND ${holds})`;

interface JoinedRow extends OwnRow {
  readonly webhookEnabled: boolean;
  readonly isTried: boolean;
}

function toDeliveryOfWebhook(row: JoinedRow): DeliveryOfWebhook {
  return { ...toDelivery(row, row.webhookId), webhookEnabled: row.webhookEnabled, isTried: row.isTried };
}

/** @param locks whether a delivery that is found stays as it is until the transaction ends, as in `webhookReads` */
export function deliveryReads(db: Statements, { locks = false } = {}): DeliveryReads {
  const select = `SELECT ${columnsOf('deliveries', deliveryColumns)}, webhooks.id AS webhook_id,
    webhooks.enabled AS webhook_enabled, ${isTried} AS is_tried`;
  const ofAccount = `FROM webhooks JOIN deliveries ON ${itsOwn}
    WHERE webhooks.account_id = :accountId AND deliveries.account_id = :accountId AND NOT webhooks.removed`;
  const before = `${ofAccount} AND webhooks.id = :webhookId AND deliveries.id < :before`;

  const find = db.prepare<JoinedRow>(
    `${select} ${ofAccount} AND deliveries.id = :id${locks ? ' FOR UPDATE OF deliveries' : ''}`,
  );
  const findMany = db.prepare<JoinedRow>(`${select} ${ofAccount} AND deliveries.id = ANY(:ids::text[])`);
  const page = db.prepare<JoinedRow>(`${select} ${before} ORDER BY deliveries.id DESC LIMIT :limit OFFSET :offset`);
  const count = db.prepare<{ count: number }>(`SELECT count(*) AS count ${before}`);
  const failed = db.prepare<JoinedRow>(
    `${select} ${ofAccount} AND webhooks.id = :webhookId AND deliveries.status = 'failed' AND deliveries.id >= :fromId
      ORDER BY deliveries.id LIMIT :limit`,
  );
  // Without the response body if the conversation of the event is being erased.
  const attemptRanges = db.prepare<AttemptRow & { range: number }>(
    `SELECT ${columnsOf('attempts', attemptColumns)}, range.at - 1 AS range,
        CASE WHEN EXISTS (SELECT 1 FROM events WHERE events.account_id = deliveries.account_id
            AND events.sequence = deliveries.event_sequence AND ${isBeingErased('events')})
          THEN NULL ELSE attempts.response_body END AS response_body
      FROM unnest(:ids::text[], :froms::integer[], :tos::integer[])
        WITH ORDINALITY AS range (delivery_id, first, last, at)
      JOIN deliveries ON deliveries.account_id = :accountId AND deliveries.id = range.delivery_id
      JOIN webhooks ON ${itsOwn} AND NOT webhooks.removed
      JOIN attempts ON attempts.account_id = deliveries.account_id AND attempts.delivery_id = deliveries.id
        AND attempts.number BETWEEN range.first AND range.last
      ORDER BY range.at, attempts.number`,
  );
  const anyBefore = db.prepare('SELECT 1 FROM deliveries WHERE id < :beforeId LIMIT 1');
  return {
    ...backlogReads(db),
    hasBefore: async (beforeMs) => (await anyBefore.get({ beforeId: lowestIdAt('delivery', beforeMs) })) !== undefined,
    find: async (accountId, id) => ifFound(await find.get({ accountId, id }), toDeliveryOfWebhook),
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toDeliveryOfWebhook)),
    page: async (accountId, webhookId, { limit, offset, after = aboveAllIds }) =>
      sliceOf(
        await page.all({ accountId, webhookId, before: after, limit: limit + 1, offset }),
        limit,
        toDeliveryOfWebhook,
      ),
    count: async (accountId, webhookId) => (await count.get({ accountId, webhookId, before: aboveAllIds }))?.count ?? 0,
    attempts: (accountId, asked, onRead) =>
      readRanges(accountId, asked, {
        rows: (some) =>
          attemptRanges.all({
            accountId,
            ids: arrayOf(some.map(({ deliveryId }) => deliveryId)),
            froms: arrayOf(some.map(({ from }) => from)),
            tos: arrayOf(some.map(({ to }) => to)),
          }),
        textsOf: ({ responseBody }) => [responseBody],
        toItem: toAttempt,
        onRead,
      }),
    failed: async (accountId, webhookId, range) =>
      (await failed.all({ ...range, accountId, webhookId })).map((row) => toDelivery(row, webhookId)),
  };
}

/** What the sender asks of all accounts: which webhooks have deliveries due, and how much is waiting. */
function backlogReads(db: Statements): Pick<DeliveryReads, 'due' | 'backlog'> {
  /** When the first pending delivery of a webhook is due, without those that are excluded. */
  const earliestDue = (isExcluded: string) =>
    `(SELECT deliveries.due_at FROM deliveries WHERE ${itsOwn} AND ${isPending} AND NOT ${isExcluded}
      ORDER BY deliveries.due_at LIMIT 1)`;
  const pending = `FROM webhooks JOIN deliveries ON ${itsOwn} WHERE ${ofEnabledWebhook} AND ${isPending}`;
  // The first that no one tries, and of each attempt under way when its delivery can be claimed again. A test of `due_at`
  // before the rows are grouped would look for each first one twice.
  const due = db.prepare<{ accountId: string; webhookId: string; dueAtMs: number }>(
    `SELECT account_id, webhook_id, min(due_at) AS due_at_ms FROM (
        SELECT account_id, id AS webhook_id, ${earliestDue(isTried)} AS due_at FROM webhooks WHERE ${ofEnabledWebhook}
        UNION ALL
        SELECT webhooks.account_id, webhooks.id,
            CASE WHEN ends_at - :nowMs::bigint > ${longestLeaseMs} THEN deliveries.due_at ELSE ends_at END
          FROM delivery_leases
          JOIN deliveries ON deliveries.account_id = delivery_leases.account_id AND deliveries.id = delivery_id
          JOIN webhooks ON ${itsOwn}
          WHERE ${ofEnabledWebhook} AND ${isPending}
      ) AS found GROUP BY account_id, webhook_id HAVING min(due_at) IS NOT NULL`,
  );
  const backlog = db.prepare<{ pending: number; due: number; firstDue: number | null }>(
    `SELECT (SELECT count(*) FROM (SELECT 1 ${pending} LIMIT :countedTo) AS counted) AS pending,
      (SELECT count(*) FROM (SELECT 1 ${pending} AND deliveries.due_at <= :nowMs::bigint AND NOT ${isHeld}
        LIMIT :countedTo) AS counted) AS due,
      (SELECT min(${earliestDue(isHeld)}) FROM webhooks WHERE ${ofEnabledWebhook}) AS first_due`,
  );
  return {
    due: (nowMs) => due.all({ nowMs }),
    backlog: async (nowMs, countedTo) => {
      const row = await backlog.get({ nowMs, countedTo });
      const firstDueMs = row?.firstDue ?? Number.POSITIVE_INFINITY;
      return {
        pending: row?.pending ?? 0,
        due: row?.due ?? 0,
        oldestDueAtMs: firstDueMs > nowMs ? undefined : firstDueMs,
      };
    },
  };
}

/** @param onDue called with a webhook that may have a delivery due; the transaction may still be rolled back */
export function deliveryWrites(db: Statements, onDue: (accountId: string, webhookId: string) => void): DeliveryWrites {
  // Null, which is refused, where there is no such webhook or delivery.
  const insert = db.prepareForRows<'accountId' | 'webhookId' | (typeof deliveryColumns)[number]>(
    insertRows('deliveries', ['accountId', ...deliveryColumns], {
      webhookId: '(SELECT id FROM webhooks WHERE account_id = given.account_id AND id = given.webhook_id)',
    }),
    {
      texts: ['accountId', 'webhookId', 'id', 'eventId', 'eventType', 'status', 'trigger', 'traceparent'],
      numbers: ['eventSequence', 'attemptCount', 'step', 'dueAt', 'createdAt', 'completedAt'],
      json: ['sample'],
    },
  );
  // Fails where a delivery is changed twice: of two rows for it, PostgreSQL would take any.
  const update = db.prepareForRows<'accountId' | 'id' | (typeof changingOfDelivery)[number]>(
    `WITH given AS MATERIALIZED (SELECT given.* FROM :rows),
        changed AS (UPDATE deliveries SET ${assignedRows(changingOfDelivery)} FROM given
          WHERE deliveries.account_id = given.account_id AND deliveries.id = given.id RETURNING 1)
      SELECT 1 / (count(*) = count(DISTINCT (account_id, id)))::integer FROM given`,
    {
      texts: ['accountId', 'id', 'status', 'trigger'],
      numbers: ['attemptCount', 'step', 'dueAt', 'completedAt'],
    },
  );
  const insertAttempt = db.prepareForRows<'deliveryId' | 'responseBody' | (typeof attemptColumns)[number]>(
    insertRows('attempts', ['deliveryId', 'responseBody', ...attemptColumns], {
      accountId: '(SELECT account_id FROM deliveries WHERE id = given.delivery_id)',
    }),
    {
      texts: ['deliveryId', 'id', 'trigger', 'error', 'responseBody'],
      numbers: ['number', 'startedAt', 'durationMs', 'responseStatus'],
    },
  );
  return {
    ...claims(db),
    ...pruning(db),
    insert: async (accountId, delivery) => {
      await insert.send({ ...toDeliveryRow(delivery), accountId });
      onDue(accountId, delivery.webhookId);
    },
    update: async (accountId, delivery) => {
      await update.send({ ...toDeliveryRow(delivery), accountId });
      if (delivery.status === 'pending') onDue(accountId, delivery.webhookId);
    },
    insertAttempt: async (deliveryId, number, attempt) => {
      await insertAttempt.send({ ...attempt, deliveryId, number, startedAt: toMs(attempt.startedAt) });
    },
  };
}

type KeyedRow = OwnRow & Pick<typeof deliveries.$inferSelect, 'accountId'>;

/** Taking deliveries for an attempt, and giving them back after it. */
function claims(db: Statements): Pick<DeliveryWrites, 'claim' | 'release'> {
  const selectWebhook = `SELECT webhooks.account_id, ${columnsOf('webhooks', webhookColumns)} FROM webhooks
    WHERE id = ANY(:ids::text[]) AND NOT removed`;
  const receiversOf = db.prepare<ReceiverRow>(selectWebhook);
  const lockedReceivers = db.prepare<ReceiverRow>(`${selectWebhook} ORDER BY id FOR UPDATE`);
  const wanted = `unnest(:webhookIds::text[], :limits::integer[]) WITH ORDINALITY AS wanted (webhook_id, most, at)
    JOIN webhooks ON webhooks.id = wanted.webhook_id AND ${ofEnabledWebhook}`;
  const free = `FROM deliveries WHERE ${itsOwn} AND ${isPending} AND NOT ${isHeld}`;
  // Those that another node is claiming at this moment are passed over.
  const firstFree = db.prepare<KeyedRow>(
    `SELECT ${columnsOf('deliveries', ['accountId', 'webhookId', ...deliveryColumns])} FROM ${wanted}
      CROSS JOIN LATERAL (SELECT deliveries.* ${free} AND deliveries.due_at <= :nowMs::bigint
        ORDER BY deliveries.due_at LIMIT wanted.most FOR UPDATE SKIP LOCKED) AS deliveries
      ORDER BY wanted.at, deliveries.due_at`,
  );
  // Another node may have claimed one since the statement above began.
  const putLeases = db.prepare<{ deliveryId: string }>(
    `INSERT INTO delivery_leases (account_id, delivery_id, lease, ends_at)
      SELECT account_id, id, :lease, :endsMs::bigint FROM unnest(:accountIds::text[], :ids::text[]) AS taken (account_id, id)
      ON CONFLICT (account_id, delivery_id) DO UPDATE SET lease = excluded.lease, ends_at = excluded.ends_at
        WHERE NOT (${holds}) RETURNING delivery_id`,
  );
  const nextDue = db.prepare<{ webhookId: string; dueAt: number | null }>(
    `SELECT wanted.webhook_id, (SELECT deliveries.due_at ${free} AND deliveries.id <> ALL(:ids::text[])
        ORDER BY deliveries.due_at LIMIT 1) AS due_at
      FROM ${wanted}`,
  );
  const eventsAt = db.prepare<EventRow & { accountId: string }>(
    `SELECT events.account_id, ${eventColumns} FROM events
      JOIN unnest(:accountIds::text[], :sequences::bigint[]) AS wanted (account_id, sequence)
        ON events.account_id = wanted.account_id AND events.sequence = wanted.sequence`,
  );
  const deliveriesByIds = db.prepare<KeyedRow>(
    `SELECT ${columnsOf('deliveries', ['accountId', 'webhookId', ...deliveryColumns])} FROM deliveries
      WHERE id = ANY(:ids::text[]) ORDER BY id FOR UPDATE`,
  );
  const endLeases = db.prepare<{ deliveryId: string }>(
    `DELETE FROM delivery_leases USING unnest(:accountIds::text[], :ids::text[]) AS ended (account_id, id)
      WHERE delivery_leases.account_id = ended.account_id AND delivery_id = ended.id AND lease = :lease
      RETURNING delivery_id`,
  );
  const keysOf = (rows: readonly KeyedRow[]) => ({
    accountIds: arrayOf(rows.map(({ accountId }) => accountId)),
    ids: arrayOf(rows.map(({ id }) => id)),
  });
  return {
    claim: async (asked, { id: lease, nowMs, endsMs }) => {
      const webhookIds = arrayOf(asked.map(({ webhookId }) => webhookId));
      const values = { webhookIds, limits: arrayOf(asked.map(({ limit }) => limit)), nowMs };
      const [webhooks, due] = await Promise.all([receiversOf.all({ ids: webhookIds }), firstFree.all(values)]);
      const keys = keysOf(due);
      const inLog = [...new Map(due.map((row) => [`${row.accountId} ${row.eventSequence}`, row])).values()].filter(
        ({ eventSequence }) => eventSequence !== null,
      );
      const [leased, next, events] = await Promise.all([
        due.length === 0 ? [] : putLeases.all({ ...keys, lease, endsMs, nowMs }),
        nextDue.all({ ...values, limits: arrayOf(asked.map(() => 0)), ids: keys.ids }),
        inLog.length === 0
          ? []
          : eventsAt.all({
              accountIds: arrayOf(inLog.map(({ accountId }) => accountId)),
              sequences: arrayOf(inLog.map(({ eventSequence }) => eventSequence)),
            }),
      ]);
      const isLeased = new Set(leased.map(({ deliveryId }) => deliveryId));
      const receivers = new Map(webhooks.map((row) => [row.id, row.enabled ? toReceiver(row) : undefined]));
      const nextDueAt = new Map(next.map(({ webhookId, dueAt }) => [webhookId, dueAt ?? undefined]));
      const eventAt = new Map(events.map((row) => [`${row.accountId} ${row.sequence}`, toEvent(row)]));
      return asked.map(({ webhookId }) => {
        const receiver = receivers.get(webhookId);
        if (receiver === undefined) return { claimed: [], nextDueAtMs: undefined };
        const claimed = due
          .filter((row) => row.webhookId === webhookId && isLeased.has(row.id))
          .map((row) => ({
            delivery: toDelivery(row, row.webhookId),
            ...receiver,
            event: eventAt.get(`${row.accountId} ${row.eventSequence}`) ?? null,
          }));
        return { claimed, nextDueAtMs: nextDueAt.get(webhookId) };
      });
    },
    release: async (lease, ids) => {
      const rows = await deliveriesByIds.all({ ids: arrayOf(ids) });
      const webhookIds = arrayOf([...new Set(rows.map(({ webhookId }) => webhookId))]);
      const [ended, webhooks] = await Promise.all([
        endLeases.all({ ...keysOf(rows), lease }),
        lockedReceivers.all({ ids: webhookIds }),
      ]);
      const wasHeld = new Set(ended.map(({ deliveryId }) => deliveryId));
      const receivers = new Map(webhooks.map((row) => [row.id, toReceiver(row)]));
      const found = new Map<string, ReleasedDelivery>();
      for (const row of rows) {
        const receiver = receivers.get(row.webhookId);
        if (receiver !== undefined && wasHeld.has(row.id)) {
          found.set(row.id, { delivery: toDelivery(row, row.webhookId), ...receiver });
        }
      }
      return ids.map((id) => found.get(id));
    },
  };
}

/** Deleting old deliveries, and what is left of webhooks that were removed. */
function pruning(db: Statements): Pick<DeliveryWrites, 'prune'> {
  const removeOldest = db.prepare<{ id: string }>(
    `DELETE FROM deliveries WHERE id = ANY(ARRAY(SELECT id FROM deliveries
      WHERE id >= :from AND id < :beforeId ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)) RETURNING id`,
  );
  /** Where the search for the oldest begins: until a vacuum, the index has all before it that was removed. */
  let from = '';
  const removedWebhook = db.prepare<{ accountId: string; id: string }>(
    'SELECT account_id, id FROM webhooks WHERE removed LIMIT 1 FOR UPDATE SKIP LOCKED',
  );
  const removeOfWebhook = db.prepare(deleteFirst('deliveries', 'account_id = :accountId AND webhook_id = :webhookId'));
  const removeWebhook = db.prepare(
    `DELETE FROM webhooks WHERE account_id = :accountId AND id = :webhookId AND NOT EXISTS
      (SELECT 1 FROM deliveries WHERE account_id = :accountId AND webhook_id = :webhookId)`,
  );
  /** Deletes deliveries of removed webhooks, and each of those webhooks after its last delivery: so many of both. */
  const removeOrphans = async (limit: number): Promise<number> => {
    let removed = 0;
    for (let count = 1; removed < limit && count > 0; removed += count) {
      const webhook = await removedWebhook.get();
      if (webhook === undefined) break;
      const key = { accountId: webhook.accountId, webhookId: webhook.id };
      count = (await removeOfWebhook.run({ ...key, limit: limit - removed })) || (await removeWebhook.run(key));
    }
    return removed;
  };
  return {
    prune: async (beforeMs, limit) => {
      const range = { beforeId: lowestIdAt('delivery', beforeMs), limit };
      let found = await removeOldest.all({ ...range, from });
      // What was removed before may be there again: its transaction may have been rolled back.
      if (found.length === 0 && from !== '') found = await removeOldest.all({ ...range, from: '' });
      from = found[0]?.id ?? '';
      const removed = found.length;
      return removed + (removed < limit ? await removeOrphans(limit - removed) : 0);
    },
  };
}
