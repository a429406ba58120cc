import * as z from 'zod';
import { refuseEnded } from './api-keys.ts';
import { choices } from './choices.ts';
import { DomainError, type Fault } from './errors.ts';
import { currentEventCursor } from './event-cursor.ts';
import { defaultEventTypes, type EventType, eventTypes } from './event-types.ts';
import { idInput } from './ids.ts';
import { type Context, operation } from './operation.ts';
import { type List, newestFirst, newestFirstInput } from './paging.ts';
import type { Ports } from './ports.ts';
import { line, refusing } from './text.ts';
import { timestamp } from './time.ts';
import {
  findWebhook,
  type SigningSecret,
  type StoredWebhook,
  signingSecrets,
  type Webhook,
  type WebhookWithSecret,
  webhookView,
  withEnabled,
} from './webhook-record.ts';

const maxWebhooks = 20;
/** How long a secret still signs after it was replaced. */
const rotationMs = 24 * 3_600_000;
/** Each signing secret lengthens the signature header of every delivery. */
const maxSecrets = 10;

const urlInput = line(2_048)
  .check(refusing(urlFault))
  .describe('The URL to send events to: `https`, and reachable from the internet.')
  .meta({ examples: ['https://example.com/hooks'] });
const eventsInput = choices(eventTypes).describe('The event types to send.');
const descriptionInput = line(200).nullable().describe('What it is for.');

/** Removes duplicates, and sorts in the documented order. */
function inOrder(types: readonly EventType[]): readonly EventType[] {
  return eventTypes.filter((type) => types.includes(type));
}

/** What is wrong with the form of a URL, or undefined. Whether its target is allowed is for `WebhookTargets`. */
function urlFault(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || /\s/.test(text)) {
    return 'must be an absolute address such as https://example.com/hooks';
  }
  if (url.username !== '' || url.password !== '') return 'must not hold a user name or a password';
  if (url.hash !== '') return 'must not have a fragment';
  return undefined;
}

/** Whether events may be sent to the URL, if its form is right. */
function targetFaults({ webhookTargets }: Ports, { url }: { readonly url?: unknown }): readonly Fault[] {
  const { success, data } = urlInput.safeParse(url);
  const detail = success ? webhookTargets.faultOf(new URL(data)) : undefined;
  return detail === undefined ? [] : [{ path: ['url'], detail }];
}

export interface ChangedWebhook<W = Webhook> {
  readonly webhook: W;
  /** The end of the event log at that time. */
  readonly eventCursor: string;
}

