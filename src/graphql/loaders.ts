import DataLoader from 'dataloader';
import type { Caller } from '../domain/caller.ts';
import type { Conversation } from '../domain/conversation.ts';
import { conversationsById } from '../domain/conversations.ts';
import { listMessageRanges, type Message, type MessageRange, messagesById } from '../domain/messages.ts';
import type { World } from '../domain/ports.ts';

/** Gathers what one GraphQL operation asks for by id or by range into one statement each. */
export interface Loaders {
  readonly conversation: DataLoader<string, Conversation | undefined>;
  readonly message: DataLoader<string, Message | undefined>;
  readonly messageRange: DataLoader<MessageRange, readonly Message[], string>;
}

export function createLoaders({ storage }: World, caller: Caller): Loaders {
  const context = { caller, storage };
  return {
    conversation: new DataLoader((ids) => conversationsById(context, ids)),
    message: new DataLoader((ids) => messagesById(context, ids)),
    messageRange: new DataLoader((ranges) => listMessageRanges(context, ranges), {
      cacheKeyFn: ({ conversationId, from, to }) => `${conversationId} ${from} ${to}`,
    }),
  };
}
