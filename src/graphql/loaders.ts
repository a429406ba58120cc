import DataLoader from 'dataloader';
import { accountsById } from '../domain/accounts.ts';
import { type ApiKey, apiKeysById } from '../domain/api-keys.ts';
import type { Caller } from '../domain/caller.ts';
import type { Conversation } from '../domain/conversation-record.ts';
import { conversationsById, getConversation } from '../domain/conversations.ts';
import { attemptRanges, deliveriesById } from '../domain/deliveries.ts';
import type { Attempt, Delivery } from '../domain/delivery-record.ts';
import { documentTexts } from '../domain/documents.ts';
import { type IdKind, orNobodysId } from '../domain/ids.ts';
import { type Lead, leadsById } from '../domain/leads.ts';
import type { Message } from '../domain/message-record.ts';
import { listMessageRanges, type MessageRange, messagesById } from '../domain/messages.ts';
import type { Ports } from '../domain/ports.ts';
import type { ReadPositions } from '../domain/read-position-record.ts';
import { readPositionsOf } from '../domain/read-positions.ts';
import type { AttemptRange } from '../domain/storage-port.ts';
import type { Webhook } from '../domain/webhook-record.ts';
import { webhooksById } from '../domain/webhooks.ts';
import { Room } from '../runtime/room.ts';
import { scheduler } from '../runtime/scheduler.ts';
import type { AnswerBudget } from './answer-budget.ts';

/** Conversations whose read positions are read at once, and messages, which can be long: a few milliseconds at most. */
const conversationsAtOnce = 100;
const messagesAtOnce = 25;
/** What is more than a page takes turns. */
const onPage = 20;
/**
 * How much the answers of an account to events read at once. Each of thousands of subscriptions has one to every event, and
 * what a database sends is decoded when it comes: with all at once, the requests of others waited behind it for seconds.
 */
export const eventReads = new Room({
  size: Number.POSITIVE_INFINITY,
  sizeOfAccount: 4,
  waitingOfAccount: Number.POSITIVE_INFINITY,
});

interface Context extends Pick<Ports, 'storage' | 'limiter' | 'turns'> {
  readonly caller: Caller;
}

/**
 * Batches what one GraphQL operation, or the answer to one event, loads by id or by range into one statement each. Most
 * need one or two of the loaders, so each is created on first use.
 */
export class Loaders {
  readonly #context: Context;
  readonly #budget: AnswerBudget;
  readonly #room: Room | undefined;
  #conversation?: DataLoader<string, Conversation | undefined>;
  #lead?: DataLoader<string, Lead | undefined>;
  #message?: DataLoader<string, Message | undefined>;
  #messageRange?: DataLoader<MessageRange, readonly Message[], string>;
  #readPositions?: DataLoader<string, ReadPositions>;
  #webhook?: DataLoader<string, Webhook | undefined>;
  #delivery?: DataLoader<string, Delivery | undefined>;
  #attemptRange?: DataLoader<AttemptRange, readonly Attempt[], string>;
  #account?: DataLoader<string, Awaited<ReturnType<typeof accountsById>>[number]>;
  #apiKey?: DataLoader<string, ApiKey | undefined>;
  #documentText?: DataLoader<string, string | undefined>;

  /**
   * @param budget what may be read for the answer
   * @param room where reads wait: `eventReads` for the answer to an event
   */
  constructor({ storage, limiter, turns }: Ports, caller: Caller, budget: AnswerBudget, room?: Room) {
    this.#context = { caller, storage, limiter, turns };
    this.#budget = budget;
    this.#room = room;
  }

  /** @throws FORBIDDEN at once: a page of leads may ask for a hundred conversations, ten thousand times together */
  get conversation() {
    getConversation.authorise(this.#context.caller);
    this.#conversation ??= this.#byId('conversation', conversationsById);
    return this.#conversation;
  }

  get lead() {
    this.#lead ??= this.#byId('lead', leadsById);
    return this.#lead;
  }

  get message() {
    this.#message ??= new DataLoader(
      async (ids) => {
        const messages = await this.#inTurn(
          (context) =>
            messagesById(
              context,
              ids.map((id) => orNobodysId('message', id)),
            ),
          ids.length,
        );
        this.#budget.read(messages.reduce((sum, message) => sum + Buffer.byteLength(message?.content ?? ''), 0));
        return messages;
      },
      { maxBatchSize: messagesAtOnce },
    );
    return this.#message;
  }

  get messageRange() {
    this.#messageRange ??= new DataLoader<MessageRange, readonly Message[], string>(
      (ranges) => this.#inTurn((context) => listMessageRanges(context, ranges, (bytes) => this.#budget.read(bytes))),
      { cacheKeyFn: ({ conversationId, from, to }) => `${conversationId} ${from} ${to}` },
    );
    return this.#messageRange;
  }

  get readPositions() {
    this.#readPositions ??= new DataLoader(
      (ids) => this.#inTurn(({ caller, storage }) => readPositionsOf(storage.read, caller, ids), ids.length),
      { maxBatchSize: conversationsAtOnce },
    );
    return this.#readPositions;
  }

  get webhook() {
    this.#webhook ??= this.#byId('webhook', webhooksById);
    return this.#webhook;
  }

  get delivery() {
    this.#delivery ??= this.#byId('delivery', deliveriesById);
    return this.#delivery;
  }

  get attemptRange() {
    this.#attemptRange ??= new DataLoader(
      (ranges) => this.#inTurn((context) => attemptRanges(context, ranges, (bytes) => this.#budget.read(bytes))),
      { cacheKeyFn: ({ deliveryId, from, to }) => `${deliveryId} ${from} ${to}` },
    );
    return this.#attemptRange;
  }

  get documentText() {
    this.#documentText ??= new DataLoader((ids) => this.#inTurn((context) => documentTexts(context, ids)));
    return this.#documentText;
  }

  get apiKey() {
    this.#apiKey ??= this.#byId('apiKey', apiKeysById);
    return this.#apiKey;
  }

  get account() {
    this.#account ??= this.#byId('account', accountsById);
    return this.#account;
  }

  async #inTurn<T>(load: (context: Context) => Promise<T>, count = 0): Promise<T> {
    const { id } = this.#context.caller.account;
    const entering = this.#room?.enter(id, 1);
    const leave = await entering;
    try {
      if (count > onPage || entering instanceof Promise) await scheduler.step(id);
      return await load(this.#context);
    } finally {
      leave?.();
    }
  }

  #byId<T>(
    kind: IdKind,
    load: (context: Context, ids: readonly string[]) => Promise<readonly T[]>,
  ): DataLoader<string, T> {
    return new DataLoader((ids) =>
      this.#inTurn((context) =>
        load(
          context,
          ids.map((id) => orNobodysId(kind, id)),
        ),
      ),
    );
  }
}
