import {
  attemptPageInput,
  type ChangedDelivery,
  getDelivery,
  listDeliveries,
  recoverWebhook,
  redeliver,
  testWebhook,
} from '../domain/deliveries.ts';
import {
  type Attempt as AttemptShape,
  attemptShape,
  type Delivery as DeliveryShape,
  deliveryShape,
} from '../domain/delivery-record.ts';
import { descriptionOf } from '../domain/descriptions.ts';
import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import { parseInput } from '../domain/operation.ts';
import { decodeCursor, encodeCursor, newestFirstCursor } from '../domain/paging.ts';
import { addMutation, builder, calls, fieldsOf, payloadType, type ResultOf, type SchemaTypes } from './builder.ts';
import { type Connection, connectionOf, connectionType, edgeField, listInput, pageArgs } from './connection.ts';
import type { OperationContext } from './context.ts';
import { EventTypeEnum } from './events.ts';
import { Node } from './node.ts';
import { Webhook } from './webhooks.ts';

const DeliveryStatus = builder.enumType('DeliveryStatus', {
  description: 'The status of a delivery.',
  values: {
    PENDING: { value: 'pending', description: 'Being attempted, or waiting for the next attempt.' },
    SUCCEEDED: { value: 'succeeded', description: 'The receiver answered with a 2xx status.' },
    FAILED: {
      value: 'failed',
      description: 'Finally failed; `redeliver` and `recoverWebhook` repeat it.',
    },
    PAUSED: {
      value: 'paused',
      description: 'Its webhook is disabled; it continues when the webhook is enabled again.',
    },
  } as const,
});

const AttemptTrigger = builder.enumType('AttemptTrigger', {
  description: 'What triggered an attempt.',
  values: {
    SCHEDULE: { value: 'schedule', description: 'The event itself, or the retry schedule after a failure.' },
    MANUAL: { value: 'manual', description: 'A request of the client, such as `redeliver`.' },
  } as const,
});

const Attempt = builder.objectRef<AttemptShape>('Attempt').implement({
  description: descriptionOf(attemptShape),
  fields: (t) =>
    fieldsOf(t, attemptShape, {
      id: 'ID',
      startedAt: 'DateTime',
      durationMs: 'Int',
      trigger: AttemptTrigger,
      responseStatus: 'Int',
      responseBody: 'String',
      error: 'String',
    }),
});

const { Connection: AttemptConnection } = connectionType('Attempt', Attempt);

const Delivery = builder.objectRef<DeliveryShape>('Delivery').implement({
  description: descriptionOf(deliveryShape),
  interfaces: [Node],
  fields: (t) => ({
    ...fieldsOf(t, deliveryShape, {
      webhookId: 'ID',
      eventId: 'ID',
      eventType: EventTypeEnum,
      test: 'Boolean',
      attemptCount: 'Int',
      nextAttemptAt: 'DateTime',
      createdAt: 'DateTime',
      completedAt: 'DateTime',
    }),
    status: t.expose('status', { type: DeliveryStatus, description: 'The status of the delivery.' }),
    webhook: t.field({
      type: Webhook,
      nullable: true,
      description: 'The webhook that the event is sent to.',
      resolve: async ({ webhookId }, _, { loaders }) => (await loaders.webhook.load(webhookId)) ?? null,
    }),
    attempts: t.field({
      type: AttemptConnection,
      nullable: true,
      description: 'The attempts, oldest first.',
      args: {
        first: pageArgs.first,
        after: t.arg.string({ description: 'Continue after this cursor.' }),
      },
      resolve: (delivery, args, context) => attemptsOf(delivery, args, context),
    }),
  }),
});

/** Attempts are numbered without gaps, so a page is a range, and the pages of many deliveries are one statement. */
async function attemptsOf(
  { id, attemptCount: count }: DeliveryShape,
  args: { first?: number | null | undefined; after?: string | null | undefined },
  { loaders }: OperationContext,
): Promise<Connection<AttemptShape>> {
  const { limit, after } = parseInput(attemptPageInput, listInput(args));
  const from = (after === undefined ? 0 : Number(decodeCursor(after, 'attempt', ['number'])[0])) + 1;
  const to = Math.min(count, from + limit - 1);
  const nodes = from > to ? [] : await loaders.attemptRange.load({ deliveryId: id, from, to });
  return {
    nodes,
    cursorOf: (attempt) => encodeCursor('attempt', [from + nodes.indexOf(attempt)]),
    hasNextPage: to < count && from <= to,
    hasPreviousPage: () => from > 1 && count > 0,
    total: () => count,
  };
}

const { Connection: DeliveryConnection, Edge: DeliveryEdge } = connectionType('Delivery', Delivery);

builder.objectField(Webhook, 'deliveries', (t) =>
  t.field({
    type: DeliveryConnection,
    nullable: true,
    extensions: calls(listDeliveries),
    description: 'The deliveries to the webhook, newest first.',
    args: pageArgs,
    resolve: ({ id }, args, context, info) =>
      connectionOf(context, listDeliveries, info, { ...listInput(args), webhookId: id }),
  }),
);

builder.queryField('delivery', (t) =>
  t.field({
    type: Delivery,
    nullable: true,
    extensions: calls(getDelivery),
    description: 'Returns a delivery; null with `NOT_FOUND` if there is none with this id.',
    args: { id: t.arg.id({ required: true, description: 'The id of the delivery.' }) },
    resolve: (_, { id }, context) => context.call(getDelivery, { id }),
  }),
);

const TestWebhookInput = builder.inputType('TestWebhookInput', {
  description: 'The webhook to test, and the event to test it with.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The id of the webhook.' }),
    eventType: t.field({
      type: EventTypeEnum,
      description: 'The type of the sample event. Defaults to the first type that the webhook receives.',
    }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const RedeliverInput = builder.inputType('RedeliverInput', {
  description: 'The delivery to repeat.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The id of the delivery.' }),
    webhookId: t.id({ description: 'The id of its webhook; with any other, the error is `NOT_FOUND`.' }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const RecoverWebhookInput = builder.inputType('RecoverWebhookInput', {
  description: 'The failed deliveries to repeat.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The id of the webhook.' }),
    since: t.string({
      required: true,
      description:
        'An RFC 3339 time: deliveries that have finally failed since then are repeated, whenever their event happened. Or a cursor of the event log: failed deliveries of the events after it are repeated.',
    }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const deliveryField = (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, ChangedDelivery>) => ({
  delivery: t.expose('delivery', {
    type: Delivery,
    description: 'The delivery, which is attempted as soon as possible.',
  }),
});

const TestWebhookPayload = payloadType<ChangedDelivery>('testWebhook', (t) => ({
  ...deliveryField(t),
  deliveryEdge: edgeField(t, DeliveryEdge, 'Webhook.deliveries', ({ delivery }) => ({
    node: delivery,
    cursor: newestFirstCursor(delivery),
  })),
}));
const RedeliverPayload = payloadType<ChangedDelivery>('redeliver', deliveryField);

const RecoverWebhookPayload = payloadType<ResultOf<typeof recoverWebhook>>('recoverWebhook', (t) => ({
  count: t.exposeInt('count', { description: 'Number of deliveries being repeated.' }),
}));

addMutation(testWebhook, TestWebhookPayload, TestWebhookInput, 'The webhook and the event.');
addMutation(redeliver, RedeliverPayload, RedeliverInput, 'The delivery.');
addMutation(recoverWebhook, RecoverWebhookPayload, RecoverWebhookInput, 'The deliveries.');
