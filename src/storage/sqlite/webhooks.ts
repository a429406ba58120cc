import type { WebhookReads, WebhookWrites } from '../../domain/storage-port.ts';
import type { StoredWebhook } from '../../domain/webhook-record.ts';
import { aboveAllIds, sliceOf } from '../lists.ts';
import { alignToIds, fromJson, ifFound } from '../rows/values.ts';
import { changingOfWebhook, toWebhook, toWebhookRow, type WebhookRow, webhookColumns } from '../rows/webhooks.ts';
import { assignments, insertInto } from '../sql.ts';
import { columnsOf, jsonList, type Statements } from './statements.ts';

/** What is bound: SQLite has no truth values. */
const toRow = (webhook: StoredWebhook) => ({ ...toWebhookRow(webhook), enabled: Number(webhook.enabled) });

// The condition of a partial index has to appear word for word in a statement that is to use it.

/** Whether a webhook has not been removed. */
export const isPresent = 'webhooks.removed = 0';
const ofAccount = `account_id = :accountId AND ${isPresent}`;

export function webhookReads(db: Statements): WebhookReads {
  const select = `SELECT ${columnsOf('webhooks', webhookColumns)} FROM webhooks WHERE ${ofAccount}`;
  const find = db.prepare<WebhookRow>(`${select} AND id = :id`);
  const findMany = db.prepare<WebhookRow>(`${select} AND id IN (SELECT value FROM json_each(:ids))`);
  const page = db.prepare<WebhookRow>(`${select} AND id < :before ORDER BY id DESC LIMIT :limit OFFSET :offset`);
  const count = db.prepare<{ count: number }>(`SELECT count(*) AS count FROM webhooks WHERE ${ofAccount}`);
  const enabled = db.prepare<Pick<WebhookRow, 'id' | 'events'>>(
    `SELECT id, events FROM webhooks WHERE ${ofAccount} AND enabled = 1`,
  );
  return {
    find: (accountId, id) => ifFound(find.get({ accountId, id }), toWebhook),
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toWebhook)),
    page: (accountId, { limit, offset, after = aboveAllIds }) =>
      sliceOf(page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toWebhook),
    count: (accountId) => count.get({ accountId })?.count ?? 0,
    enabled: (accountId) => enabled.all({ accountId }).map(({ id, events }) => ({ id, events: fromJson(events) })),
  };
}

/** @param onDue called with a webhook that may have a delivery due; the transaction may still be rolled back */
export function webhookWrites(db: Statements, onDue: (accountId: string, webhookId: string) => void): WebhookWrites {
  const insert = db.prepare(insertInto('webhooks', ['accountId', ...webhookColumns]));
  const update = db.prepare(`UPDATE webhooks SET ${assignments(changingOfWebhook)} WHERE ${ofAccount} AND id = :id`);
  const remove = db.prepare(`UPDATE webhooks SET removed = 1 WHERE ${ofAccount} AND id = :id`);
  return {
    insert: (accountId, webhook) => {
      insert.run({ ...toRow(webhook), accountId });
    },
    update: (accountId, webhook) => {
      update.run({ ...toRow(webhook), accountId });
      if (webhook.enabled) onDue(accountId, webhook.id);
    },
    remove: (accountId, id) => {
      remove.run({ accountId, id });
    },
  };
}
