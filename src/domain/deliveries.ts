import * as z from 'zod';
import {
  type Attempt,
  type Delivery,
  type DeliveryOfWebhook,
  type DeliveryWithAttempts,
  deliveryView,
  newDelivery,
  type StoredDelivery,
  startedAnew,
} from './delivery-record.ts';
import { DomainError, notFound } from './errors.ts';
import { currentEventCursor, isEventCursor, sequenceAt } from './event-cursor.ts';
import { eventTypes } from './event-types.ts';
import { keyReused } from './idempotency.ts';
import { idInput } from './ids.ts';
import { type Context, operation } from './operation.ts';
import {
  checkStart,
  cursorInput,
  type List,
  limitInput,
  type NewestFirstReads,
  newestFirst,
  newestFirstInput,
} from './paging.ts';
import { sampleEvent } from './sample-event.ts';
import { countShape } from './shapes.ts';
import type { AttemptRange, Reads, Transaction } from './storage-port.ts';
import { timeInput, timestamp } from './time.ts';
import { TimeBudget } from './time-budget.ts';
import { findWebhook } from './webhook-record.ts';

/** A delivery with this many attempts cannot be repeated: REST returns all of them in one response. */
const maxAttempts = 100;

const oneDelivery = {
  id: idInput('delivery').describe('The delivery’s id.'),
  webhookId: idInput('webhook').nullish().describe('The webhook’s id.'),
};

/** @throws NOT_FOUND, also for a delivery to another webhook than the given one */
async function findDelivery(
  reads: Pick<Reads, 'deliveries'>,
  accountId: string,
  { id, webhookId }: { id: string; webhookId?: string | null | undefined },
): Promise<DeliveryOfWebhook> {
  const delivery = await reads.deliveries.find(accountId, id);
  if (delivery === undefined || (webhookId != null && webhookId !== delivery.webhookId)) {
    throw notFound('delivery');
  }
  return delivery;
}

/** The first `count` attempts of a delivery, oldest first. */
async function attemptsOf(
  reads: Pick<Reads, 'deliveries'>,
  accountId: string,
  deliveryId: string,
  count: number,
): Promise<readonly Attempt[]> {
  const [attempts = []] = await reads.deliveries.attempts(accountId, [{ deliveryId, from: 1, to: count }]);
  return attempts;
}

export const listDeliveries = operation({
  name: 'listDeliveries',
  summary: 'Lists the deliveries to a webhook, newest first, without their attempts.',
  scope: 'webhooks:manage',
  input: newestFirstInput('delivery').safeExtend({
    webhookId: idInput('webhook').describe('The webhook’s id.'),
  }),
  errors: ['NOT_FOUND'],
  async run({ caller, storage }, { webhookId, ...input }): Promise<List<Delivery>> {
    const accountId = caller.account.id;
    const { deliveries } = storage.read;
    const ofWebhook: NewestFirstReads<Delivery> = {
      async page(_, query) {
        const slice = await deliveries.page(accountId, webhookId, query);
        return { ...slice, items: slice.items.map(deliveryView) };
      },
      count: () => deliveries.count(accountId, webhookId),
    };
    const [list] = await Promise.all([
      newestFirst('delivery', ofWebhook, accountId, input),
      findWebhook(storage.read, accountId, webhookId),
    ]);
    return list;
  },
});

export const getDelivery = operation({
  name: 'getDelivery',
  summary: 'Returns a delivery with all its attempts.',
  scope: 'webhooks:manage',
  input: z.strictObject(oneDelivery),
  errors: ['NOT_FOUND'],
  async run({ caller, storage }, input): Promise<DeliveryWithAttempts> {
    const accountId = caller.account.id;
    // Across a network, the second read takes no time of its own.
    const [found, attempts] = await Promise.all([
      findDelivery(storage.read, accountId, input),
      attemptsOf(storage.read, accountId, input.id, maxAttempts),
    ]);
    const delivery = deliveryView(found);
    const { attemptCount } = delivery;
    // Either read can have seen an attempt that the other did not see.
    const isWhole = attempts.length >= attemptCount;
    return {
      ...delivery,
      attempts: isWhole
        ? attempts.slice(0, attemptCount)
        : await attemptsOf(storage.read, accountId, input.id, attemptCount),
    };
  },
});

