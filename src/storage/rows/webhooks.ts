import type { ReleasedDelivery } from '../../domain/storage-port.ts';
import type { StoredWebhook } from '../../domain/webhook-record.ts';
import { fromJson, toJson, toMs, toTimestamp } from './values.ts';

/** The columns that can change after creation. */
export const changingOfWebhook = [
  'url',
  'events',
  'description',
  'enabled',
  'disabledReason',
  'updatedAt',
  'secrets',
  'failingSince',
] as const satisfies readonly (keyof StoredWebhook)[];

export const webhookColumns = ['id', 'createdAt', ...changingOfWebhook] as const;

/** As it is written; a storage without truth values has numbers in their place. */
type Written = ReturnType<typeof toWebhookRow>;
export type WebhookRow = Omit<Written, 'enabled'> & { readonly enabled: boolean | 0 | 1 };

export function toWebhook(row: WebhookRow): StoredWebhook {
  return {
    id: row.id,
    url: row.url,
    events: fromJson(row.events),
    description: row.description,
    enabled: Boolean(row.enabled),
    disabledReason: row.disabledReason,
    createdAt: toTimestamp(row.createdAt),
    updatedAt: toTimestamp(row.updatedAt),
    secrets: fromJson(row.secrets),
    failingSince: toTimestamp(row.failingSince),
  };
}

export function toWebhookRow(webhook: StoredWebhook) {
  return {
    ...webhook,
    events: toJson(webhook.events),
    secrets: toJson(webhook.secrets),
    failingSince: toMs(webhook.failingSince),
    createdAt: toMs(webhook.createdAt),
    updatedAt: toMs(webhook.updatedAt),
  };
}

/** The webhook of a delivery, and its account. */
export type Receiver = Pick<ReleasedDelivery, 'accountId' | 'webhook'>;

export interface ReceiverRow extends WebhookRow {
  readonly accountId: string;
}

export function toReceiver(row: ReceiverRow): Receiver {
  return { accountId: row.accountId, webhook: toWebhook(row) };
}