export const createWebhook = operation({
  name: 'createWebhook',
  summary: 'Registers a URL to send events to, and returns the signing secret, which is shown only once.',
  scope: 'webhooks:manage',
  input: z.strictObject({
    url: urlInput,
    events: eventsInput
      .nullish()
      .describe(`The event types to send; by default ${defaultEventTypes.map((type) => `\`${type}\``).join(', ')}.`),
    description: descriptionInput.default(null),
  }),
  errors: ['QUOTA_EXCEEDED'],
  faults: targetFaults,
  repeatable: {
    kept: ({ webhook, eventCursor }: ChangedWebhook<WebhookWithSecret>) => ({
      webhook: { ...webhook, secret: null },
      eventCursor,
    }),
  },
  async run(context, input): Promise<ChangedWebhook<WebhookWithSecret>> {
    const { caller, ids, secrets, now } = context;
    const accountId = caller.account.id;
    const at = timestamp(now);
    const secret = secrets.generateSigningSecret();
    const webhook: StoredWebhook = {
      id: ids.next('webhook', now),
      url: input.url,
      events: inOrder(input.events ?? defaultEventTypes),
      description: input.description,
      enabled: true,
      disabledReason: null,
      createdAt: at,
      updatedAt: at,
      secrets: [{ secret, until: null }],
      failingSince: null,
    };
    return await context.once(async (tx) => {
      await refuseEnded(tx, context);
      if ((await tx.webhooks.count(accountId)) >= maxWebhooks) {
        throw new DomainError(
          'QUOTA_EXCEEDED',
          `An account can have ${maxWebhooks} webhooks; delete one that is not used.`,
        );
      }
      await tx.webhooks.insert(accountId, webhook);
      return {
        webhook: { ...webhookView(webhook), secret },
        eventCursor: await currentEventCursor(tx, accountId),
      };
    });
  },
});

export const listWebhooks = operation({
  name: 'listWebhooks',
  summary: 'Lists the account’s webhooks, newest first.',
  scope: 'webhooks:manage',
  input: newestFirstInput('webhook'),
  errors: [],
  async run({ caller, storage }, input): Promise<List<Webhook>> {
    const list = await newestFirst('webhook', storage.read.webhooks, caller.account.id, input);
    return { ...list, items: list.items.map(webhookView) };
  },
});

export const getWebhook = operation({
  name: 'getWebhook',
  summary: 'Returns a webhook, without its secret.',
  scope: 'webhooks:manage',
  input: z.strictObject({ id: idInput('webhook').describe('The webhook’s id.') }),
  errors: ['NOT_FOUND'],
  run: async ({ caller, storage }, { id }): Promise<Webhook> =>
    webhookView(await findWebhook(storage.read, caller.account.id, id)),
});

/**
 * Like getWebhook for many ids at once; undefined for each unknown id.
 * @throws FORBIDDEN
 */
export async function webhooksById(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ids: readonly string[],
): Promise<readonly (Webhook | undefined)[]> {
  getWebhook.authorise(caller);
  const found = await storage.read.webhooks.findMany(caller.account.id, ids);
  return found.map((webhook) => webhook && webhookView(webhook));
}

export const updateWebhook = operation({
  name: 'updateWebhook',
  summary: 'Updates a webhook. Disabling it pauses its deliveries; enabling it resumes them.',
  scope: 'webhooks:manage',
  input: z.strictObject({
    id: idInput('webhook').describe('The webhook’s id.'),
    url: urlInput.optional(),
    events: eventsInput.optional(),
    description: descriptionInput.optional(),
    enabled: z
      .boolean({ error: 'must be a boolean' })
      .optional()
      .describe('Whether events are sent. While it is disabled, no deliveries are created for new events.'),
  }),
  errors: ['NOT_FOUND'],
  faults: targetFaults,
  async run(context, { id, ...changes }): Promise<ChangedWebhook> {
    const { caller, storage } = context;
    const accountId = caller.account.id;
    return await storage.write(async (tx) => {
      const previous = await findWebhook(tx, accountId, id);
      const next = applyChanges(previous, changes, context.now);
      if (next !== previous) await tx.webhooks.update(accountId, next);
      return { webhook: webhookView(next), eventCursor: await currentEventCursor(tx, accountId) };
    });
  },
});

type Changes = Omit<ReturnType<(typeof updateWebhook)['parse']>, 'id'>;

/** The webhook after the changes; the same object if they change nothing. */
function applyChanges(previous: StoredWebhook, changes: Changes, now: number): StoredWebhook {
  const url = changes.url ?? previous.url;
  const changed: StoredWebhook = {
    ...previous,
    url,
    failingSince: url === previous.url ? previous.failingSince : null, // a new receiver starts without failures
    events: changes.events === undefined ? previous.events : inOrder(changes.events),
    description: changes.description === undefined ? previous.description : changes.description,
  };
  // Disabling a webhook that was disabled for its failures keeps that reason, which is more informative.
  const switched = changes.enabled !== undefined && changes.enabled !== previous.enabled;
  const next = switched ? withEnabled(changed, changes.enabled ? null : 'requested') : changed;
  if (JSON.stringify(next) === JSON.stringify(previous)) return previous;
  return { ...next, updatedAt: timestamp(now) };
}

export const deleteWebhook = operation({
  name: 'deleteWebhook',
  summary: 'Deletes a webhook and its deliveries. Nothing more is sent to it.',
  scope: 'webhooks:manage',
  input: z.strictObject({ id: idInput('webhook').describe('The webhook’s id.') }),
  errors: ['NOT_FOUND'],
  async run({ caller, storage }, { id }) {
    const accountId = caller.account.id;
    return await storage.write(async (tx) => {
      await findWebhook(tx, accountId, id);
      await tx.webhooks.remove(accountId, id);
      return { deletedWebhookId: id, eventCursor: await currentEventCursor(tx, accountId) };
    });
  },
});

export const rotateWebhookSecret = operation({
  name: 'rotateWebhookSecret',
  summary:
    'Replaces a webhook’s secret and returns the new one, which is shown only once. The old one also signs for 24 more hours.',
  scope: 'webhooks:manage',
  input: z.strictObject({ id: idInput('webhook').describe('The webhook’s id.') }),
  errors: ['NOT_FOUND', 'QUOTA_EXCEEDED'],
  async run(context, { id }): Promise<ChangedWebhook<WebhookWithSecret>> {
    const { caller, storage, secrets, now } = context;
    const accountId = caller.account.id;
    const secret = secrets.generateSigningSecret();
    return await storage.write(async (tx) => {
      await refuseEnded(tx, context);
      const previous = await findWebhook(tx, accountId, id);
      const next: StoredWebhook = {
        ...previous,
        secrets: rotated(previous.secrets, secret, now),
        updatedAt: timestamp(now),
      };
      await tx.webhooks.update(accountId, next);
      return {
        webhook: { ...webhookView(next), secret },
        eventCursor: await currentEventCursor(tx, accountId),
      };
    });
  },
});

/** @throws QUOTA_EXCEEDED rather than dropping a secret that was promised to sign for 24 hours */
function rotated(previous: readonly SigningSecret[], secret: string, now: number): readonly SigningSecret[] {
  const replaced = signingSecrets(previous, now).map((one) =>
    one.until === null ? { ...one, until: timestamp(now + rotationMs) } : one,
  );
  if (replaced.length >= maxSecrets) {
    throw new DomainError('QUOTA_EXCEEDED', `A webhook's secret can be rotated ${maxSecrets - 1} times in 24 hours.`);
  }
  return [{ secret, until: null }, ...replaced];
}
