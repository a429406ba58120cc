import type { StoredConversation } from '../../src/domain/conversation-record.ts';
import type { Message } from '../../src/domain/message-record.ts';
import type { Reads } from '../../src/domain/storage-port.ts';

/** A conversation with all of its messages, oldest first. */
export async function wholeConversation(
  { conversations, messages }: Pick<Reads, 'conversations' | 'messages'>,
  accountId: string,
  id: string,
): Promise<{ conversation: StoredConversation; messages: readonly Message[] } | undefined> {
  const conversation = await conversations.find(accountId, id);
  const [all = []] = await messages.ranges(accountId, [{ conversationId: id, from: 1, to: 10_000 }]);
  return conversation && { conversation, messages: all };
}
