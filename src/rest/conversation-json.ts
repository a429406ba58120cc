import type { OpenConversation } from '../domain/conversations.ts';
import { scheduler } from '../runtime/scheduler.ts';

/** Messages read and serialised at once: 1.5 MiB of JSON at most. */
const messagesAtOnce = 20;

/**
 * The JSON of a conversation with its messages in pieces, each made in a turn of the account.
 * @param first the sequence of the first message
 * @throws NOT_FOUND when the conversation is deleted meanwhile
 */
export async function* piecesWithMessages(
  { conversation, messages }: OpenConversation,
  first: number,
  accountId: string,
): AsyncGenerator<string> {
  const { messageCount } = conversation;
  yield `${JSON.stringify(conversation).slice(0, -1)},"messages":[`;
  for (let from = first; from <= messageCount; from += messagesAtOnce) {
    await scheduler.step(accountId);
    const page = await messages(from, Math.min(from + messagesAtOnce - 1, messageCount));
    yield (from === first ? '' : ',') + JSON.stringify(page).slice(1, -1);
  }
  yield ']}';
}
