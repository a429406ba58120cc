import type { WebhookReads, WebhookWrites } from '../../domain/storage-port.ts';
import { aboveAllIds, sliceOf } from '../lists.ts';
import { alignToIds, fromJson, ifFound } from '../rows/values.ts';
import { changingOfWebhook, toWebhook, toWebhookRow, type WebhookRow, webhookColumns } from '../rows/webhooks.ts';
import { assignments, insertInto } from '../sql.ts';
import { knownAccount } from './accounts.ts';
import { arrayOf, columnsOf, type Statements } from './statements.ts';

const ofAccount = 'account_id = :accountId AND NOT removed';

/**
 * @param locks whether a webhook that is found stays as it is until the transaction ends: the ends of attempts, which
 * change webhooks, do not lock the account
 */
export function webhookReads(db: Statements, { locks = false } = {}): WebhookReads {
  const select = `SELECT ${columnsOf('webhooks', webhookColumns)} FROM webhooks WHERE ${ofAccount}`;
  const find = db.prepare<WebhookRow>(`${select} AND id = :id${locks ? ' FOR UPDATE' : ''}`);
  const findMany = db.prepare<WebhookRow>(`${select} AND id = ANY(:ids::text[])`);
  const page = db.prepare<WebhookRow>(`${select} AND id < :before ORDER BY id DESC LIMIT :limit OFFSET :offset`);
  const count = db.prepare<{ count: number }>(`SELECT count(*) AS count FROM webhooks WHERE ${ofAccount}`);
  const enabled = db.prepareForKeys<Pick<WebhookRow, 'id' | 'events'>, 'accountId'>(
    'SELECT at, id, events FROM :rows JOIN webhooks USING (account_id) WHERE NOT removed AND enabled ORDER BY at, id',
    { texts: ['accountId'] },
  );
  return {
    find: async (accountId, id) => ifFound(await find.get({ accountId, id }), toWebhook),
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toWebhook)),
    page: async (accountId, { limit, offset, after = aboveAllIds }) =>
      sliceOf(await page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toWebhook),
    count: async (accountId) => (await count.get({ accountId }))?.count ?? 0,
    enabled: async (accountId) =>
      (await enabled.all({ accountId })).map(({ id, events }) => ({ id, events: fromJson(events) })),
  };
}

/** @param onDue called with a webhook that may have a delivery due; the transaction may still be rolled back */
export function webhookWrites(db: Statements, onDue: (accountId: string, webhookId: string) => void): WebhookWrites {
  const insert = db.prepare(insertInto('webhooks', webhookColumns, { accountId: knownAccount }));
  const update = db.prepare(`UPDATE webhooks SET ${assignments(changingOfWebhook)} WHERE ${ofAccount} AND id = :id`);
  const remove = db.prepare(`UPDATE webhooks SET removed = true WHERE ${ofAccount} AND id = :id`);
  return {
    insert: async (accountId, webhook) => {
      await insert.send({ ...toWebhookRow(webhook), accountId });
    },
    update: async (accountId, webhook) => {
      await update.send({ ...toWebhookRow(webhook), accountId });
      if (webhook.enabled) onDue(accountId, webhook.id);
    },
    remove: async (accountId, id) => {
      await remove.send({ accountId, id });
    },
  };
}
