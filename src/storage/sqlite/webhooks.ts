import { and, count, desc, eq, lt, sql } from 'drizzle-orm';
import type { WebhookReads, WebhookWrites } from '../../domain/storage-port.ts';
import type { StoredWebhook } from '../../domain/webhook-record.ts';
import { firstId } from './index-spans.ts';
import { bindings, inList, jsonList, type Queries } from './queries.ts';
import { alignToIds, sliceOf, toMs, toTimestamp } from './rows.ts';
import { webhooks } from './tables.ts';

type Row = typeof webhooks.$inferSelect;

export function toWebhook(row: Row): StoredWebhook {
  return {
    id: row.id,
    url: row.url,
    events: row.events,
    description: row.description,
    enabled: row.enabled,
    disabledReason: row.disabledReason,
    createdAt: toTimestamp(row.createdAt),
    updatedAt: toTimestamp(row.updatedAt),
    secrets: row.secrets,
    failingSince: toTimestamp(row.failingSince),
  };
}

// The condition of a partial index has to appear word for word in a statement that is to use it.
const ofAccount = and(eq(webhooks.accountId, sql.placeholder('accountId')), sql`${webhooks.removed} = 0`);

export function webhookReads(db: Queries): WebhookReads {
  const find = db
    .select()
    .from(webhooks)
    .where(and(ofAccount, eq(webhooks.id, sql.placeholder('id'))))
    .prepare();
  const findMany = db
    .select()
    .from(webhooks)
    .where(and(ofAccount, inList(webhooks.id, 'ids')))
    .prepare();
  const page = db
    .select()
    .from(webhooks)
    .where(and(ofAccount, lt(webhooks.id, sql.placeholder('before'))))
    .orderBy(desc(webhooks.id))
    .limit(sql.placeholder('limit'))
    .offset(sql.placeholder('offset'))
    .prepare();
  const countAll = db.select({ count: count() }).from(webhooks).where(ofAccount).prepare();
  const enabled = db
    .select({ id: webhooks.id, events: webhooks.events })
    .from(webhooks)
    .where(and(ofAccount, eq(webhooks.enabled, true)))
    .prepare();
  return {
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toWebhook(row);
    },
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toWebhook)),
    page: (accountId, { limit, offset, after }) =>
      sliceOf(page.all({ accountId, before: after ?? firstId, limit: limit + 1, offset }), limit, toWebhook),
    count: (accountId) => countAll.get({ accountId })?.count ?? 0,
    enabled: (accountId) => enabled.all({ accountId }),
  };
}

/** The values of the columns that can change after creation. */
function changing(webhook: StoredWebhook) {
  return {
    url: webhook.url,
    events: JSON.stringify(webhook.events),
    description: webhook.description,
    enabled: Number(webhook.enabled),
    disabledReason: webhook.disabledReason,
    secrets: JSON.stringify(webhook.secrets),
    failingSince: toMs(webhook.failingSince),
    updatedAt: toMs(webhook.updatedAt),
  };
}

const bound = bindings(
  'url',
  'events',
  'description',
  'enabled',
  'disabledReason',
  'secrets',
  'failingSince',
  'updatedAt',
);

/** @param onDue called with a webhook that may have a delivery due; the transaction may still be rolled back */
export function webhookWrites(db: Queries, onDue: (webhookId: string) => void): WebhookWrites {
  const insert = db
    .insert(webhooks)
    .values({
      id: sql.placeholder('id'),
      accountId: sql.placeholder('accountId'),
      createdAt: sql.placeholder('createdAt'),
      ...bound,
    })
    .prepare();
  const update = db
    .update(webhooks)
    .set(bound)
    .where(and(ofAccount, eq(webhooks.id, sql.placeholder('id'))))
    .prepare();
  const remove = db
    .update(webhooks)
    .set({ removed: true })
    .where(and(ofAccount, eq(webhooks.id, sql.placeholder('id'))))
    .prepare();
  return {
    insert: (accountId, webhook) => {
      insert.run({ ...changing(webhook), id: webhook.id, accountId, createdAt: toMs(webhook.createdAt) });
    },
    update: (accountId, webhook) => {
      update.run({ ...changing(webhook), id: webhook.id, accountId });
      if (webhook.enabled) onDue(webhook.id);
    },
    remove: (accountId, id) => {
      remove.run({ accountId, id });
    },
  };
}
