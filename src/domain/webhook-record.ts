import * as z from 'zod';
import { notFound } from './errors.ts';
import { eventTypes } from './event-types.ts';
import { idShape } from './ids.ts';
import { nullableText, textShape } from './shapes.ts';
import type { Reads } from './storage-port.ts';
import { type Timestamp, timeShape } from './time.ts';

/** Why a webhook is disabled: by request, its receiver answered 410, or nothing succeeded for five days. */
const disabledReasons = ['requested', 'gone', 'failing'] as const;
export type DisabledReason = (typeof disabledReasons)[number];

export const webhookShape = z
  .object({
    id: idShape('webhook').describe('Its id.'),
    url: textShape('The URL events are sent to.', 'https://example.com/hooks'),
    events: z.array(z.enum(eventTypes)).readonly().describe('The event types that are sent.'),
    description: nullableText('What it is for.', 'notifies the shop'),
    enabled: z
      .boolean()
      .describe('Whether events are sent; while false, its deliveries are paused.')
      .meta({ examples: [true] }),
    disabledReason: z
      .enum(disabledReasons)
      .nullable()
      .describe('Why it is disabled; null while it is enabled.')
      .meta({ examples: [null] }),
    createdAt: timeShape.describe('When it was created.'),
    updatedAt: timeShape.describe('When it last changed.'),
  })
  .meta({ id: 'Webhook', description: 'An endpoint that events are sent to.' });

export type Webhook = Readonly<z.output<typeof webhookShape>>;

export const webhookWithSecretShape = webhookShape
  .extend({
    secret: nullableText(
      'The secret that signs its deliveries, in the form of Standard Webhooks. Null in a replayed response.',
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    ),
  })
  .meta({
    id: 'WebhookWithSecret',
    description: 'A webhook with its secret, which is shown only at creation and rotation.',
  });

export type WebhookWithSecret = Readonly<z.output<typeof webhookWithSecretShape>>;

export interface SigningSecret {
  /** `whsec_` and the key in base64, as in Standard Webhooks. */
  readonly secret: string;
  /** When it stops signing after its replacement; null for the newest. */
  readonly until: Timestamp | null;
}

/** A webhook with the internal fields that its deliveries need. */
export interface StoredWebhook extends Webhook {
  /** The newest first, then those it replaced. */
  readonly secrets: readonly SigningSecret[];
  /** Time of the first failed attempt since the last success. */
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

/** The webhook disabled for a reason, or enabled with null. Its earlier failures then no longer count. */
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
