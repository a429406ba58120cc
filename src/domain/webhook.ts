import { notFound } from './errors.ts';
import type { EventType } from './events.ts';
import type { Reads } from './ports.ts';
import type { Timestamp } from './time.ts';

/** Why nothing is sent: its owner asked for it, its receiver answered 410, or nothing succeeded for five days. */
export const disabledReasons = ['requested', 'gone', 'failing'] as const;
export type DisabledReason = (typeof disabledReasons)[number];

/** An address that events are sent to. */
export interface Webhook {
  readonly id: string;
  readonly url: string;
  /** The types that it wants. */
  readonly events: readonly EventType[];
  readonly description: string | null;
  readonly enabled: boolean;
  /** Why it is not enabled; null while it is. */
  readonly disabledReason: DisabledReason | null;
  readonly createdAt: Timestamp;
  readonly updatedAt: Timestamp;
}

/** A webhook at the moments at which its secret can be shown; null when the request was one of before. */
export interface WebhookWithSecret extends Webhook {
  readonly secret: string | null;
}

export interface SigningSecret {
  /** `whsec_` and the key in base64, as Standard Webhooks has it. */
  readonly secret: string;
  /** When it stops signing, because a newer one has taken its place; null for the newest. */
  readonly until: Timestamp | null;
}

/** A webhook with what its deliveries need to know of it and nobody is shown. */
export interface StoredWebhook extends Webhook {
  /** Those that sign: the newest first, then those that it replaced. */
  readonly secrets: readonly SigningSecret[];
  /** The first attempt that failed since the last one that succeeded. */
  readonly failingSince: Timestamp | null;
}

export function webhookView(stored: StoredWebhook): Webhook {
  const { id, url, events, description, enabled, disabledReason, createdAt, updatedAt } = stored;
  return { id, url, events, description, enabled, disabledReason, createdAt, updatedAt };
}

/** The secrets that sign at a time. */
export function signingSecrets(secrets: readonly SigningSecret[], nowMs: number): readonly SigningSecret[] {
  return secrets.filter(({ until }) => until === null || Date.parse(until) > nowMs);
}

/** A webhook switched off or on. Switched on, it begins anew: its failures of before count no more. */
export function withEnabled(webhook: StoredWebhook, reason: DisabledReason | null): StoredWebhook {
  if (webhook.disabledReason === reason) return webhook;
  return { ...webhook, enabled: reason === null, disabledReason: reason, failingSince: null };
}

/** @throws NOT_FOUND */
export async function findWebhook(
  reads: Pick<Reads, 'webhooks'>,
  accountId: string,
  id: string,
): Promise<StoredWebhook> {
  const webhook = await reads.webhooks.find(accountId, id);
  if (webhook === undefined) throw notFound('webhook');
  return webhook;
}
