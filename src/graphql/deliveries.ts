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
} from '../domain/delivery.ts';
import { descriptionsOf } from '../domain/descriptions.ts';
import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import { parseInput } from '../domain/operation.ts';
import { decodeCursor, encodeCursor } from '../domain/paging.ts';
import { builder, calls, type GraphQLContext, payloadType, type ResultOf } from './builder.ts';
import { type Connection, connectionType, forwards, listInput, pageArgs } from './connection.ts';
import { EventTypeEnum } from './events.ts';
import { Node } from './node.ts';
import { spendsText } from './values.ts';
import { Webhook } from './webhooks.ts';

const DeliveryStatus = builder.enumType('DeliveryStatus', {
  description: 'Where a delivery is.',
  values: {
    PENDING: { value: 'pending', description: 'It is being tried, or will be.' },
    SUCCEEDED: { value: 'succeeded', description: 'Its receiver answered 2xx.' },
    FAILED: {
      value: 'failed',
      description: 'All its attempts have failed; `redeliver` and `recoverWebhook` repeat it.',
    },
    PAUSED: { value: 'paused', description: 'Its webhook is disabled; it goes on when that is enabled again.' },
  } as const,
});

const AttemptTrigger = builder.enumType('AttemptTrigger', {
  description: 'What made an attempt.',
  values: {
    SCHEDULE: { value: 'schedule', description: 'The event, or the schedule after a failure.' },
    MANUAL: { value: 'manual', description: 'Somebody asked for it.' },
  } as const,
});

const attemptDescriptions = descriptionsOf(attemptShape);

const Attempt = builder.objectRef<AttemptShape>('Attempt').implement({
  description: 'One request to a webhook, and what became of it.',
  fields: (t) => ({
    id: t.exposeID('id', { description: attemptDescriptions.id }),
    startedAt: t.expose('startedAt', { type: 'DateTime', description: attemptDescriptions.startedAt }),
    durationMs: t.exposeInt('durationMs', { description: attemptDescriptions.durationMs }),
    trigger: t.expose('trigger', { type: AttemptTrigger, description: attemptDescriptions.trigger }),
    responseStatus: t.exposeInt('responseStatus', { nullable: true, description: attemptDescriptions.responseStatus }),
    responseBody: t.string({
      nullable: true,
      description: attemptDescriptions.responseBody,
      extensions: spendsText,
      resolve: ({ responseBody }, _, { budget }) => {
        budget.spend(responseBody?.length ?? 0);
        return responseBody;
      },
    }),
    error: t.exposeString('error', { nullable: true, description: attemptDescriptions.error }),
  }),
});

const AttemptConnection = connectionType('Attempt', Attempt);

const described = descriptionsOf(deliveryShape);

const Delivery = builder.objectRef<DeliveryShape>('Delivery').implement({
  description: 'One event on its way to one webhook.',
  interfaces: [Node],
  fields: (t) => ({
    webhookId: t.exposeID('webhookId', { description: described.webhookId }),
    eventId: t.exposeID('eventId', { description: described.eventId }),
    eventType: t.expose('eventType', { type: EventTypeEnum, description: described.eventType }),
    test: t.exposeBoolean('test', { description: described.test }),
    status: t.expose('status', { type: DeliveryStatus, description: described.status }),
    attemptCount: t.exposeInt('attemptCount', { description: described.attemptCount }),
    nextAttemptAt: t.expose('nextAttemptAt', {
      type: 'DateTime',
      nullable: true,
      description: described.nextAttemptAt,
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: described.createdAt }),
    completedAt: t.expose('completedAt', { type: 'DateTime', nullable: true, description: described.completedAt }),
    webhook: t.field({
      type: Webhook,
      nullable: true,
      description: 'The webhook that it is to.',
      resolve: async ({ webhookId }, _, { loaders }) => (await loaders.webhook.load(webhookId)) ?? null,
    }),
    attempts: t.field({
      type: AttemptConnection,
      nullable: true,
      description: 'Its attempts, oldest first.',
      args: {
        first: pageArgs.first,
        after: t.arg.string({ description: 'Continue after this cursor.' }),
      },
      resolve: (delivery, args, context) => attemptsOf(delivery, args, context),
    }),
  }),
});

