import DataLoader from 'dataloader';
import type { Caller } from '../domain/caller.ts';
import type { Conversation } from '../domain/conversation.ts';
import { conversationsById } from '../domain/conversations.ts';
import { attemptRanges, deliveriesById } from '../domain/deliveries.ts';
import type { Attempt, Delivery } from '../domain/delivery.ts';
import { type Lead, leadsById } from '../domain/leads.ts';
import { listMessageRanges, type Message, type MessageRange, messagesById } from '../domain/messages.ts';
import type { AttemptRange, World } from '../domain/ports.ts';
import type { Webhook } from '../domain/webhook.ts';
import { webhooksById } from '../domain/webhooks.ts';

/** Gathers what one GraphQL operation asks for by id or by range into one statement each. */
export interface Loaders {
  readonly conversation: DataLoader<string, Conversation | undefined>;
  readonly lead: DataLoader<string, Lead | undefined>;
  readonly message: DataLoader<string, Message | undefined>;
  readonly messageRange: DataLoader<MessageRange, readonly Message[], string>;
  readonly webhook: DataLoader<string, Webhook | undefined>;
  readonly delivery: DataLoader<string, Delivery | undefined>;
  readonly attemptRange: DataLoader<AttemptRange, readonly Attempt[], string>;
}

/**
 * @param cache whether what was loaded is kept: right for one query, and wrong for a subscription,
 * which is to see what is there now at each of its events
 */
export function createLoaders({ storage }: World, caller: Caller, { cache }: { cache: boolean }): Loaders {
  const context = { caller, storage };
  return {
    conversation: new DataLoader((ids) => conversationsById(context, ids), { cache }),
    lead: new DataLoader((ids) => leadsById(context, ids), { cache }),
    message: new DataLoader((ids) => messagesById(context, ids), { cache }),
    messageRange: new DataLoader((ranges) => listMessageRanges(context, ranges), {
      cache,
      cacheKeyFn: ({ conversationId, from, to }) => `${conversationId} ${from} ${to}`,
    }),
    webhook: new DataLoader((ids) => webhooksById(context, ids), { cache }),
    delivery: new DataLoader((ids) => deliveriesById(context, ids), { cache }),
    attemptRange: new DataLoader((ranges) => attemptRanges(context, ranges), {
      cache,
      cacheKeyFn: ({ deliveryId, from, to }) => `${deliveryId} ${from} ${to}`,
    }),
  };
}