/**
 * Like getDelivery for many ids at once, without attempts; undefined for each unknown id.
 * @throws FORBIDDEN
 */
export async function deliveriesById(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ids: readonly string[],
): Promise<readonly (Delivery | undefined)[]> {
  getDelivery.authorise(caller);
  const found = await storage.read.deliveries.findMany(caller.account.id, ids);
  return found.map((delivery) => delivery && deliveryView(delivery));
}

/** Input for a page of a delivery's attempts. */
export const attemptPageInput = z
  .strictObject({ limit: limitInput, after: cursorInput('attempt', [1]) })
  .check(checkStart({ attempt: ['number'] }));

/**
 * Attempts of many deliveries at once, oldest first. `onRead` is that of `MessageReads.ranges`.
 * @throws FORBIDDEN
 */
export async function attemptRanges(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ranges: readonly AttemptRange[],
  onRead: (bytes: number) => void,
): Promise<readonly (readonly Attempt[])[]> {
  getDelivery.authorise(caller);
  return await storage.read.deliveries.attempts(caller.account.id, ranges, onRead);
}

export interface ChangedDelivery {
  readonly delivery: DeliveryWithAttempts;
  /** The end of the event log at that time. */
  readonly eventCursor: string;
}

export const testWebhook = operation({
  name: 'testWebhook',
  summary:
    'Sends a sample event, marked `"test": true`, to a webhook, once: it is not retried. It does not appear in the event log.',
  scope: 'webhooks:manage',
  input: z.strictObject({
    id: idInput('webhook').describe('The webhook’s id.'),
    eventType: z
      .enum(eventTypes)
      .nullish()
      .describe('Type of the sample; by default the first that the webhook subscribes to.'),
  }),
  errors: ['NOT_FOUND'],
  repeatable: {},
  async run(context, { id, eventType }): Promise<ChangedDelivery> {
    const { caller, once, ids, now } = context;
    const accountId = caller.account.id;
    return await once(async (tx) => {
      const webhook = await findWebhook(tx, accountId, id);
      const cursor = await currentEventCursor(tx, accountId);
      const event = sampleEvent(eventType ?? webhook.events[0] ?? eventTypes[0], { ids, now });
      const { type, timestamp, data } = event;
      const head = { id: event.id, type, timestamp };
      const sample = JSON.stringify({ ...head, sequence: 0, cursor, apiVersion: 'v1', accountId, data, test: true });
      const delivery = newDelivery(context, id, { ...event, eventSequence: null, sample });
      await tx.deliveries.insert(accountId, delivery);
      const view = deliveryView({ ...delivery, webhookEnabled: webhook.enabled, isTried: false });
      return { delivery: { ...view, attempts: [] }, eventCursor: cursor };
    });
  },
});

export const redeliver = operation({
  name: 'redeliver',
  summary:
    'Repeats a delivery: at once, and if that fails on the whole retry schedule, unless it is of a sample. An attempt in progress counts as the repeat.',
  scope: 'webhooks:manage',
  input: z.strictObject(oneDelivery),
  errors: ['NOT_FOUND', 'QUOTA_EXCEEDED'],
  // REST requests name the webhook and GraphQL ones need not: both count as the same request.
  repeatable: { asked: ({ id }) => ({ id }) },
  async run({ caller, storage, once, now }, input): Promise<ChangedDelivery> {
    const accountId = caller.account.id;
    const { delivery, eventCursor } = await once(async (tx) => {
      const previous = await findDelivery(tx, accountId, input);
      if (previous.attemptCount >= maxAttempts) {
        throw new DomainError('QUOTA_EXCEEDED', `A delivery can be repeated until it has ${maxAttempts} attempts.`);
      }
      const next = startedAnew(previous, timestamp(now));
      await tx.deliveries.update(accountId, next);
      return { delivery: deliveryView(next), eventCursor: await currentEventCursor(tx, accountId) };
    });
    // Only a replayed result can belong to another webhook than the given one.
    if (input.webhookId != null && input.webhookId !== delivery.webhookId) throw keyReused();
    // Attempts contain long responses and are not stored with the result: the first `attemptCount` never change.
    const attempts = await attemptsOf(storage.read, accountId, delivery.id, delivery.attemptCount);
    return { delivery: { ...delivery, attempts }, eventCursor };
  },
});

