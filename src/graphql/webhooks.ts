import { defaultEventTypes } from '../domain/event-types.ts';
import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import { newestFirstCursor } from '../domain/paging.ts';
import { type Webhook as WebhookShape, type WebhookWithSecret, webhookShape } from '../domain/webhook-record.ts';
import {
  type ChangedWebhook,
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from '../domain/webhooks.ts';
import {
  addMutation,
  answering,
  builder,
  calls,
  fieldsOf,
  payloadType,
  type ResultOf,
  type SchemaTypes,
} from './builder.ts';
import { connectionOf, connectionType, edgeField, listInput, pageArgs } from './connection.ts';
import { EventTypeEnum, inCapitals } from './events.ts';
import { Node } from './node.ts';

const WebhookDisabledReason = builder.enumType('WebhookDisabledReason', {
  description: 'Why a webhook is disabled.',
  values: {
    REQUESTED: { value: 'requested', description: 'The client disabled it.' },
    GONE: { value: 'gone', description: 'The receiver answered 410 Gone.' },
    FAILING: { value: 'failing', description: 'No attempt has succeeded for five days.' },
  } as const,
});

export const Webhook = builder.objectRef<WebhookShape | WebhookWithSecret>('Webhook').implement({
  description: 'A URL that events are sent to, signed according to Standard Webhooks.',
  interfaces: [Node],
  fields: (t) => ({
    ...fieldsOf(t, webhookShape, {
      url: 'String',
      events: [EventTypeEnum],
      description: 'String',
      enabled: 'Boolean',
      disabledReason: WebhookDisabledReason,
      createdAt: 'DateTime',
      updatedAt: 'DateTime',
    }),
    secret: t.string({
      nullable: true,
      description:
        'The secret that verifies deliveries: returned by `createWebhook` and `rotateWebhookSecret`, and null otherwise.',
      resolve: (webhook) => ('secret' in webhook ? webhook.secret : null),
    }),
  }),
});

const { Connection: WebhookConnection, Edge: WebhookEdge } = connectionType('Webhook', Webhook);

builder.queryFields((t) => ({
  webhooks: t.field({
    type: WebhookConnection,
    ...answering(listWebhooks),
    args: pageArgs,
    resolve: (_, args, context, info) => connectionOf(context, listWebhooks, info, listInput(args)),
  }),
  webhook: t.field({
    type: Webhook,
    nullable: true,
    description: 'Returns a webhook; null with `NOT_FOUND` if there is none with this id.',
    extensions: calls(getWebhook),
    args: { id: t.arg.id({ required: true, description: 'The id of the webhook.' }) },
    resolve: (_, { id }, context) => context.call(getWebhook, { id }),
  }),
}));

const CreateWebhookInput = builder.inputType('CreateWebhookInput', {
  description: 'A new webhook.',
  fields: (t) => ({
    url: t.string({
      required: true,
      description: 'The URL to send events to: `https`, reachable from the internet, and at most 2,048 characters.',
    }),
    events: t.field({
      type: [EventTypeEnum],
      description: `The event types to send; by default ${defaultEventTypes.map(inCapitals).join(', ')}.`,
    }),
    description: t.string({ description: 'What it is for: at most 200 characters.' }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const UpdateWebhookInput = builder.inputType('UpdateWebhookInput', {
  description: 'The fields to change; a field that is left out keeps its value.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The id of the webhook.' }),
    url: t.string({
      description:
        'The URL to send events to: `https`, reachable from the internet, and at most 2,048 characters. It cannot be null; leave it out to keep it.',
    }),
    events: t.field({
      type: [EventTypeEnum],
      description: 'The event types to send. It cannot be null; leave it out to keep them.',
    }),
    description: t.string({ description: 'What it is for: at most 200 characters, or null to remove it.' }),
    enabled: t.boolean({
      description:
        'Whether events are sent. While it is disabled, no deliveries are created for new events. It cannot be null; leave it out to keep it.',
    }),
  }),
});

const DeleteWebhookInput = builder.inputType('DeleteWebhookInput', {
  description: 'The webhook to delete.',
  fields: (t) => ({ id: t.id({ required: true, description: 'The id of the webhook.' }) }),
});

const RotateWebhookSecretInput = builder.inputType('RotateWebhookSecretInput', {
  description: 'The webhook that gets a new secret.',
  fields: (t) => ({ id: t.id({ required: true, description: 'The id of the webhook.' }) }),
});

type ShownWebhook = ChangedWebhook<WebhookShape | WebhookWithSecret>;

const webhookField = (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, ShownWebhook>) => ({
  webhook: t.expose('webhook', { type: Webhook, description: 'The webhook after the change.' }),
});

const CreateWebhookPayload = payloadType<ShownWebhook>('createWebhook', (t) => ({
  ...webhookField(t),
  webhookEdge: edgeField(t, WebhookEdge, 'webhooks', ({ webhook }) => ({
    node: webhook,
    cursor: newestFirstCursor(webhook),
  })),
}));
const UpdateWebhookPayload = payloadType('updateWebhook', webhookField);
const RotateWebhookSecretPayload = payloadType('rotateWebhookSecret', webhookField);

const DeleteWebhookPayload = payloadType<ResultOf<typeof deleteWebhook>>('deleteWebhook', (t) => ({
  deletedWebhookId: t.exposeID('deletedWebhookId', { description: 'The id of the deleted webhook.' }),
}));

addMutation(createWebhook, CreateWebhookPayload, CreateWebhookInput, 'The webhook to create.');
addMutation(updateWebhook, UpdateWebhookPayload, UpdateWebhookInput, 'The changes.');
addMutation(deleteWebhook, DeleteWebhookPayload, DeleteWebhookInput, 'The webhook.');
addMutation(rotateWebhookSecret, RotateWebhookSecretPayload, RotateWebhookSecretInput, 'The webhook.');