/** Attempts are counted without gaps, so that a page is a range and those of many deliveries one statement. */
async function attemptsOf(
  { id, attemptCount: count }: DeliveryShape,
  args: { first?: number | null | undefined; after?: string | null | undefined },
  { loaders }: GraphQLContext,
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

const DeliveryConnection = connectionType('Delivery', Delivery);

builder.objectField(Webhook, 'deliveries', (t) =>
  t.field({
    type: DeliveryConnection,
    nullable: true,
    extensions: calls(listDeliveries),
    description: 'The deliveries to it, newest first.',
    args: pageArgs,
    resolve: async ({ id }, args, context) => {
      const list = await context.call(listDeliveries, { ...listInput(args), webhookId: id });
      return forwards(list, args.after);
    },
  }),
);

builder.queryField('delivery', (t) =>
  t.field({
    type: Delivery,
    nullable: true,
    extensions: calls(getDelivery),
    description: 'Returns a delivery; null with `NOT_FOUND` if there is none with this id.',
    args: { id: t.arg.id({ required: true, description: 'Its id.' }) },
    resolve: (_, { id }, context) => context.call(getDelivery, { id }),
  }),
);

const TestWebhookInput = builder.inputType('TestWebhookInput', {
  description: 'What to try a webhook with.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The webhook to try.' }),
    eventType: t.field({
      type: EventTypeEnum,
      description: 'The type of the sample; by default the first that the webhook wants.',
    }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const RedeliverInput = builder.inputType('RedeliverInput', {
  description: 'Which delivery to repeat.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The delivery to repeat.' }),
    webhookId: t.id({ description: 'The webhook that it is to; another one is NOT_FOUND.' }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const RecoverWebhookInput = builder.inputType('RecoverWebhookInput', {
  description: 'Which deliveries to repeat: those to a webhook that have failed.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The webhook.' }),
    since: t.string({
      required: true,
      description:
        'A time in RFC 3339: what has failed for good since then is repeated, whenever it happened. Or a cursor of the event log: what has failed of the events after it is.',
    }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

function changedDeliveryPayload(mutation: string) {
  return payloadType<ChangedDelivery>(mutation, (t) => ({
    delivery: t.expose('delivery', { type: Delivery, description: 'The delivery, which is on its way.' }),
  }));
}

const TestWebhookPayload = changedDeliveryPayload('testWebhook');
const RedeliverPayload = changedDeliveryPayload('redeliver');

const RecoverWebhookPayload = payloadType<ResultOf<typeof recoverWebhook>>('recoverWebhook', (t) => ({
  count: t.exposeInt('count', { description: 'How many deliveries are repeated.' }),
}));

builder.mutationFields((t) => ({
  testWebhook: t.field({
    type: TestWebhookPayload,
    nullable: true,
    description: testWebhook.summary,
    extensions: calls(testWebhook),
    args: { input: t.arg({ type: TestWebhookInput, required: true, description: 'Which one, and with what.' }) },
    resolve: (_, { input }, context) => context.call(testWebhook, input),
  }),
  redeliver: t.field({
    type: RedeliverPayload,
    nullable: true,
    description: redeliver.summary,
    extensions: calls(redeliver),
    args: { input: t.arg({ type: RedeliverInput, required: true, description: 'Which one.' }) },
    resolve: (_, { input }, context) => context.call(redeliver, input),
  }),
  recoverWebhook: t.field({
    type: RecoverWebhookPayload,
    nullable: true,
    description: recoverWebhook.summary,
    extensions: calls(recoverWebhook),
    args: { input: t.arg({ type: RecoverWebhookInput, required: true, description: 'Which ones.' }) },
    resolve: (_, { input }, context) => context.call(recoverWebhook, input),
  }),
}));