export const recoveryShape = z
  .object({
    count: countShape('Number of deliveries being repeated.', 3),
  })
  .meta({ id: 'Recovery', description: 'The result of recoverWebhook.' });

interface RecoveredWebhook {
  /** Number of deliveries restarted. */
  readonly count: number;
  /** The end of the event log at that time. */
  readonly eventCursor: string;
  /** Where to continue, while there may be more. */
  readonly next?: FailedRange | undefined;
}

/** Selects failed deliveries, starting at an id. */
interface FailedRange {
  readonly fromId: string;
  readonly afterSequence: number;
  /** Epoch milliseconds. Missing where deliveries are selected by a cursor: whenever they failed. */
  readonly failedFromMs?: number;
}

/** How many failed deliveries are read at once. */
const recoverStep = 64;

export const recoverWebhook = operation({
  name: 'recoverWebhook',
  summary:
    'Repeats the failed deliveries to a webhook, but those of samples: those that failed since a time, or those of events after a cursor.',
  scope: 'webhooks:manage',
  input: z.strictObject({
    id: idInput('webhook').describe('The webhook’s id.'),
    since: z
      .string({ error: 'must be a string' })
      .refine((since) => timeInput.safeParse(since).success || isEventCursor(since), {
        error: 'must be an RFC 3339 time or a cursor of the event log',
      })
      .describe(
        'An RFC 3339 time, to repeat the deliveries that finally failed since then, however old their events are; or an event cursor, to repeat the failed deliveries of the events after it.',
      )
      .meta({ examples: ['2026-11-21T06:12:00.000Z'] }),
  }),
  errors: ['NOT_FOUND', 'CURSOR_EXPIRED'],
  // A repeated request continues where the first one stopped: no delivery is repeated twice, and all are counted.
  repeatable: { isPartial: ({ next }: RecoveredWebhook) => next !== undefined },
  async run({ caller, once, now }, { id, since }): Promise<RecoveredWebhook> {
    const accountId = caller.account.id;
    let done: RecoveredWebhook | undefined;
    do {
      const own = done;
      done = await once<RecoveredWebhook>(async (tx, part = own) => {
        await findWebhook(tx, accountId, id);
        const range = part?.next ?? (await failedSince(tx, accountId, since));
        const { count, next } = await recoverSome(tx, accountId, id, range, now);
        return { count: count + (part?.count ?? 0), next, eventCursor: await currentEventCursor(tx, accountId) };
      });
    } while (done.next !== undefined);
    return done;
  },
});

async function failedSince(tx: Transaction, accountId: string, since: string): Promise<FailedRange> {
  const time = timeInput.safeParse(since);
  return time.success
    ? { fromId: '', afterSequence: 0, failedFromMs: time.data } // even old deliveries may have failed since then
    : { fromId: '', afterSequence: await sequenceAt(tx, accountId, since) };
}

/** @returns the number restarted, and where to continue if there may be more */
async function recoverSome(
  tx: Transaction,
  accountId: string,
  webhookId: string,
  range: FailedRange,
  now: number,
): Promise<{ count: number; next: FailedRange | undefined }> {
  const budget = new TimeBudget(); // other writes can run between two of them
  const failed = await tx.deliveries.failed(accountId, webhookId, { fromId: range.fromId, limit: recoverStep });
  let count = 0;
  for (const [index, delivery] of failed.entries()) {
    if (isInRange(delivery, range) && delivery.attemptCount < maxAttempts) {
      await tx.deliveries.update(accountId, startedAnew(delivery, timestamp(now)));
      count++;
    }
    const isLast = index === recoverStep - 1;
    if (isLast || budget.isSpentWith(1)) return { count, next: { ...range, fromId: `${delivery.id}~` } };
  }
  return { count, next: undefined };
}

/** Excludes samples: whoever requested one has seen its result by now. */
function isInRange(
  { eventSequence, completedAt }: StoredDelivery,
  { afterSequence, failedFromMs = 0 }: FailedRange,
): boolean {
  const isAfter = eventSequence !== null && eventSequence > afterSequence;
  return isAfter && completedAt !== null && Date.parse(completedAt) >= failedFromMs;
}
